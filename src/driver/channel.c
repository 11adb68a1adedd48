/* The host's end of a guest's control channel: frames in, callbacks out, and the table of running execs.
 *
 * What comes from the guest is as hostile as the rest of the sandbox: an unknown stream, a frame out of order or a
 * malformed record closes the channel, and with it the sandbox. An exec's object is freed after its done callback, or
 * when the channel goes. */
#include "channel.h"
#include "ops.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/pack.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A program that got SIGKILL ends at once, save for what the kernel has to give back. */
enum { KILL_ANSWER_MS = 5000 };

struct remote_exec {
	struct exec base;
	struct channel *channel;
	uint32_t stream;
	int tty;     /* our own descriptor of the exec's terminal, for its size; -1: none */
	bool killed; /* SIGKILL was sent: its end must follow */
};

struct channel {
	struct frame_conn *conn;
	struct channel_callbacks cb;
	uv_poll_t poll;
	uv_timer_t unanswered; /* runs while a killed exec has not ended */
	unsigned open_handles;
	bool attached;
	bool ready;
	bool closed;
	uint32_t last_stream;
	struct remote_exec **execs;
	size_t n;
	size_t cap;
	void (*on_freed)(void *arg);
	void *freed_arg;
};

struct channel *channel_new(int fd, const struct guest_config *cfg)
{
	struct channel *c = xcalloc(1, sizeof *c);
	auto_buf b = BUF_INIT(256);

	c->conn = frame_conn_new(fd, FRAME_MAX_PAYLOAD);
	/* A few bytes into an empty socket: it can only fail when the other end is gone, and that shows on reading. */
	if (guest_config_pack(&b, cfg) == 0)
		(void)!frame_send(c->conn, GUEST_CONFIG, 0, b.data, b.len, NULL, 0);
	return c;
}

void channel_end(struct channel *c)
{
	/* A socket that cannot take it belongs to a guest that is gone or hangs; whoever calls this makes sure. */
	if (!c->closed)
		(void)!frame_send(c->conn, GUEST_END, 0, "", 0, NULL, 0);
}

static void finish(struct remote_exec *x, struct exec_status st)
{
	if (x->base.done)
		x->base.done(x->base.arg, &st);
	close_quietly(x->tty);
	free(x);
}

static void lose_all(struct channel *c)
{
	/* A callback may stop the session, but cannot start an exec: closed is set. */
	while (c->n)
		finish(c->execs[--c->n], (struct exec_status){.end = EXEC_LOST});
}

void channel_close(struct channel *c)
{
	if (c->closed)
		return;
	c->closed = true;
	if (c->attached) {
		uv_poll_stop(&c->poll);
		uv_timer_stop(&c->unanswered);
	}
	lose_all(c);
}

static void broken(struct channel *c, const struct err *e)
{
	if (c->closed)
		return;
	channel_close(c);
	c->cb.on_closed(c->cb.arg, e);
}

static int protocol_error(struct err *e, const char *what)
{
	int r = err_set(e, ERR_PROTOCOL, EPROTO, "the sandbox's init broke the protocol: %s", what);

	err_hint(e, "The sandbox was ended. Something inside may have tried to take over its init; see its events.");
	return r;
}

static int on_ready(struct channel *c, const struct frame *f, struct err *e)
{
	struct unpack u = {.p = f->payload, .left = f->len};
	uint32_t version = unpack_u32(&u), has_terminals = unpack_u32(&u);
	int fds[FRAME_MAX_FDS];

	if (!unpack_end(&u) || has_terminals > 1 || has_terminals > f->nfds || c->ready)
		return protocol_error(e, "a second or malformed ready");
	if (version != GUEST_PROTOCOL_VERSION) {
		(void)err_set(e, ERR_PROTOCOL, EPROTO, "the guest speaks version %u of the protocol, not %u", version,
			      (unsigned)GUEST_PROTOCOL_VERSION);
		err_hint(e, "Install iterion and iterion-guest of the same version.");
		return -EPROTO;
	}
	c->ready = true;
	for (size_t i = 0; i < f->nfds; i++) {
		fds[i] = f->fds[i];
		f->fds[i] = -1;
	}
	c->cb.on_ready(c->cb.arg, has_terminals ? fds[0] : -1, fds + has_terminals, f->nfds - has_terminals);
	return 0;
}

