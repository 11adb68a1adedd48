/* `sandbox shell`: a shell in a sandbox, on a terminal of its own when we have one. */
#include "commands.h"
#include "program_command.h"

#include <base/err.h>

#include <unistd.h>

static int run(const struct invocation *inv, struct err *e)
{
	bool on_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);

	return program_command(inv->options, inv->n_args ? inv->args[0] : NULL, NULL, on_terminal, e);
}

static const struct option_row options[] = {
	PROGRAM_ROWS,
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion sandbox shell", "Look around in a sandbox of the current folder."},
	{"iterion sandbox shell main.bot", "In the one that main.bot describes."},
	{"echo 'id; ls /' | iterion sandbox shell", "Without a terminal the shell reads commands from standard input."},
	{NULL, NULL},
};

const struct command command_sandbox_shell = {
	.name = "sandbox shell",
	.operands = "[FILE]",
	.summary = "open a shell in a sandbox",
	.about = "As `sandbox exec` with your shell ($SHELL, or /bin/sh; in an image always /bin/sh), on a terminal of "
		 "its own: nothing inside can "
		 "write to "
		 "or read from your own terminal but what is shown and typed.",
	.examples = examples,
	.exits = program_exits,
	.options = options,
	.options_size = sizeof(struct program_opts),
	.max_args = 1,
	.run = run,
};
