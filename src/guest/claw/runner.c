/* `__claw-runner`: the agent loop as a process.
 *
 * stdin and stdout are the launcher's; nothing else is written there, and the tools get neither. It ends when the last
 * word was said and is written, when the launcher is gone, or at TERM and INT; in each case everything that the tools
 * started ends with it. SIGCHLD comes by the same descriptor as the other signals. */
#include "../guest.h"
#include "loop.h"
#include "procs.h"
#include "react.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct runner {
	struct react *react;
	struct procs *procs;
	struct loop *loop;
	int signals;
	int killed_by; /* the signal, or 0 */
};

static void on_envelope(void *arg, const struct envelope *env)
{
	struct runner *r = arg;

	loop_envelope(r->loop, env);
}

static void on_bad(void *arg, const struct err *e)
{
	struct runner *r = arg;

	loop_bad(r->loop, e);
}

static void on_end(void *arg)
{
	struct runner *r = arg;

	react_stop(r->react);
}

static void on_flushed(void *arg)
{
	struct runner *r = arg;

	loop_flushed(r->loop);
}

static void on_signal(void *arg, short revents)
{
	struct runner *r = arg;
	struct signalfd_siginfo si;
	(void)revents;

	if (read(r->signals, &si, sizeof si) != (ssize_t)sizeof si)
		return;
	if (si.ssi_signo == SIGCHLD) {
		procs_reap(r->procs);
		return;
	}
	r->killed_by = (int)si.ssi_signo;
	react_stop(r->react);
}

static int open_signals(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGCHLD);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, ret_set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, ret_set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int guest_claw_runner(int argc, char **argv)
{
	static const struct wire_cb cb = {on_envelope, on_bad, on_end, on_flushed};
	struct runner r = {0};
	sigset_t set;
	int code;
	(void)argc, (void)argv;

	/* The tools run as the same user: none is to reach this one's pipes by /proc, or trace it. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	r.react = react_new();
	r.procs = procs_new();
	auto_fd signals = open_signals(&set);
	r.signals = signals;
	r.loop = loop_new(r.react, r.procs);
	struct wire *w = wire_new(r.react, STDIN_FILENO, STDOUT_FILENO, &cb, &r);
	loop_set_wire(r.loop, w);
	if (signals >= 0)
		react_watch(r.react, signals, POLLIN, on_signal, &r);
	int failed = signals < 0 ? -1 : react_run(r.react);
	bool over = loop_over(r.loop, &code);
	loop_free(r.loop);
	procs_free(r.procs);
	/* No tool is left now, and a signal may end this as it ends any program. */
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	if (over && wire_drain(w) < 0)
		code = 1;
	wire_free(w);
	react_free(r.react);
	if (r.killed_by)
		return 128 + r.killed_by;
	return failed < 0 ? 1 : code;
}
