/* One program behind the agent: the caller's three descriptors on this side, frames on the other.
 *
 * Each descriptor is opened anew where that is possible (pipes, terminals), so that it does not block us and stays as
 * it is for everybody else who has it; sockets are asked not to block call by call, and files never do. Bytes that come
 * are written at once, what the reader does not take waits here, at most GUEST_WINDOW of them, and only then the agent
 * gets credit for more. When the reader has gone the agent is told, so that the program gets its SIGPIPE. */
#include "mux_exec.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/pack.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

static int own_copy(int fd, int flags)
{
	char path[64];
	struct stat st;
	int own = -1;

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		own = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static int open_end(struct mux_exec *x, struct mux_end *end, int fd, int flags, uv_loop_t *loop)
{
	if (fd < 0)
		return 0;
	end->fd = own_copy(fd, flags);
	if (end->fd < 0)
		return -errno;
	int mode = fcntl(end->fd, F_GETFL);
	end->watched = uv_poll_init(loop, &end->poll, end->fd) == 0;
	end->poll.data = end;
	x->open_handles += end->watched;
	/* The loop makes it non-blocking: of a socket that is shared with others, that is theirs to say. */
	if (end->watched && mode >= 0 && !(mode & O_NONBLOCK))
		(void)fcntl(end->fd, F_SETFL, mode);
	return 0;
}

/* The terminal on this side only passes on what the one in the sandbox does. */
static void make_raw(int fd)
{
	struct termios t;

	if (tcgetattr(fd, &t) < 0)
		return;
	cfmakeraw(&t);
	(void)tcsetattr(fd, TCSANOW, &t);
}

int mux_exec_open(struct mux_exec *x, const struct exec_opts *o, uv_loop_t *loop, struct err *e)
{
	x->in_credit = GUEST_WINDOW;
	x->queue[0] = x->queue[1] = BUF_INIT(GUEST_WINDOW);
	x->tty = o->tty;
	x->in = x->out[0] = x->out[1] = (struct mux_end){.exec = x, .fd = -1};
	if (x->tty)
		make_raw(o->stdio[0]);
	int r = open_end(x, &x->in, o->stdio[0], O_RDONLY, loop);
	if (r == 0)
		r = open_end(x, &x->out[0], o->stdio[1], O_WRONLY, loop);
	if (r == 0)
		r = open_end(x, &x->out[1], x->tty ? -1 : o->stdio[2], O_WRONLY, loop);
	return r < 0 ? err_sys(e, -r, "pass the standard streams to the sandbox") : 0;
}

static void on_end_closed(uv_handle_t *h)
{
	struct mux_end *end = h->data;
	struct mux_exec *x = end->exec;

	close_quietly(TAKE_FD(end->fd));
	if (--x->open_handles == 0 && x->told)
		mux_exec_closed(x);
}

static void close_end(struct mux_end *end)
{
	if (end->fd < 0)
		return;
	if (!end->watched) {
		close_quietly(TAKE_FD(end->fd));
		return;
	}
	end->watched = false;
	uv_close((uv_handle_t *)&end->poll, on_end_closed);
}

/* In use, and not on its way out. */
static bool is_open(const struct mux_end *end)
{
	return end->fd >= 0 && !uv_is_closing((const uv_handle_t *)&end->poll);
}

static ssize_t write_some(int fd, const char *data, size_t len)
{
	ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 && errno == ENOTSOCK ? write(fd, data, len) : n;
}

static ssize_t read_some(int fd, char *data, size_t len)
{
	ssize_t n = recv(fd, data, len, MSG_DONTWAIT);

	return n < 0 && errno == ENOTSOCK ? read(fd, data, len) : n;
}

static void give_credit(const struct mux_exec *x, int i, size_t n)
{
	const uint32_t payload[2] = {(uint32_t)i + 1, (uint32_t)n};

	if (!x->ended)
		(void)mux_send(x->mux, GUEST_CREDIT, x->stream, payload, sizeof payload);
}

static void on_writable(uv_poll_t *poll, int status, int events);

/* Writes what waits, as far as the reader takes it. */
static void flush(struct mux_exec *x, int i)
{
	struct mux_end *end = &x->out[i];
	struct buf *q = &x->queue[i];
	size_t n_written = 0;

	while (q->len && is_open(end)) {
		ssize_t n = write_some(end->fd, q->data, q->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			buf_clear(q);
			close_end(end);
			give_credit(x, i, 0);
			return;
		}
		buf_consume(q, (size_t)n);
		n_written += (size_t)n;
	}
	if (n_written)
		give_credit(x, i, n_written);
	if (q->len == 0 && x->eof[i])
		close_end(end);
	else if (q->len && end->watched)
		(void)uv_poll_start(&end->poll, UV_WRITABLE, on_writable);
	else if (end->watched && uv_is_active((uv_handle_t *)&end->poll))
		uv_poll_stop(&end->poll);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
	struct mux_end *end = poll->data;
	struct mux_exec *x = end->exec;

	(void)status;
	(void)events;
	flush(x, end == &x->out[0] ? 0 : 1);
	mux_exec_progress(x);
}

int mux_exec_output(struct mux_exec *x, int i, const struct frame *f)
{
	if (x->eof[i])
		return -EPROTO;
	x->eof[i] = f->len == 0;
	if (x->told)
		return 0;
	/* Nobody reads it, which the agent knows or is about to. */
	if (!is_open(&x->out[i]))
		return 0;
	if (buf_add(&x->queue[i], f->payload, f->len) < 0)
		return -EPROTO;
	flush(x, i);
	return 0;
}

int mux_exec_taken(struct mux_exec *x, const struct frame *f)
{
	struct unpack u = {.p = f->payload, .left = f->len};
	uint32_t n = unpack_u32(&u);

	if (!unpack_end(&u) || n > GUEST_WINDOW - x->in_credit)
		return -EPROTO;
	x->in_credit += n;
	if (n == 0)
		close_end(&x->in);
	else
		mux_exec_feed(x);
	return 0;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct mux_end *end = poll->data;

	(void)status;
	(void)events;
	mux_exec_feed(end->exec);
}

void mux_exec_feed(struct mux_exec *x)
{
	char chunk[GUEST_CHUNK];
	struct mux_end *end = &x->in;

	while (is_open(end) && !x->ended && x->in_credit && !mux_is_full(x->mux)) {
		ssize_t n = read_some(end->fd, chunk, MIN(sizeof chunk, (size_t)x->in_credit));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (end->watched)
				(void)uv_poll_start(&end->poll, UV_READABLE, on_readable);
			return;
		}
		/* A terminal whose other side went away reads as EIO. */
		x->in_credit -= n > 0 ? (uint32_t)n : 0;
		if (mux_send(x->mux, GUEST_INPUT, x->stream, chunk, n > 0 ? (size_t)n : 0) < 0 || n <= 0) {
			close_end(end);
			return;
		}
		/* A descriptor that could not be made non-blocking is read when the loop says so. */
		if (end->watched && !(fcntl(end->fd, F_GETFL) & O_NONBLOCK)) {
			(void)uv_poll_start(&end->poll, UV_READABLE, on_readable);
			return;
		}
	}
	if (is_open(end) && end->watched)
		uv_poll_stop(&end->poll);
}

bool mux_exec_flushed(const struct mux_exec *x)
{
	return x->queue[0].len == 0 && x->queue[1].len == 0;
}

void mux_exec_close(struct mux_exec *x)
{
	x->told = true;
	buf_done(&x->queue[0]);
	buf_done(&x->queue[1]);
	close_end(&x->in);
	close_end(&x->out[0]);
	close_end(&x->out[1]);
	if (x->open_handles == 0)
		mux_exec_closed(x);
}
