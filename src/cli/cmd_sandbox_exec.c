/* `sandbox exec`: one program in a sandbox. */
#include "commands.h"
#include "program_command.h"

#include <base/err.h>

#include <errno.h>

static int run(const struct invocation *inv, struct err *e)
{
	if (inv->n_program)
		return program_command(inv->options, inv->n_args ? inv->args[0] : NULL, inv->program, false, e);
	int r = err_set(e, ERR_USAGE, EINVAL, "sandbox exec: the program to run is missing");
	err_hint(e, "Write it with its arguments behind --, such as `iterion sandbox exec -- ls -l`.");
	return r;
}

static const struct option_row options[] = {
	PROGRAM_ROWS,
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion sandbox exec -- ls -la", "Lists the current folder as a sandboxed node would see it."},
	{"iterion sandbox exec main.bot -- make test", "In the sandbox that main.bot describes."},
	{"iterion sandbox exec --rule '**.debian.org' -- curl -sI https://www.debian.org",
	 "With one domain reachable and no other."},
	{NULL, NULL},
};

const struct command command_sandbox_exec = {
	.name = "sandbox exec",
	.operands = "[FILE] -- PROGRAM [ARGUMENT]…",
	.summary = "run one program in a sandbox",
	.about = "Starts a sandbox as a run of the workflow FILE would, or without FILE one that sees the current "
		 "folder and the programs of the default image (with the native driver the host's), runs PROGRAM in it "
		 "and stops it. PROGRAM has this command's standard input, "
		 "output "
		 "and error as they are. SIGINT, SIGTERM and other signals are passed on to it; a third SIGINT or "
		 "SIGTERM "
		 "kills it.",
	.examples = examples,
	.exits = program_exits,
	.options = options,
	.options_size = sizeof(struct program_opts),
	.max_args = 1,
	.takes_program = true,
	.run = run,
};
