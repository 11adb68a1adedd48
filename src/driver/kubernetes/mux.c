/* The host's end of an agent's connection: frames in, callbacks out, and the table of programs.
 *
 * It does for a sandbox on another machine what channel.c does for one that shares our kernel, only that the bytes of
 * programs are in the frames too. The first word is the agent's: until then nothing but the prefix was sent, which a
 * shell on the way may read as it likes. What comes is as hostile as the rest of the sandbox: an unknown stream, more
 * bytes than there was credit for, a frame out of order or a malformed record closes the connection, and with it the
 * sandbox.
 *
 * A program whose exec was ended here stays in the table until the agent has told its end, and what comes for it until
 * then is dropped. */
#include "mux.h"
#include "mux_exec.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/pack.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

enum { KILL_ANSWER_MS = 15 * 1000 };

struct mux {
	struct frame_conn *conn;
	struct guest_config cfg;
	struct mux_callbacks cb;
	char *prefix;
	size_t prefix_len, prefix_at;
	uv_loop_t *loop;
	uv_poll_t poll;
	uv_timer_t unanswered; /* runs while a killed program has not ended */
	bool attached, greeted, ready, freeing;
	bool dead;     /* nothing is read or written any more */
	bool closed;   /* and every exec has ended */
	int waits_for; /* what the poll was last started for */
	bool starved;  /* input waits for the connection to move */
	uint32_t last_stream;
	struct mux_exec **execs;
	size_t n, cap;
	unsigned open_handles; /* of its own, and one for each exec that the loop has not let go of */
	void (*on_freed)(void *arg);
	void *freed_arg;
};

struct mux *mux_new(int fd, char *prefix, size_t prefix_len, const struct guest_config *cfg)
{
	struct mux *m = xcalloc(1, sizeof *m);

	*m = (struct mux){
		.conn = frame_conn_new(fd, FRAME_MAX_PAYLOAD), .cfg = *cfg, .prefix = prefix, .prefix_len = prefix_len};
	return m;
}

static void check_freed(struct mux *m)
{
	if (!m->freeing || m->open_handles > 0)
		return;
	void (*freed)(void *arg) = m->on_freed;
	void *arg = m->freed_arg;
	frame_conn_free(m->conn);
	free(m->prefix);
	free(m->execs);
	free(m);
	if (freed)
		freed(arg);
}

void mux_exec_closed(struct mux_exec *x)
{
	struct mux *m = x->mux;

	/* The agent still has words for it. */
	if (!x->ended && !m->closed)
		return;
	free(x);
	m->open_handles--;
	check_freed(m);
}

static bool waits_for_killed(const struct mux *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->execs[i]->killed)
			return true;
	return false;
}

static void forget(struct mux *m, const struct mux_exec *x)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->execs[i] == x) {
			m->execs[i] = m->execs[--m->n];
			break;
		}
	}
	if (m->attached && !m->dead && !waits_for_killed(m))
		uv_timer_stop(&m->unanswered);
}

/* Its last word to whoever started it. */
static void tell(struct mux_exec *x, const struct exec_status *st)
{
	exec_done_cb done = x->base.done;
	void *arg = x->base.arg;
	const struct exec_status copy = *st;

	if (x->told)
		return;
	/* It may be gone after this. */
	mux_exec_close(x);
	done(arg, &copy);
}

/* The agent has no more words for it. */
static void over(struct mux_exec *x)
{
	bool was_told = x->told && x->open_handles == 0;

	forget(x->mux, x);
	if (was_told)
		mux_exec_closed(x);
	else
		tell(x, &x->status);
}

void mux_exec_progress(struct mux_exec *x)
{
	if (x->ended && !x->told && mux_exec_flushed(x))
		over(x);
}

void mux_lose_execs(struct mux *m)
{
	const uint32_t sig = SIGKILL;
	const struct exec_status lost = {.end = EXEC_LOST};

	/* A callback may start another one, which is not meant. */
	uint32_t last = m->last_stream;
	for (size_t i = 0; i < m->n;) {
		struct mux_exec *x = m->execs[i];
		if (x->told || x->own || x->stream > last) {
			i++;
			continue;
		}
		if (!x->ended)
			(void)mux_send(m, GUEST_SIGNAL, x->stream, &sig, sizeof sig);
		else
			forget(m, x);
		tell(x, &lost);
		i = 0;
	}
}