static bool waits_for_killed(const struct channel *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->execs[i]->killed)
			return true;
	return false;
}

static int on_exec_ended(struct channel *c, const struct frame *f, struct err *e)
{
	static const enum exec_end ends[] = {
		[GUEST_EXITED] = EXEC_EXITED, [GUEST_SIGNALED] = EXEC_SIGNALED, [GUEST_NOT_STARTED] = EXEC_NOT_FOUND};
	struct guest_exec_end end;

	if (guest_end_unpack(f, &end) < 0)
		return protocol_error(e, "a malformed exit status");
	for (size_t i = 0; i < c->n; i++) {
		if (c->execs[i]->stream != f->stream)
			continue;
		struct remote_exec *x = c->execs[i];
		c->execs[i] = c->execs[--c->n];
		if (!waits_for_killed(c))
			uv_timer_stop(&c->unanswered);
		finish(x, (struct exec_status){.end = ends[end.end], .code = (int)end.code, .core = end.core});
		return 0;
	}
	return protocol_error(e, "the end of a program that was not started");
}

static int on_frame(struct channel *c, const struct frame *f, struct err *e)
{
	switch (f->type) {
	case GUEST_READY:
		return on_ready(c, f, e);
	case GUEST_EXEC_ENDED:
		return on_exec_ended(c, f, e);
	case GUEST_FAILED: {
		/* Its errnum says what went wrong there; here the fact that it failed is what counts. */
		int r = guest_err_unpack(f, e) < 0 ? protocol_error(e, "a malformed error") : -EIO;
		return r;
	}
	default:
		return protocol_error(e, "an unknown frame");
	}
}

static void want(struct channel *c);

static void on_io(uv_poll_t *poll, int status, int events)
{
	struct channel *c = poll->data;
	struct err e = ERR_INIT;
	struct frame f;
	int flushed = frame_flush(c->conn), r = 0;

	/* An error on the socket is no reason to pass over what was sent before, such as why the other side is gone:
	 * reading comes to it by itself. */
	(void)status;
	(void)events;
	while (r == 0 && !c->closed) {
		r = frame_recv(c->conn, &f);
		if (r != 1)
			break;
		r = on_frame(c, &f, &e);
	}
	if (c->closed)
		return;
	if (r == 0)
		r = flushed;
	if (r == 0) {
		want(c);
		return;
	}
	if (e.kind == ERR_NONE) {
		if (r == -EPROTO)
			(void)protocol_error(&e, "a malformed frame");
		else
			(void)err_set(&e, ERR_SANDBOX, -r, "the sandbox ended %s",
				      c->ready ? "while the run went on" : "before it was ready");
		err_hint(&e, "It was killed from outside or ran out of memory: see the kernel's log.");
	}
	broken(c, &e);
}

/* Polls for what is needed now. */
static void want(struct channel *c)
{
	int events = UV_READABLE | (frame_wants_write(c->conn) ? UV_WRITABLE : 0);

	(void)uv_poll_start(&c->poll, events, on_io);
}

void channel_drain(struct channel *c)
{
	if (!c->closed && c->attached)
		on_io(&c->poll, 0, UV_READABLE);
}

int channel_attach(struct channel *c, uv_loop_t *loop, const struct channel_callbacks *cb, struct err *e)
{
	int r = uv_poll_init(loop, &c->poll, frame_conn_fd(c->conn));

	if (r < 0)
		return err_sys(e, -r, "watch the sandbox's control channel");
	(void)uv_timer_init(loop, &c->unanswered);
	c->cb = *cb;
	c->poll.data = c->unanswered.data = c;
	c->open_handles = 2;
	c->attached = true;
	want(c);
	return 0;
}

/* Init is held up, by a program that stopped init's child before its exec for example: only the end of the sandbox
 * helps, and the run must not wait for ever. */
static void on_unanswered(uv_timer_t *timer)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_SANDBOX, ETIMEDOUT,
		      "the sandbox's init did not tell the end of a killed program within %d s", KILL_ANSWER_MS / 1000);
	err_hint(&e, "The sandbox was ended. Something inside holds its init up, or a file system does not answer.");
	broken(timer->data, &e);
}

