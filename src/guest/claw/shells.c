/* Commands in the background: Bash with run_in_background, BashOutput, KillShell.
 *
 * Each has its own capture, which BashOutput empties, so that what was shown once is not shown again and what nobody
 * asks for stays within the capture's bounds. They end with the runner at the latest. */
#include "args.h"
#include "capture.h"
#include "procs.h"
#include "react.h"
#include "shells.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SHELLS = 64, MAX_RUNNING = 16 };

struct shell {
	struct shells *all;
	struct proc *proc; /* NULL once it has ended */
	int fd;
	struct capture output;
	struct spawn_status status;
	bool killed;
	unsigned number;
};

struct shells {
	struct tools *tools;
	struct shell *v[MAX_SHELLS];
	size_t n;
	unsigned last_number;
};

struct shells *shells_new(struct tools *t)
{
	struct shells *s = xcalloc(1, sizeof *s);

	s->tools = t;
	return s;
}

static void free_shell(struct shell *x)
{
	react_forget(x->all->tools->react, x->fd);
	if (x->proc)
		proc_drop(x->proc);
	close_quietly(x->fd);
	capture_done(&x->output);
	free(x);
}

void shells_free(struct shells *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free_shell(s->v[i]);
	free(s);
}

void shell_argv(struct strv *argv, const char *command, const char *keep_cwd)
{
	/* The command sees no parameters; its folder is noted when it comes to its end, and its status kept. */
	static const char script[] = "iterion_cmd_=$1; iterion_cwd_=$2; set --; eval \"$iterion_cmd_\"; "
				     "iterion_cmd_=$?; pwd -P >\"$iterion_cwd_\" 2>/dev/null; exit $iterion_cmd_";
	const char *shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";

	strv_add(argv, shell);
	strv_add(argv, "-c");
	strv_add(argv, keep_cwd ? script : command);
	if (!keep_cwd)
		return;
	strv_add(argv, "bash");
	strv_add(argv, command);
	strv_add(argv, keep_cwd);
}

static void on_output(void *arg, short revents)
{
	struct shell *x = arg;
	(void)revents;

	if (!capture_read(&x->output, x->all->tools, x->fd, 256 * 1024))
		react_forget(x->all->tools->react, x->fd);
}

static void on_ended(void *arg, const struct spawn_status *status)
{
	struct shell *x = arg;

	(void)capture_read(&x->output, x->all->tools, x->fd, 1024 * 1024);
	react_forget(x->all->tools->react, x->fd);
	close_quietly(x->fd);
	x->fd = -1;
	x->proc = NULL;
	x->status = *status;
}

static size_t running(const struct shells *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += s->v[i]->proc != NULL;
	return n;
}

/* Room for one more: the oldest that has ended goes. */
static bool make_room(struct shells *s, struct tool_result *r)
{
	if (running(s) >= MAX_RUNNING)
		return tool_fail(r, "%d commands run in the background already: end one by KillShell.", MAX_RUNNING);
	for (size_t i = 0; s->n >= MAX_SHELLS && i < s->n; i++) {
		if (s->v[i]->proc)
			continue;
		free_shell(s->v[i]);
		memmove(s->v + i, s->v + i + 1, (--s->n - i) * sizeof *s->v);
	}
	return true;
}

bool shells_start(struct shells *s, const char *command, struct tool_result *r)
{
	static const struct proc_cb cb = {.ended = on_ended};
	struct err e = ERR_INIT;
	auto_strv argv = {0};
	int fds[2];

	if (!make_room(s, r))
		return false;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return tool_fail(r, "No pipe can be made: %s.", strerror(errno));
	auto_fd in = fds[0];
	auto_fd out = fds[1];
	shell_argv(&argv, command, NULL);
	struct spawn_opts o = {
		.file = argv.v[0],
		.argv = argv.v,
		.envp = environ,
		.stdio = {-1, out, out},
		.cwd = s->tools->cwd,
	};
	struct shell *x = xcalloc(1, sizeof *x);
	x->all = s;
	x->proc = procs_start(s->tools->procs, &o, &cb, x, &e);
	if (!x->proc) {
		free(x);
		return tool_fail(r, "The command cannot be started: %s.", e.msg);
	}
	(void)!fd_set_nonblock(in, true);
	x->fd = TAKE_FD(in);
	x->number = ++s->last_number;
	capture_init(&x->output);
	react_watch(s->tools->react, x->fd, POLLIN, on_output, x);
	s->v[s->n++] = x;
	(void)buf_printf(&r->text, "The command runs in the background as bash_%u. BashOutput shows its output.",
			 x->number);
	return true;
}

static struct shell *find(struct shells *s, const char *id)
{
	char name[32];

	for (size_t i = 0; i < s->n; i++) {
		snprintf(name, sizeof name, "bash_%u", s->v[i]->number);
		if (strcmp(name, id) == 0)
			return s->v[i];
	}
	return NULL;
}

static struct shell *shell_arg(struct tools *t, struct jv input, const char *name, struct tool_result *r)
{
	char *got = NULL;
	bool good = arg_str(input, name, &got, r);
	auto_free char *id = got;
	struct shell *x = good ? find(t->shells, id) : NULL;

	if (good && !x)
		tool_fail(r, "There is no background command %.100s.", id);
	return x;
}

static void output_run(struct tools *t, struct jv input, struct tool_result *r)
{
	struct shell *x = shell_arg(t, input, "bash_id", r);

	if (!x)
		return;
	if (x->fd >= 0)
		(void)capture_read(&x->output, t, x->fd, 1024 * 1024);
	if (x->proc)
		(void)buf_puts(&r->text, "status: running\n");
	else if (x->killed)
		(void)buf_puts(&r->text, "status: killed\n");
	else if (x->status.signaled)
		(void)buf_printf(&r->text, "status: ended by signal %d\n", x->status.code);
	else
		(void)buf_printf(&r->text, "status: ended, exit code %d\n", x->status.code);
	(void)buf_puts(&r->text, x->output.total ? "output since the last look:\n" : "no new output\n");
	capture_write(&x->output, &r->text);
	capture_done(&x->output);
}

static void kill_run(struct tools *t, struct jv input, struct tool_result *r)
{
	struct shell *x = shell_arg(t, input, "shell_id", r);

	if (!x)
		return;
	if (!x->proc) {
		tool_fail(r, "bash_%u has ended already.", x->number);
		return;
	}
	x->killed = true;
	proc_signal(x->proc, SIGKILL);
	(void)buf_printf(&r->text, "bash_%u is killed.", x->number);
}

const struct tool tool_bash_output = {
	.name = "BashOutput",
	.description = "Shows whether a background command still runs, and what it wrote since the last look.",
	.schema = "{\"type\":\"object\",\"properties\":{\"bash_id\":{\"type\":\"string\",\"description\":\"the name "
		  "that Bash gave, such as bash_1\"}},\"required\":[\"bash_id\"]}",
	.run = output_run,
};

const struct tool tool_kill_shell = {
	.name = "KillShell",
	.description = "Kills a background command with everything it started.",
	.schema = "{\"type\":\"object\",\"properties\":{\"shell_id\":{\"type\":\"string\",\"description\":\"the name "
		  "that Bash gave, such as bash_1\"}},\"required\":[\"shell_id\"]}",
	.run = kill_run,
};
