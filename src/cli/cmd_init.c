/* `init`: a first workflow file, small enough to be read whole. An existing file is never touched. */
#include "commands.h"
#include "output.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char name[] = "main.bot";
static const char text[] = "## strict-escape: on\n"
			   "## A workflow: nodes, and edges between them. Run it with `iterion run main.bot`.\n"
			   "\n"
			   "vars:\n"
			   "  who: string = \"world\"\n"
			   "\n"
			   "## A tool runs a shell command. What is put in by {{…}} is quoted for the shell.\n"
			   "tool greet:\n"
			   "  command: |\n"
			   "    echo hello {{vars.who}}\n"
			   "\n"
			   "tool look:\n"
			   "  command: |\n"
			   "    echo \"the first node said:\" {{outputs.greet.output}}\n"
			   "    ls\n"
			   "\n"
			   "workflow main:\n"
			   "  entry: greet\n"
			   "  ## A sandbox of the host's own programs, in which only this folder can be written, and "
			   "with no network but the\n"
			   "  ## hosts that rules name.\n"
			   "  sandbox:\n"
			   "    mode: inline\n"
			   "    network:\n"
			   "      mode: allowlist\n"
			   "      rules: [\"*.example.org\"]\n"
			   "  greet -> look\n"
			   "  look -> done\n";

/* With link(2) from a file without a name: it is there whole or not at all, and never in place of another. */
static int write_new(int dir, struct err *e)
{
	auto_fd fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
	bool unnamed = fd >= 0;

	if (!unnamed)
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
	if (r == 0 && unnamed) {
		char self[64];
		snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
		r = linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
	} else if (r < 0 && !unnamed && fd >= 0) {
		(void)unlinkat(dir, name, 0);
	}
	if (r == 0)
		return 0;
	(void)err_sys(e, -r, "write %s", name);
	if (r == -EEXIST) {
		err_set_kind(e, ERR_INPUT);
		err_hint(e, "It stays as it is; name another folder, or move it away.");
	} else {
		err_hint(e, "Name a folder that you may write.");
	}
	return r;
}

static int run(const struct invocation *inv, struct err *e)
{
	const char *where = inv->n_args ? inv->args[0] : ".";
	int r = inv->n_args ? dir_make(AT_FDCWD, where, 0755, e) : 0;

	auto_fd dir = r < 0 ? r : dir_open(AT_FDCWD, where, e);
	if (dir < 0) {
		err_hint(e, "Name a folder that exists, or whose parent you may write.");
		return dir;
	}
	r = write_new(dir, e);
	if (r < 0)
		return r;
	auto_free char *path = path_join(where, name);
	out_printf("wrote %s; run it with `iterion run %s`\n", inv->n_args ? path : name, inv->n_args ? path : name);
	return 0;
}

static const struct help_row examples[] = {
	{"iterion init", "Writes main.bot into the current folder."},
	{"iterion init try && iterion run try/main.bot --workspace try", "Makes the folder and runs what is in it."},
	{NULL, NULL},
};

const struct command command_init = {
	.name = "init",
	.operands = "[DIR]",
	.summary = "write a first workflow file",
	.about = "Writes main.bot, a workflow of two tools in a sandbox, into DIR (default: the current folder). An "
		 "existing file "
		 "is not touched.",
	.examples = examples,
	.max_args = 1,
	.run = run,
};
