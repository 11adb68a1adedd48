/* One program whose bytes pass through `agent`: its pipes or its terminal on this side, frames on the other.
 *
 * In both directions no more than GUEST_WINDOW bytes of a descriptor are under way: the host gives credit for what it
 * has passed on, and is told what was taken of the input. So a program that nobody reads stops in its own write(), and
 * holds nobody else up. When the program ends, what stands in its pipes is passed on first and its end told after; a
 * daemon that it left behind and that keeps writing is not waited for. */
#include "agent_exec.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/pack.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Of what stood in a pipe or a terminal when its program ended: the kernel's pipes hold 64 KiB. */
enum { LAST_WORDS = 128 * 1024 };

struct agent_exec {
	uint32_t stream;
	int in;		  /* -1: nothing is written any more */
	int out[2];	  /* stdout, stderr; -1: ended */
	bool tty;	  /* in and out[0] are its terminal */
	bool in_ended;	  /* close it when the queue is empty */
	struct buf queue; /* input that the program has not taken */
	uint32_t credit[2];
	bool ended;
	struct guest_exec_end end;
	size_t left[2]; /* after the end: at most so much */
};

static int open_terminal(struct agent_exec *x, int fds[3])
{
	auto_fd outer = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

	if (outer < 0 || ioctl(outer, TIOCSPTLCK, &(int){0}) < 0)
		return -errno;
	/* By descriptor: a name could be another's (TIOCGPTPEER, ioctl_tty(2)). */
	auto_fd inner = ioctl(outer, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (inner < 0)
		return -errno;
	for (int i = 0; i < 3; i++) {
		fds[i] = fcntl(inner, F_DUPFD_CLOEXEC, 3);
		if (fds[i] < 0)
			return -errno;
	}
	x->in = fcntl(outer, F_DUPFD_CLOEXEC, 3);
	x->out[0] = TAKE_FD(outer);
	return x->in < 0 ? -errno : 0;
}

/* Our end is non-blocking. */
static int open_pipe(int *ret_ours, int *ret_theirs, bool we_write)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ret_ours = fds[we_write];
	*ret_theirs = fds[!we_write];
	return fd_set_nonblock(*ret_ours, true);
}

