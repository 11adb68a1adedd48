/* From argv to the exit code: find the command, parse its options, run it, print its error.
 *
 * A command returns its exit code, or -errno with an error, and never prints an error or exits itself. Nothing is
 * prepared here that only some commands need: `iterion version` is to cost no more than starting a program. */
#include "claw_runner.h"
#include "command.h"
#include "output.h"

#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <image/worker.h>

#include <errno.h>
#include <unistd.h>

/* `iterion` alone, a group alone, or `--help` behind either. */
static int show_group(size_t n, const char *const *words, size_t depth, struct err *e)
{
	if (depth < n && !str_eq(words[depth], "--help") && !str_eq(words[depth], "-h")) {
		int r = err_set(e, ERR_USAGE, EINVAL, "%s: there is no such option without a command", words[depth]);
		err_hint(e, "`iterion --help` lists the commands; options stand behind the command.");
		return r;
	}
	if (depth == n) {
		int r = err_set(e, ERR_USAGE, EINVAL, "iterion: a command is missing%s%s", n ? " behind " : "",
				n ? words[n - 1] : "");
		err_hint(e, "`iterion%s%s --help` lists the commands.", n ? " " : "", n ? words[0] : "");
		return r;
	}
	help_group(depth, words);
	return 0;
}

static int run_command(const struct command *c, size_t n, const char *const *words, struct err *e)
{
	auto_parsed p = {0};
	int r = options_parse(c, n, words, &p, e);

	if (r < 0)
		return r;
	if (p.help) {
		help_command(c);
		return 0;
	}
	return c->run(&p.inv, e);
}

static int dispatch(size_t n, const char *const *words, struct err *e)
{
	static const char *const version[] = {"version", NULL};
	size_t used;
	bool help = n > 0 && str_eq(words[0], "help");

	if (n > 0 && str_eq(words[0], "__claw-runner"))
		return claw_runner_exec(words, e);
	if (n == 1 && str_eq(words[0], IMAGE_WORKER))
		return image_worker(STDIN_FILENO, STDOUT_FILENO);
	if (n == 1 && str_eq(words[0], "--version")) {
		words = version;
	} else if (help) {
		/* `help sandbox exec` is `sandbox exec --help`. */
		n--;
		words++;
	}
	const struct command *c = command_find(n, words, &used, e);
	if (e->kind != ERR_NONE)
		return -EINVAL;
	if (help && c)
		return help_command(c), 0;
	if (help)
		return help_group(used, words), 0;
	if (!c)
		return show_group(n, words, used, e);
	return run_command(c, n - used, words + used, e);
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;

	output_begin();
	size_t n = argc > 1 ? (size_t)argc - 1 : 0;
	int r = dispatch(n, (const char *const *)argv + (argc > 0), &e);
	if (r < 0) {
		show_error(&e);
		r = err_exit_code(e.kind);
		/* An error without a kind is still no success. */
		r = r ? r : 1;
	}
	struct err failed = ERR_INIT;
	if (output_end(&failed) < 0) {
		show_error(&failed);
		r = r ? r : 1;
	}
	return r;
}