static void die(struct mux *m)
{
	if (!m->dead && m->attached) {
		uv_poll_stop(&m->poll);
		uv_timer_stop(&m->unanswered);
	}
	m->dead = true;
}

void mux_close(struct mux *m)
{
	const struct exec_status lost = {.end = EXEC_LOST};

	if (m->closed)
		return;
	m->closed = true;
	die(m);
	while (m->n) {
		struct mux_exec *x = m->execs[--m->n];
		if (x->told && x->open_handles == 0)
			mux_exec_closed(x);
		else
			tell(x, &lost);
	}
}

static void broken(struct mux *m, int r, const struct err *e)
{
	if (m->dead)
		return;
	die(m);
	m->cb.on_closed(m->cb.arg, r, e);
}

static int protocol_error(struct err *e, const char *what)
{
	int r = err_set(e, ERR_PROTOCOL, EPROTO, "the sandbox's agent broke the protocol: %s", what);

	err_hint(e, "The sandbox was ended. Something inside may have tried to take over its agent; see its events.");
	return r;
}

static struct mux_exec *find(const struct mux *m, uint32_t stream)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->execs[i]->stream == stream)
			return m->execs[i];
	return NULL;
}

static int on_hello(struct mux *m, const struct frame *f, struct err *e)
{
	struct unpack u = {.p = f->payload, .left = f->len};
	uint32_t version = unpack_u32(&u);
	auto_buf b = BUF_INIT(256);

	if (!unpack_end(&u) || m->greeted)
		return protocol_error(e, "a second or malformed hello");
	if (version != GUEST_PROTOCOL_VERSION) {
		(void)err_set(e, ERR_PROTOCOL, EPROTO, "the guest speaks version %u of the protocol, not %u", version,
			      (unsigned)GUEST_PROTOCOL_VERSION);
		err_hint(e, "ITERION_GUEST_IMAGE must be of the same version as this program.");
		return -EPROTO;
	}
	m->greeted = true;
	int r = guest_config_pack(&b, &m->cfg);
	return r < 0 ? r : mux_send(m, GUEST_CONFIG, 0, b.data, b.len);
}

static int on_ended(struct mux *m, const struct frame *f, struct err *e)
{
	static const enum exec_end ends[] = {
		[GUEST_EXITED] = EXEC_EXITED, [GUEST_SIGNALED] = EXEC_SIGNALED, [GUEST_NOT_STARTED] = EXEC_NOT_FOUND};
	struct mux_exec *x = find(m, f->stream);
	struct guest_exec_end end;

	if (!x || x->ended || guest_end_unpack(f, &end) < 0)
		return protocol_error(e, "the end of a program that does not run, or a malformed one");
	x->ended = true;
	x->killed = false;
	x->status = (struct exec_status){.end = ends[end.end], .code = (int)end.code, .core = end.core};
	if (x->told || mux_exec_flushed(x))
		over(x);
	else if (!waits_for_killed(m))
		uv_timer_stop(&m->unanswered);
	return 0;
}

static int on_exec_frame(struct mux *m, const struct frame *f, struct err *e)
{
	struct mux_exec *x = find(m, f->stream);
	int r = -EPROTO;

	if (x && !x->ended)
		r = f->type == GUEST_TAKEN    ? mux_exec_taken(x, f)
		    : f->type == GUEST_STDOUT ? mux_exec_output(x, 0, f)
					      : mux_exec_output(x, 1, f);
	return r < 0 ? protocol_error(e, "bytes that were not asked for") : 0;
}

static int on_ready(struct mux *m, const struct frame *f, struct err *e)
{
	struct unpack u = {.p = f->payload, .left = f->len};
	uint32_t version = unpack_u32(&u);

	(void)unpack_u32(&u);
	if (!unpack_end(&u) || m->ready || version != GUEST_PROTOCOL_VERSION)
		return protocol_error(e, "a second or malformed ready");
	m->ready = true;
	m->cb.on_ready(m->cb.arg);
	return 0;
}

