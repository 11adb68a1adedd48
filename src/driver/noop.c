/* The driver that isolates nothing: programs run on the host as the user's own. It is asked for by name, or serves a
 * run whose mode is none; its capabilities say no to everything, so that a spec which needs more is an error.
 *
 * A child is watched through its pidfd; it gets SIGKILL when this process dies. */
#include "ops.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/spawn.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct noop;

struct host_exec {
	struct exec base;
	struct noop *owner;
	struct host_exec *next;
	pid_t pid;
	int pidfd;
	int tty;
	bool told_to_end; /* it got TERM, INT or KILL: nothing of its group may stay */
	bool lost;	  /* stop was called: it ends as EXEC_LOST */
	struct exec_status status;
	union {
		uv_poll_t exit; /* it runs */
		uv_idle_t idle; /* it never ran, and says so later */
	} watch;
};

struct noop {
	struct sandbox base;
	uv_loop_t *loop;
	const struct sandbox_params *params;
	struct sandbox_callbacks cb;
	struct host_exec *execs;
	uv_idle_t idle; /* answers that must not come from within a call */
	bool idle_open;
	void (*stopped)(void *arg, bool killed);
	void *stopped_arg;
};

static int probe(struct err *e)
{
	(void)e;
	return 0;
}

static void on_idle_closed(uv_handle_t *h)
{
	struct noop *n = h->data;

	n->idle_open = false;
	if (n->stopped && !n->execs)
		n->stopped(n->stopped_arg, false);
}

static void on_idle_ready(uv_idle_t *idle)
{
	struct noop *n = idle->data;

	uv_idle_stop(idle);
	n->cb.on_ready(n->cb.arg, NULL, 0);
}

static int start(struct sandbox *s, uv_loop_t *loop, const struct sandbox_callbacks *cb, struct err *e)
{
	struct noop *n = (struct noop *)s;

	(void)e;
	n->loop = loop;
	n->cb = *cb;
	(void)uv_idle_init(loop, &n->idle);
	n->idle.data = n;
	n->idle_open = true;
	(void)uv_idle_start(&n->idle, on_idle_ready);
	return 0;
}

static void check_stopped(struct noop *n)
{
	if (n->stopped && !n->execs && !n->idle_open)
		n->stopped(n->stopped_arg, false);
}

static void on_exec_closed(uv_handle_t *h)
{
	struct host_exec *x = h->data;
	struct noop *n = x->owner;

	for (struct host_exec **p = &n->execs; *p; p = &(*p)->next) {
		if (*p == x) {
			*p = x->next;
			break;
		}
	}
	close_quietly(x->pidfd);
	close_quietly(x->tty);
	x->base.done(x->base.arg, &x->status);
	free(x);
	check_stopped(n);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
	struct host_exec *x = poll->data;
	struct spawn_status st = {0};

	(void)status;
	(void)events;
	/* Before it is reaped: until then the group's number cannot belong to another. */
	if (x->told_to_end)
		(void)kill(-x->pid, SIGKILL);
	int r = spawn_reap(x->pid, &st);
	if (r == 0)
		return;
	x->status.end = r < 0 || x->lost ? EXEC_LOST : st.signaled ? EXEC_SIGNALED : EXEC_EXITED;
	x->status.code = st.code;
	x->status.core = st.core;
	uv_poll_stop(poll);
	uv_close((uv_handle_t *)poll, on_exec_closed);
}

static void signal_host(struct exec *base, int sig)
{
	struct host_exec *x = (struct host_exec *)base;

	x->told_to_end |= sig == SIGTERM || sig == SIGINT || sig == SIGKILL;
	/* 0: it was never started, and kill(0) would hit ourselves. */
	if (x->pid > 0 && kill(-x->pid, sig) < 0)
		(void)kill(x->pid, sig);
}

static void resize_host(struct exec *base, unsigned rows, unsigned cols)
{
	const struct host_exec *x = (struct host_exec *)base;
	const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

	if (x->tty >= 0)
		(void)ioctl(x->tty, TIOCSWINSZ, &size);
}

static const struct exec_ops host_exec_ops = {.signal = signal_host, .resize = resize_host};

/* An exec that never ran still answers like the guest's: later, with the errno. */
static void on_failed_idle(uv_idle_t *idle)
{
	uv_close((uv_handle_t *)idle, on_exec_closed);
}

static int exec_host(struct sandbox *s, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		     struct err *e)
{
	struct noop *n = (struct noop *)s;

	if (n->stopped)
		return err_set(e, ERR_SANDBOX, ESHUTDOWN, "start %s: the run is ending", o->argv[0]);
	struct host_exec *x = xcalloc(1, sizeof *x);
	*x = (struct host_exec){
		.base = {.ops = &host_exec_ops, .done = done, .arg = arg},
		.owner = n,
		.pidfd = -1,
		.tty = o->tty ? fcntl(o->stdio[0], F_DUPFD_CLOEXEC, 3) : -1,
	};
	const struct spawn_opts so = {
		.file = o->argv[0],
		.argv = spawn_words(o->argv),
		.envp = spawn_words(o->env),
		.stdio = {o->stdio[0], o->stdio[1], o->stdio[2]},
		.cwd = o->cwd,
		.own_group = true,
		.controlling_tty = o->tty,
		.death_signal = SIGKILL,
	};
	int r = spawn_start(&so, &x->pid, &x->pidfd, e);
	if (r == -EAGAIN || r == -ENOMEM || r == -EMFILE || r == -ENFILE) {
		close_quietly(x->tty);
		free(x);
		return r;
	}
	x->next = n->execs;
	n->execs = x;
	*ret = &x->base;
	if (r < 0) {
		x->status = (struct exec_status){.end = EXEC_NOT_FOUND, .code = -r};
		(void)uv_idle_init(n->loop, &x->watch.idle);
		x->watch.idle.data = x;
		(void)uv_idle_start(&x->watch.idle, on_failed_idle);
		return 0;
	}
	(void)uv_poll_init(n->loop, &x->watch.exit, x->pidfd);
	x->watch.exit.data = x;
	(void)uv_poll_start(&x->watch.exit, UV_READABLE, on_ended);
	return 0;
}

static void stop(struct sandbox *s, void (*done)(void *arg, bool killed), void *arg)
{
	struct noop *n = (struct noop *)s;

	n->stopped = done;
	n->stopped_arg = arg;
	for (struct host_exec *x = n->execs; x; x = x->next) {
		x->lost = true;
		signal_host(&x->base, SIGKILL);
	}
	uv_close((uv_handle_t *)&n->idle, on_idle_closed);
}

static void free_noop(struct sandbox *s)
{
	free(s);
}

static int open_terminal(struct sandbox *s)
{
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

	(void)s;
	return fd < 0 ? -errno : fd;
}

static const struct sandbox_ops ops = {
	.start = start, .exec = exec_host, .open_terminal = open_terminal, .stop = stop, .free = free_noop};

static int sandbox_new(const struct sandbox_params *p, struct sandbox **ret, struct err *e)
{
	struct noop *n = xcalloc(1, sizeof *n);

	(void)e;
	n->base.ops = &ops;
	n->params = p;
	*ret = &n->base;
	return 0;
}

const struct driver driver_noop = {.name = "noop", .probe = probe, .sandbox_new = sandbox_new};
