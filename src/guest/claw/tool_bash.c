/* Bash: a command in a process group of its own, with stdin empty and both outputs in one stream.
 *
 * The command is over when its shell has ended; whatever it left in its group is killed then, and output that still
 * comes from what left the group is not waited for. `cd` lasts: the folder in which a command ended is where the next
 * one starts. At the time limit the group gets TERM, and KILL two seconds later. */
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
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USUAL_MS = 120 * 1000, MOST_MS = 600 * 1000, GRACE_MS = 2000, COMMAND_MAX = 100 * 1000 };

struct bash {
	struct tools *tools;
	struct tool_call *call;
	struct proc *proc;
	int fd;
	struct capture output;
	struct timer limit;
	long long limit_ms;
	bool late;
	char *cwd_file;
};

static void on_output(void *arg, short revents)
{
	struct bash *b = arg;
	(void)revents;

	if (!capture_read(&b->output, b->tools, b->fd, 256 * 1024))
		react_forget(b->tools->react, b->fd);
}

static void on_limit(void *arg)
{
	struct bash *b = arg;

	proc_signal(b->proc, b->late ? SIGKILL : SIGTERM);
	if (!b->late)
		react_timer(b->tools->react, &b->limit, GRACE_MS);
	b->late = true;
}

/* Where the next command starts. */
static void take_cwd(struct bash *b)
{
	struct tools *t = b->tools;
	char *got = NULL;
	struct stat st;

	int r = b->cwd_file ? file_read(AT_FDCWD, b->cwd_file, PATH_MAX, &got, NULL, NULL) : -ENOENT;
	auto_free char *dir = got;
	if (b->cwd_file)
		(void)unlink(b->cwd_file);
	if (r == 0 && strlen(dir) > 1 && dir[0] == '/' && dir[strlen(dir) - 1] == '\n') {
		dir[strlen(dir) - 1] = '\0';
		if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode)) {
			free(t->cwd);
			t->cwd = TAKE_PTR(dir);
		}
	}
	if (stat(t->cwd, &st) < 0 || !S_ISDIR(st.st_mode)) {
		free(t->cwd);
		t->cwd = xstrdup(t->work_dir);
	}
}

static void write_result(struct bash *b, const struct spawn_status *status)
{
	struct tool_result *r = &b->call->result;

	capture_write(&b->output, &r->text);
	r->error = b->late || status->signaled || status->code != 0;
	if (r->text.len && r->text.data[r->text.len - 1] != '\n' && r->error)
		(void)buf_putc(&r->text, '\n');
	if (b->late)
		(void)buf_printf(&r->text, "The command was ended after %lld ms, its time limit.", b->limit_ms);
	else if (status->signaled)
		(void)buf_printf(&r->text, "The command was ended by signal %d.", status->code);
	else if (status->code != 0)
		(void)buf_printf(&r->text, "Exit code %d", status->code);
	else if (!r->text.len)
		(void)buf_puts(&r->text, "(no output)");
}

static void free_bash(void *arg)
{
	struct bash *b = arg;

	capture_done(&b->output);
	close_quietly(b->fd);
	free(b->cwd_file);
	free(b);
}

static void on_ended(void *arg, const struct spawn_status *status)
{
	struct bash *b = arg;
	struct tool_call *call = b->call;

	(void)capture_read(&b->output, b->tools, b->fd, 1024 * 1024);
	react_forget(b->tools->react, b->fd);
	react_timer_stop(b->tools->react, &b->limit);
	write_result(b, status);
	take_cwd(b);
	free_bash(b);
	call->done(call);
}

static const struct proc_cb cb = {on_ended, free_bash};

static bool start(struct tools *t, const char *command, long long limit_ms, struct tool_call *call)
{
	const char *scratch = tools_scratch(t);
	struct err e = ERR_INIT;
	auto_strv argv = {0};
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return tool_fail(&call->result, "No pipe can be made: %s.", strerror(errno));
	auto_fd in = fds[0];
	auto_fd out = fds[1];
	auto_free char *cwd_file = scratch ? xasprintf("%s/cwd", scratch) : NULL;
	struct bash *b = xcalloc(1, sizeof *b);
	shell_argv(&argv, command, cwd_file);
	struct spawn_opts o = {
		.file = argv.v[0],
		.argv = argv.v,
		.envp = environ,
		.stdio = {-1, out, out},
		.cwd = t->cwd,
	};
	b->proc = procs_start(t->procs, &o, &cb, b, &e);
	if (!b->proc) {
		free(b);
		return tool_fail(&call->result, "The command cannot be started: %s.", e.msg);
	}
	b->tools = t;
	b->call = call;
	b->fd = TAKE_FD(in);
	b->limit_ms = limit_ms;
	b->limit = (struct timer){.due = on_limit, .arg = b};
	b->cwd_file = TAKE_PTR(cwd_file);
	capture_init(&b->output);
	(void)!fd_set_nonblock(b->fd, true);
	react_timer(t->react, &b->limit, (uint64_t)limit_ms);
	react_watch(t->react, b->fd, POLLIN, on_output, b);
	return true;
}

static bool bash_start(struct tools *t, struct jv input, struct tool_call *call)
{
	struct tool_result *r = &call->result;
	long long limit_ms = USUAL_MS;
	bool background = false;
	char *got = NULL;

	bool good = arg_str(input, "command", &got, r) && arg_opt_int(input, "timeout", 1, MOST_MS, &limit_ms, r) &&
		    arg_opt_bool(input, "run_in_background", &background, r);
	auto_free char *command = got;
	if (!good)
		return false;
	if (!command[0])
		return tool_fail(r, "command is empty.");
	if (strlen(command) > COMMAND_MAX)
		return tool_fail(r, "command is longer than %d bytes: write it to a file and run that.", COMMAND_MAX);
	if (!background)
		return start(t, command, limit_ms, call);
	(void)shells_start(t->shells, command, r);
	return false;
}

const struct tool tool_bash = {
	.name = "Bash",
	.description =
		"Runs a shell command and returns its output (stdout and stderr together). The working folder lasts "
		"from "
		"one command to the next; other state of the shell does not. stdin is empty. A command that runs "
		"longer "
		"than its timeout is ended. Output past 30000 characters is shortened, and a file holds the whole. For "
		"servers and other long tasks use run_in_background; a process that a command leaves behind is killed.",
	.schema = "{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\"},\"timeout\":{\"type\":"
		  "\"number\",\"description\":\"milliseconds, at most 600000; 120000 when absent\"},\"description\":{"
		  "\"type\":\"string\",\"description\":\"what it does, in a few words\"},\"run_in_background\":{"
		  "\"type\":\"boolean\",\"description\":\"return at once; see BashOutput and KillShell\"}},"
		  "\"required\":[\"command\"]}",
	.start = bash_start,
};