static int on_frame(struct mux *m, const struct frame *f, struct err *e)
{
	if (f->type != GUEST_HELLO && !m->greeted)
		return protocol_error(e, "its first word is no hello");
	switch (f->type) {
	case GUEST_HELLO:
		return on_hello(m, f, e);
	case GUEST_READY:
		return on_ready(m, f, e);
	case GUEST_FAILED:
		return guest_err_unpack(f, e) < 0 ? protocol_error(e, "a malformed error") : -EIO;
	case GUEST_EXEC_ENDED:
		return on_ended(m, f, e);
	case GUEST_STDOUT:
	case GUEST_STDERR:
	case GUEST_TAKEN:
		return on_exec_frame(m, f, e);
	default:
		return protocol_error(e, "an unknown frame");
	}
}

static void on_io(uv_poll_t *poll, int status, int events);

static void want(struct mux *m)
{
	bool writes = m->prefix_at < m->prefix_len || frame_wants_write(m->conn);

	int events = UV_READABLE | (writes ? UV_WRITABLE : 0);

	if (m->dead || m->waits_for == events)
		return;
	m->waits_for = events;
	(void)uv_poll_start(&m->poll, events, on_io);
}

static int send_prefix(struct mux *m)
{
	while (m->prefix_at < m->prefix_len) {
		ssize_t n = send(frame_conn_fd(m->conn), m->prefix + m->prefix_at, m->prefix_len - m->prefix_at,
				 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		/* Why the other side is gone shows when it is read. */
		if (n < 0)
			return errno == EAGAIN || errno == EPIPE || errno == ECONNRESET ? 0 : -errno;
		m->prefix_at += (size_t)n;
	}
	return 0;
}

static void feed_all(struct mux *m)
{
	m->starved = false;
	for (size_t i = 0; i < m->n && !mux_is_full(m); i++)
		if (!m->execs[i]->told)
			mux_exec_feed(m->execs[i]);
}

static void on_io(uv_poll_t *poll, int status, int events)
{
	struct mux *m = poll->data;
	struct err e = ERR_INIT;
	struct frame f;
	int sent = send_prefix(m), r = 0;

	(void)status;
	(void)events;
	if (sent == 0)
		sent = frame_flush(m->conn);
	/* What was sent before is read even when the other side takes nothing any more. */
	while (r == 0 && !m->dead) {
		r = frame_recv(m->conn, &f);
		if (r != 1)
			break;
		r = on_frame(m, &f, &e);
	}
	if (m->dead)
		return;
	if (r == 0)
		r = sent;
	if (r == 0) {
		if (m->starved && !mux_is_full(m))
			feed_all(m);
		want(m);
		return;
	}
	if (e.kind == ERR_NONE && r == -EPROTO)
		(void)protocol_error(&e, "a malformed frame");
	else if (e.kind == ERR_NONE)
		(void)err_sys(&e, -r, "speak with the sandbox's agent");
	broken(m, e.kind == ERR_SYSTEM ? -ECONNRESET : r, &e);
}

int mux_send(struct mux *m, uint16_t type, uint32_t stream, const void *data, size_t len)
{
	if (m->dead)
		return -ESHUTDOWN;
	/* A connection that is broken says so itself. */
	int r = frame_send(m->conn, type, stream, data, len, NULL, 0);
	if (frame_wants_write(m->conn))
		want(m);
	return r;
}

bool mux_is_full(struct mux *m)
{
	if (!m->dead && !frame_wants_write(m->conn))
		return false;
	m->starved = true;
	return true;
}

/* Init is held up: only the end of the sandbox helps, and the run must not wait for ever. */
static void on_unanswered(uv_timer_t *timer)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_SANDBOX, ETIMEDOUT,
		      "the sandbox's init did not tell the end of a killed program within %d s", KILL_ANSWER_MS / 1000);
	err_hint(&e, "The sandbox was ended. Something inside holds its init up, or the connection does not move.");
	broken(timer->data, -ETIMEDOUT, &e);
}

int mux_attach(struct mux *m, uv_loop_t *loop, const struct mux_callbacks *cb, struct err *e)
{
	int r = uv_poll_init(loop, &m->poll, frame_conn_fd(m->conn));

	if (r < 0)
		return err_sys(e, -r, "watch the connection to the sandbox's agent");
	(void)uv_timer_init(loop, &m->unanswered);
	m->cb = *cb;
	m->loop = loop;
	m->poll.data = m->unanswered.data = m;
	m->open_handles = 2;
	m->attached = true;
	want(m);
	return 0;
}