static int open_pipes(struct agent_exec *x, uint32_t flags, int fds[3])
{
	int *const ours[3] = {&x->in, &x->out[0], &x->out[1]};

	for (int i = 0; i < 3; i++) {
		int r = 0;
		if (flags & (GUEST_EXEC_NULL_0 << i)) {
			fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
			r = fds[i] < 0 ? -errno : 0;
		} else {
			r = open_pipe(ours[i], &fds[i], i == 0);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int agent_exec_new(const struct frame *f, struct agent_exec **ret, int ret_fds[3])
{
	struct unpack u = {.p = f->payload, .left = f->len};
	uint32_t flags = unpack_u32(&u);
	struct agent_exec *x = xcalloc(1, sizeof *x);

	*x = (struct agent_exec){
		.stream = f->stream,
		.in = -1,
		.out = {-1, -1},
		.tty = flags & GUEST_EXEC_TTY,
		.queue = BUF_INIT(GUEST_WINDOW),
		.credit = {GUEST_WINDOW, GUEST_WINDOW},
	};
	ret_fds[0] = ret_fds[1] = ret_fds[2] = -1;
	int r = x->tty ? open_terminal(x, ret_fds) : open_pipes(x, flags, ret_fds);
	if (r < 0) {
		for (int i = 0; i < 3; i++)
			close_quietly(ret_fds[i]);
		agent_exec_free(x);
		return r;
	}
	*ret = x;
	return 0;
}

void agent_exec_free(struct agent_exec *x)
{
	close_quietly(x->in);
	close_quietly(x->out[0]);
	close_quietly(x->out[1]);
	buf_done(&x->queue);
	free(x);
}

uint32_t agent_exec_stream(const struct agent_exec *x)
{
	return x->stream;
}

static int tell_taken(const struct agent_exec *x, struct frame_conn *host, uint32_t n)
{
	return frame_send(host, GUEST_TAKEN, x->stream, &n, sizeof n, NULL, 0);
}

/* Writes what the program takes. A terminal stays open: its end is a hangup, which a program's input is not. */
static int feed(struct agent_exec *x, struct frame_conn *host)
{
	uint32_t taken = 0;

	while (x->in >= 0 && x->queue.len) {
		ssize_t n = write(x->in, x->queue.data, x->queue.len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			close_quietly(TAKE_FD(x->in));
			buf_clear(&x->queue);
			return tell_taken(x, host, 0);
		}
		buf_consume(&x->queue, (size_t)n);
		taken += (uint32_t)n;
	}
	if (x->in_ended && x->queue.len == 0 && !x->tty)
		close_quietly(TAKE_FD(x->in));
	return taken ? tell_taken(x, host, taken) : 0;
}

int agent_exec_input(struct agent_exec *x, struct frame_conn *host, const struct frame *f)
{
	if (x->in_ended)
		return -EPROTO;
	x->in_ended = f->len == 0;
	if (x->in >= 0 && buf_add(&x->queue, f->payload, f->len) < 0)
		return -EPROTO;
	return feed(x, host);
}

int agent_exec_credit(struct agent_exec *x, const struct frame *f)
{
	struct unpack u = {.p = f->payload, .left = f->len};
	uint32_t which = unpack_u32(&u), n = unpack_u32(&u);

	if (!unpack_end(&u) || which < 1 || which > 2 || n > GUEST_WINDOW - x->credit[which - 1])
		return -EPROTO;
	x->credit[which - 1] += n;
	/* The program learns of it by SIGPIPE, as it would beside its reader. */
	if (n == 0)
		close_quietly(TAKE_FD(x->out[which - 1]));
	return 0;
}

int agent_exec_resize(struct agent_exec *x, const struct frame *f)
{
	struct unpack u = {.p = f->payload, .left = f->len};
	uint32_t rows = unpack_u32(&u), cols = unpack_u32(&u);
	const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

	if (!unpack_end(&u) || rows > UINT16_MAX || cols > UINT16_MAX)
		return -EPROTO;
	if (x->tty && x->out[0] >= 0)
		(void)ioctl(x->out[0], TIOCSWINSZ, &size);
	return 0;
}

void agent_exec_ended(struct agent_exec *x, const struct frame *f)
{
	x->ended = guest_end_unpack(f, &x->end) == 0;
	x->left[0] = x->left[1] = LAST_WORDS;
	close_quietly(TAKE_FD(x->in));
}

void agent_exec_poll(const struct agent_exec *x, bool may_read, struct pollfd p[AGENT_EXEC_POLLS])
{
	p[0] = (struct pollfd){.fd = x->queue.len ? x->in : -1, .events = POLLOUT};
	for (int i = 0; i < 2; i++)
		p[i + 1] = (struct pollfd){.fd = may_read && x->credit[i] ? x->out[i] : -1, .events = POLLIN};
}

static int tell_end(struct agent_exec *x, struct frame_conn *host)
{
	auto_buf b = BUF_INIT(64);
	int r = guest_end_pack(&b, &x->end);

	return r < 0 ? r : frame_send(host, GUEST_EXEC_ENDED, x->stream, b.data, b.len, NULL, 0);
}

/* Passes on what stands in the i-th output, as far as the credit goes. */
static int drain(struct agent_exec *x, struct frame_conn *host, int i)
{
	char chunk[GUEST_CHUNK];
	uint16_t type = i == 0 ? GUEST_STDOUT : GUEST_STDERR;

	while (x->out[i] >= 0 && x->credit[i] && !frame_wants_write(host)) {
		size_t most = MIN(sizeof chunk, (size_t)x->credit[i]);
		if (x->ended)
			most = MIN(most, x->left[i]);
		ssize_t n = most ? read(x->out[i], chunk, most) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && !x->ended)
			return 0;
		/* A terminal whose last program went away reads as EIO. */
		if (n <= 0) {
			close_quietly(TAKE_FD(x->out[i]));
			return frame_send(host, type, x->stream, "", 0, NULL, 0);
		}
		x->credit[i] -= (uint32_t)n;
		x->left[i] -= x->ended ? (size_t)n : 0;
		int r = frame_send(host, type, x->stream, chunk, (size_t)n, NULL, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

int agent_exec_move(struct agent_exec *x, struct frame_conn *host, const struct pollfd p[AGENT_EXEC_POLLS])
{
	int r = p[0].revents ? feed(x, host) : 0;

	for (int i = 0; i < 2; i++)
		if (r == 0 && (x->ended || p[i + 1].revents))
			r = drain(x, host, i);
	if (r == 0 && x->ended && x->out[0] < 0 && x->out[1] < 0) {
		r = tell_end(x, host);
		return r < 0 ? r : 1;
	}
	return r;
}
