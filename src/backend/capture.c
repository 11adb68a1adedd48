/* Capturing the output of a program with flat memory.
 *
 * The first CAPTURE_MEMORY_MAX bytes are kept. When more comes, everything goes to a file of the run: what was kept is
 * written there, and the rest is spliced from the pipe to the file without passing through this process. Where the
 * file system cannot splice, it is copied through one buffer. A file that cannot be written (a full disk), or that has
 * as much as a program may print, does not block the program: what it prints is read and dropped, and the failure is
 * reported at the end.
 *
 * The end of the program, not the end of the pipe, ends the capture: a daemon that it left behind may hold the pipe for
 * ever. What the program itself wrote is in the pipe by then, so the bytes that stand there are taken and no more. */
#include "capture.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <store/run.h>
#include <store/run_files.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
	READ_CHUNK = 64 * 1024,
	SPLICE_CHUNK = 1024 * 1024,
	TURN = 16 * 1024 * 1024, /* bytes in one go, so that other nodes and signals get their turn */
};

/* A program that prints without end must not fill the store's disk. */
static const uint64_t file_max = UINT64_C(4) << 30;

int capture_open(struct capture *c, uv_loop_t *loop, struct store_run *run, const char *file_name, struct err *e)
{
	int fds[2];

	*c = (struct capture){
		.fd = -1,
		.writer = -1,
		.file = -1,
		.run = run,
		.file_name = file_name,
		.file_max = file_max,
		.head = BUF_INIT(CAPTURE_MEMORY_MAX + READ_CHUNK),
	};
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe for a program's output");
	c->fd = fds[0];
	c->writer = fds[1];
	int r = uv_poll_init(loop, &c->poll, c->fd); /* makes our end, and only that, non-blocking */
	if (r < 0) {
		capture_done(c);
		return err_sys(e, -r, "watch a program's output");
	}
	c->poll.data = c;
	c->open = true;
	return 0;
}

void capture_done(struct capture *c)
{
	close_quietly(TAKE_FD(c->fd));
	close_quietly(TAKE_FD(c->writer));
	close_quietly(TAKE_FD(c->file));
	buf_done(&c->head);
	free(TAKE_PTR(c->ref));
}

static void failed(struct capture *c, int errnum)
{
	(void)err_sys(&c->failure, errnum, "write %s/%s", store_run_dir(c->run), c->ref);
	err_hint(&c->failure, "free some space on the file system of the store, or let the program print less");
}

/* Changes over to the file. */
static void spill(struct capture *c)
{
	c->file = store_run_output(c->run, c->file_name, &c->ref, &c->failure);
	if (c->file >= 0) {
		/* Best effort: a larger pipe means fewer turns. */
		(void)fcntl(c->fd, F_SETPIPE_SZ, SPLICE_CHUNK);
		int r = fd_write_all(c->file, c->head.data, c->head.len);
		if (r < 0)
			failed(c, -r);
	} else {
		c->file = -1;
	}
	struct buf small = BUF_INIT(CAPTURE_PREVIEW);
	(void)buf_add(&small, c->head.data, CAPTURE_PREVIEW);
	buf_done(&c->head);
	c->head = small;
}

static bool spilled(const struct capture *c)
{
	return c->file >= 0 || c->failure.kind != ERR_NONE;
}

static ssize_t read_some(int fd, void *to, size_t max)
{
	ssize_t n;

	do {
		n = read(fd, to, max);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t into_memory(struct capture *c, size_t max)
{
	size_t want = MIN(max, (size_t)READ_CHUNK);

	if (buf_reserve(&c->head, want) < 0)
		return -ENOBUFS;
	ssize_t n = read_some(c->fd, c->head.data + c->head.len, want);
	if (n <= 0)
		return n;
	c->head.len += (size_t)n;
	c->head.data[c->head.len] = '\0';
	if (c->head.len > CAPTURE_MEMORY_MAX)
		spill(c);
	return n;
}

static ssize_t copy_to_file(struct capture *c, size_t max)
{
	char chunk[READ_CHUNK];
	ssize_t n = read_some(c->fd, chunk, MIN(max, sizeof chunk));

	if (n > 0 && c->failure.kind == ERR_NONE) {
		int r = fd_write_all(c->file, chunk, (size_t)n);
		if (r < 0)
			failed(c, -r);
	}
	return n;
}

/* The file has all that it may have: whatever else comes is too much. */
static ssize_t read_past(struct capture *c, size_t max)
{
	char chunk[READ_CHUNK];
	ssize_t n = read_some(c->fd, chunk, MIN(max, sizeof chunk));

	if (n <= 0)
		return n;
	(void)err_set(&c->failure, ERR_NODE, EFBIG, "%s/%s: the program printed more than %llu bytes",
		      store_run_dir(c->run), c->ref, (unsigned long long)c->file_max);
	err_hint(&c->failure, "let the program print less, or write into files of its own");
	return n;
}

static ssize_t into_file(struct capture *c, size_t max)
{
	if (c->failure.kind == ERR_NONE && c->total >= c->file_max)
		return read_past(c, max);
	if (c->failure.kind == ERR_NONE)
		max = (size_t)MIN((uint64_t)max, c->file_max - c->total);
	if (c->no_splice || c->failure.kind != ERR_NONE)
		return copy_to_file(c, max);
	ssize_t n;
	do {
		n = splice(c->fd, NULL, c->file, NULL, MIN(max, (size_t)SPLICE_CHUNK), SPLICE_F_NONBLOCK);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	if (errno == EAGAIN)
		return -EAGAIN;
	if (errno == EINVAL)
		c->no_splice = true;
	else
		failed(c, errno);
	return copy_to_file(c, max);
}

/* Takes at most max bytes: 1 when it took them all, 0 when the pipe is empty, -errno or -EPIPE at its end. */
static int take(struct capture *c, size_t max)
{
	while (max > 0) {
		ssize_t n = spilled(c) ? into_file(c, max) : into_memory(c, max);
		if (n == -EAGAIN)
			return 0;
		if (n <= 0)
			return n == 0 ? -EPIPE : (int)n;
		c->total += (uint64_t)n;
		max -= MIN((size_t)n, max);
	}
	return 1;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	if (take(poll->data, TURN) < 0)
		uv_poll_stop(poll);
}

void capture_started(struct capture *c)
{
	close_quietly(TAKE_FD(c->writer));
	(void)uv_poll_start(&c->poll, UV_READABLE, on_readable);
}

static void on_closed(uv_handle_t *h)
{
	struct capture *c = h->data;

	close_quietly(TAKE_FD(c->fd));
	c->closed(c->arg);
}

void capture_finish(struct capture *c, void (*closed)(void *arg), void *arg)
{
	int there = 0;

	close_quietly(TAKE_FD(c->writer));
	c->closed = closed;
	c->arg = arg;
	if (ioctl(c->fd, FIONREAD, &there) == 0 && there > 0)
		(void)take(c, (size_t)there);
	uv_close((uv_handle_t *)&c->poll, on_closed);
}

void capture_tail(const struct capture *c, size_t max, struct buf *to)
{
	if (c->file < 0) {
		size_t n = MIN(max, c->head.len);
		(void)buf_add(to, c->head.data + (c->head.len - n), n);
		return;
	}
	size_t n = (size_t)MIN((uint64_t)max, c->total);
	if (buf_reserve(to, n) < 0)
		return;
	ssize_t got = pread(c->file, to->data + to->len, n, (off_t)(c->total - n));
	if (got > 0) {
		to->len += (size_t)got;
		to->data[to->len] = '\0';
	}
}