static void signal_exec(struct exec *base, int sig)
{
	struct mux_exec *x = (struct mux_exec *)base;
	struct mux *m = x->mux;
	uint32_t v = (uint32_t)sig;

	if (x->ended || m->dead)
		return;
	(void)mux_send(m, GUEST_SIGNAL, x->stream, &v, sizeof v);
	if (sig != SIGKILL)
		return;
	x->killed = true;
	if (uv_is_active((uv_handle_t *)&m->unanswered))
		return;
	/* The loop's clock may stand since long ago. */
	uv_update_time(m->loop);
	(void)uv_timer_start(&m->unanswered, on_unanswered, KILL_ANSWER_MS, 0);
}

static void resize_exec(struct exec *base, unsigned rows, unsigned cols)
{
	struct mux_exec *x = (struct mux_exec *)base;
	const uint32_t size[2] = {rows, cols};
	const struct winsize own = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

	if (!x->tty || x->ended || rows > UINT16_MAX || cols > UINT16_MAX)
		return;
	if (x->in.fd >= 0)
		(void)ioctl(x->in.fd, TIOCSWINSZ, &own);
	(void)mux_send(x->mux, GUEST_RESIZE, x->stream, size, sizeof size);
}

static const struct exec_ops exec_ops = {.signal = signal_exec, .resize = resize_exec};

static uint32_t flags_of(const struct exec_opts *o)
{
	uint32_t flags = (o->tty ? GUEST_EXEC_TTY : 0u) | (o->oversees ? GUEST_EXEC_OVERSEES : 0u);

	for (int i = 0; i < 3; i++)
		flags |= o->stdio[i] < 0 ? (uint32_t)GUEST_EXEC_NULL_0 << i : 0;
	return flags;
}

/* The size that the terminal has already. */
static void pass_size(struct mux_exec *x)
{
	struct winsize size;

	if (x->tty && x->in.fd >= 0 && ioctl(x->in.fd, TIOCGWINSZ, &size) == 0 && size.ws_row)
		resize_exec(&x->base, size.ws_row, size.ws_col);
}

int mux_exec(struct mux *m, const struct exec_opts *o, bool own, exec_done_cb done, void *arg, struct exec **ret,
	     struct err *e)
{
	auto_buf b = BUF_INIT(FRAME_MAX_PAYLOAD);

	if (m->dead || !m->ready)
		return err_set(e, ERR_SANDBOX, ESHUTDOWN, "start %s: the sandbox has ended", o->argv[0]);
	int r = guest_exec_pack(&b, flags_of(o), o->cwd ? o->cwd : "", o->argv, o->env);
	if (r < 0)
		return err_set(e, ERR_INPUT, E2BIG, "start %s: arguments and environment are over %u bytes", o->argv[0],
			       (unsigned)FRAME_MAX_PAYLOAD);
	struct mux_exec *x = xcalloc(1, sizeof *x);
	*x = (struct mux_exec){
		.base = {.ops = &exec_ops, .done = done, .arg = arg}, .mux = m, .stream = ++m->last_stream, .own = own};
	m->open_handles++;
	r = mux_exec_open(x, o, m->loop, e);
	if (r == 0) {
		r = mux_send(m, GUEST_EXEC, x->stream, b.data, b.len);
		if (r < 0)
			(void)err_sys(e, -r, "start %s in the sandbox", o->argv[0]);
	}
	if (r < 0) {
		x->ended = true;
		mux_exec_close(x);
		return r;
	}
	m->execs = grow_array(m->execs, m->n, &m->cap, sizeof(struct mux_exec *));
	m->execs[m->n++] = x;
	pass_size(x);
	mux_exec_feed(x);
	*ret = &x->base;
	return 0;
}

bool mux_busy(const struct mux *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (!m->execs[i]->told && !m->execs[i]->own)
			return true;
	return false;
}

void mux_end(struct mux *m)
{
	(void)mux_send(m, GUEST_END, 0, "", 0);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct mux *m = h->data;

	m->open_handles--;
	check_freed(m);
}

void mux_free(struct mux *m, void (*closed)(void *arg), void *arg)
{
	mux_close(m);
	m->on_freed = closed;
	m->freed_arg = arg;
	m->freeing = true;
	if (m->attached) {
		uv_close((uv_handle_t *)&m->poll, on_handle_closed);
		uv_close((uv_handle_t *)&m->unanswered, on_handle_closed);
	}
	check_freed(m);
}
