/* A tool in a process of its own.
 *
 * A search's cost depends on a regular expression and a tree that the model chose. Forked, it can be ended by the
 * clock, it can use up only the memory that it is given, and several of one message run at the same time. The child
 * changes nothing, writes its result to one pipe, and leaves by _exit. */
#include "procs.h"
#include "react.h"
#include "worker.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WORKER_MS = 60 * 1000, WORKER_MEMORY = 512 * 1024 * 1024 };

struct worker {
	struct tools *tools;
	struct tool_call *call;
	struct proc *proc;
	int fd;
	struct buf got; /* one byte (1: an error), then the text */
	struct timer limit;
	bool late;
};

static void child(const struct tool *tool, struct tools *t, struct jv input, int fd)
{
	struct tool_result r = TOOL_RESULT_INIT;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
#ifndef __SANITIZE_ADDRESS__
	struct rlimit memory = {WORKER_MEMORY, WORKER_MEMORY};
	(void)setrlimit(RLIMIT_AS, &memory);
#endif
	struct rlimit no_core = {0, 0};
	(void)setrlimit(RLIMIT_CORE, &no_core);
	tool->run(t, input, &r);
	char head = r.error ? 1 : 0;
	int w = fd_write_all(fd, &head, 1);
	if (w == 0)
		w = fd_write_all(fd, buf_str(&r.text), r.text.len);
	_exit(w < 0);
}

static void drain(struct worker *w)
{
	for (;;) {
		if (buf_reserve(&w->got, MIN((size_t)64 * 1024, w->got.max - w->got.len)) < 0)
			return;
		size_t room = MIN((size_t)64 * 1024, w->got.max - w->got.len);
		ssize_t n = room ? read(w->fd, w->got.data + w->got.len, room) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n == 0 || errno != EAGAIN)
				react_forget(w->tools->react, w->fd);
			return;
		}
		w->got.len += (size_t)n;
	}
}

static void on_output(void *arg, short revents)
{
	(void)revents;
	drain(arg);
}

static void on_late(void *arg)
{
	struct worker *w = arg;

	w->late = true;
	proc_signal(w->proc, SIGKILL);
}

static void free_worker(void *arg)
{
	struct worker *w = arg;

	buf_done(&w->got);
	close_quietly(w->fd);
	free(w);
}

static void on_ended(void *arg, const struct spawn_status *status)
{
	struct worker *w = arg;
	struct tool_call *call = w->call;

	drain(w);
	react_forget(w->tools->react, w->fd);
	react_timer_stop(w->tools->react, &w->limit);
	if (w->late)
		tool_fail(&call->result, "The search took longer than %d s and was ended: narrow it by path or glob.",
			  WORKER_MS / 1000);
	else if (status->signaled || status->code != 0 || !w->got.len)
		tool_fail(&call->result, "The search ran out of memory: use a simpler pattern or a smaller folder.");
	else if (w->got.data[0])
		tool_fail(&call->result, "%.*s", (int)(w->got.len - 1), w->got.data + 1);
	else
		(void)buf_add(&call->result.text, w->got.data + 1, w->got.len - 1);
	free_worker(w);
	call->done(call);
}

static const struct proc_cb cb = {on_ended, free_worker};

bool worker_start(const struct tool *tool, struct tools *t, struct jv input, struct tool_call *call)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return tool_fail(&call->result, "No pipe can be made: %s.", strerror(errno));
	auto_fd in = fds[0];
	auto_fd out = fds[1];
	pid_t pid = fork();
	if (pid < 0)
		return tool_fail(&call->result, "No process can be started: %s.", strerror(errno));
	if (pid == 0) {
		(void)setpgid(0, 0);
		child(tool, t, input, out);
	}
	/* On both sides, so that the group is there whoever comes first. */
	(void)setpgid(pid, pid);
	struct worker *w = xcalloc(1, sizeof *w);
	*w = (struct worker){.tools = t, .call = call, .fd = TAKE_FD(in), .got = BUF_INIT(4 * RESULT_MAX)};
	(void)!fd_set_nonblock(w->fd, true);
	w->proc = procs_add(t->procs, pid, &cb, w);
	w->limit = (struct timer){.due = on_late, .arg = w};
	react_timer(t->react, &w->limit, WORKER_MS);
	react_watch(t->react, w->fd, POLLIN, on_output, w);
	return true;
}