static void expect_end(struct remote_exec *x)
{
	struct channel *c = x->channel;

	x->killed = true;
	if (!c->attached || uv_is_active((uv_handle_t *)&c->unanswered))
		return;
	/* The loop's clock may stand since long ago. */
	uv_update_time(c->unanswered.loop);
	(void)uv_timer_start(&c->unanswered, on_unanswered, KILL_ANSWER_MS, 0);
}

static void exec_signal_remote(struct exec *base, int sig)
{
	struct remote_exec *x = (struct remote_exec *)base;
	uint32_t v = (uint32_t)sig;

	if (x->channel->closed)
		return;
	/* A channel that cannot take it is broken, and says so itself. */
	(void)!frame_send(x->channel->conn, GUEST_SIGNAL, x->stream, &v, sizeof v, NULL, 0);
	want(x->channel);
	if (sig == SIGKILL)
		expect_end(x);
}

static void exec_resize_remote(struct exec *base, unsigned rows, unsigned cols)
{
	const struct remote_exec *x = (struct remote_exec *)base;
	const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

	if (x->tty >= 0)
		(void)ioctl(x->tty, TIOCSWINSZ, &size);
}

static const struct exec_ops remote_exec_ops = {.signal = exec_signal_remote, .resize = exec_resize_remote};

/* Own copies of the three descriptors, as frame_send takes what it is given. */
static int copy_stdio(const int from[3], int to[3], struct err *e)
{
	for (int i = 0; i < 3; i++) {
		to[i] = from[i] < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : fcntl(from[i], F_DUPFD_CLOEXEC, 3);
		if (to[i] >= 0)
			continue;
		int r = err_sys(e, errno, "pass standard stream %d to the sandbox", i);
		while (i > 0)
			close_quietly(to[--i]);
		return r;
	}
	return 0;
}

int channel_exec(struct channel *c, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		 struct err *e)
{
	auto_buf b = BUF_INIT(FRAME_MAX_PAYLOAD);
	int fds[3];

	if (c->closed)
		return err_set(e, ERR_SANDBOX, ESHUTDOWN, "start %s: the sandbox has ended", o->argv[0]);
	uint32_t flags = (o->tty ? GUEST_EXEC_TTY : 0u) | (o->oversees ? GUEST_EXEC_OVERSEES : 0u);
	int r = guest_exec_pack(&b, flags, o->cwd ? o->cwd : "", o->argv, o->env);
	if (r < 0)
		return err_set(e, ERR_INPUT, E2BIG, "start %s: arguments and environment are over %u bytes", o->argv[0],
			       (unsigned)FRAME_MAX_PAYLOAD);
	r = copy_stdio(o->stdio, fds, e);
	if (r < 0)
		return r;
	struct remote_exec *x = xcalloc(1, sizeof *x);
	*x = (struct remote_exec){
		.base = {.ops = &remote_exec_ops, .done = done, .arg = arg},
		.channel = c,
		.stream = ++c->last_stream,
		.tty = o->tty ? fcntl(fds[0], F_DUPFD_CLOEXEC, 3) : -1,
	};
	r = frame_send(c->conn, GUEST_EXEC, x->stream, b.data, b.len, fds, 3);
	if (r < 0) {
		close_quietly(x->tty);
		free(x);
		return err_sys(e, -r, "start %s in the sandbox", o->argv[0]);
	}
	c->execs = grow_array(c->execs, c->n, &c->cap, sizeof *c->execs);
	c->execs[c->n++] = x;
	if (frame_wants_write(c->conn))
		want(c);
	*ret = &x->base;
	return 0;
}

static void destroy(struct channel *c)
{
	frame_conn_free(c->conn);
	free(c->execs);
	void (*freed)(void *arg) = c->on_freed;
	void *arg = c->freed_arg;
	free(c);
	if (freed)
		freed(arg);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct channel *c = h->data;

	if (--c->open_handles == 0)
		destroy(c);
}

bool channel_busy(const struct channel *c)
{
	return c->n > 0;
}

void channel_free(struct channel *c, void (*closed)(void *arg), void *arg)
{
	channel_close(c);
	c->on_freed = closed;
	c->freed_arg = arg;
	if (!c->attached) {
		destroy(c);
		return;
	}
	uv_close((uv_handle_t *)&c->poll, on_handle_closed);
	uv_close((uv_handle_t *)&c->unanswered, on_handle_closed);
}
