/* Framed messages with descriptors over a connected unix stream socket.
 *
 * A frame is a header of 12 bytes (payload length, type, number of descriptors, stream id), then the payload. The
 * descriptors of a frame travel with its first byte as SCM_RIGHTS (unix(7)); the kernel never lets one read cross from
 * one batch of descriptors into the next, so a queue of received descriptors, taken from in order by the frames that
 * announce them, pairs them again. The other side may be hostile: lengths, counts and the queue of descriptors are
 * bounded, and a frame that announces descriptors which did not come is a protocol error. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/file.h>
#include <base/frame.h>
#include <base/mem.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	READ_CHUNK = 16 * 1024,
	QUEUE_LIMIT = 32 * 1024 * 1024, /* bytes that may wait for a peer which does not read */
	MAX_PENDING_FDS = 64,
};

struct head {
	uint32_t len;
	uint16_t type;
	uint16_t nfds;
	uint32_t stream;
};

/* A batch of descriptors that leaves with the byte at this offset of the send queue. */
struct outgoing {
	size_t offset;
	size_t n;
	int fds[FRAME_MAX_FDS];
};

struct frame_conn {
	int fd;
	int out_fd; /* -1: the same */
	bool ended; /* the other side closed; what was read before is still delivered */
	size_t max_payload;
	struct buf in;
	size_t taken; /* bytes of in that the last frame used */
	int in_fds[MAX_PENDING_FDS];
	size_t n_in_fds;
	int frame_fds[FRAME_MAX_FDS];
	size_t n_frame_fds;
	struct buf out;
	struct outgoing *batches;
	size_t n_batches;
	size_t cap_batches;
};

struct frame_conn *frame_conn_new(int fd, size_t max_payload)
{
	struct frame_conn *c = xcalloc(1, sizeof *c);

	c->fd = fd;
	c->out_fd = -1;
	c->max_payload = MIN(max_payload, (size_t)FRAME_MAX_PAYLOAD);
	c->in = BUF_INIT(c->max_payload + sizeof(struct head) + READ_CHUNK);
	c->out = BUF_INIT(QUEUE_LIMIT);
	/* It fails only for a descriptor that is none, and then so does everything after. */
	if (fd_set_nonblock(fd, true) < 0)
		c->ended = true;
	return c;
}

struct frame_conn *frame_conn_new_plain(int in, int out, size_t max_payload)
{
	struct frame_conn *c = frame_conn_new(in, max_payload);

	c->out_fd = out;
	if (fd_set_nonblock(out, true) < 0)
		c->ended = true;
	return c;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close_quietly(fds[i]);
}

void frame_conn_free(struct frame_conn *c)
{
	if (!c)
		return;
	close_all(c->in_fds, c->n_in_fds);
	close_all(c->frame_fds, c->n_frame_fds);
	for (size_t i = 0; i < c->n_batches; i++)
		close_all(c->batches[i].fds, c->batches[i].n);
	free(c->batches);
	buf_done(&c->in);
	buf_done(&c->out);
	close_quietly(c->fd);
	close_quietly(c->out_fd);
	free(c);
}

int frame_conn_fd(const struct frame_conn *c)
{
	return c->fd;
}

int frame_conn_out_fd(const struct frame_conn *c)
{
	return c->out_fd >= 0 ? c->out_fd : c->fd;
}

/* How many queued bytes may go in one write: up to the next batch of descriptors, which must start its own. */
static size_t writable_run(const struct frame_conn *c)
{
	size_t next = c->n_batches && c->batches[0].offset == 0 ? 1 : 0;

	return next < c->n_batches ? c->batches[next].offset : c->out.len;
}

static ssize_t send_run(struct frame_conn *c)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * FRAME_MAX_FDS)];
	} control = {0};
	struct iovec iov = {.iov_base = c->out.data, .iov_len = writable_run(c)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (c->out_fd >= 0)
		return write(c->out_fd, c->out.data, c->out.len);
	if (c->n_batches && c->batches[0].offset == 0) {
		size_t size = sizeof(int) * c->batches[0].n;
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(size);
		control.align =
			(struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size)};
		memcpy(CMSG_DATA(&control.align), c->batches[0].fds, size);
	}
	return sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void drop_sent(struct frame_conn *c, size_t n)
{
	if (c->n_batches && c->batches[0].offset == 0) {
		close_all(c->batches[0].fds, c->batches[0].n);
		c->n_batches--;
		memmove(c->batches, c->batches + 1, c->n_batches * sizeof *c->batches);
	}
	for (size_t i = 0; i < c->n_batches; i++)
		c->batches[i].offset -= n;
	buf_consume(&c->out, n);
}

int frame_flush(struct frame_conn *c)
{
	while (c->out.len > 0) {
		ssize_t n = send_run(c);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return errno == ECONNRESET ? -EPIPE : -errno;
		drop_sent(c, (size_t)n);
	}
	return 0;
}

bool frame_wants_write(const struct frame_conn *c)
{
	return c->out.len > 0;
}

int frame_send(struct frame_conn *c, uint16_t type, uint32_t stream, const void *payload, size_t len, const int *fds,
	       size_t nfds)
{
	struct head h = {.len = (uint32_t)len, .type = type, .nfds = (uint16_t)nfds, .stream = stream};

	size_t most_fds = c->out_fd >= 0 ? 0 : FRAME_MAX_FDS;
	if (len > FRAME_MAX_PAYLOAD || nfds > most_fds || buf_reserve(&c->out, sizeof h + len) < 0) {
		close_all(fds, nfds);
		return len > FRAME_MAX_PAYLOAD || nfds > most_fds ? -EMSGSIZE : -ENOBUFS;
	}
	if (nfds) {
		c->batches = grow_array(c->batches, c->n_batches, &c->cap_batches, sizeof *c->batches);
		struct outgoing *b = &c->batches[c->n_batches++];
		*b = (struct outgoing){.offset = c->out.len, .n = nfds};
		memcpy(b->fds, fds, nfds * sizeof *fds);
	}
	(void)buf_add(&c->out, &h, sizeof h);
	(void)buf_add(&c->out, payload, len);
	return frame_flush(c);
}

/* Keeps the descriptors of one received message; those past the limit are closed and end the connection. */
static int keep_fds(struct frame_conn *c, struct msghdr *msg)
{
	int r = msg->msg_flags & MSG_CTRUNC ? -EPROTO : 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
			if (c->n_in_fds < MAX_PENDING_FDS) {
				c->in_fds[c->n_in_fds++] = fd;
			} else {
				close_quietly(fd);
				r = -EPROTO;
			}
		}
	}
	return r;
}

static ssize_t receive(struct frame_conn *c, struct msghdr *msg)
{
	return c->out_fd >= 0 ? read(c->fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len)
			      : recvmsg(c->fd, msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
}

/* One read: 1 when bytes came, 0 when none are there, -errno. */
static int read_more(struct frame_conn *c)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * FRAME_MAX_FDS)];
	} control;

	if (buf_reserve(&c->in, READ_CHUNK) < 0)
		return -EPROTO;
	struct iovec iov = {.iov_base = c->in.data + c->in.len, .iov_len = READ_CHUNK};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
	ssize_t n;
	do
		n = receive(c, &msg);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	int r = c->out_fd >= 0 ? 0 : keep_fds(c, &msg);
	if (r < 0)
		return r;
	if (n == 0) {
		c->ended = true;
		return 0;
	}
	c->in.len += (size_t)n;
	c->in.data[c->in.len] = '\0';
	return 1;
}

/* Looks for a whole frame in what was read: 1, 0, or -EPROTO. */
static int next_frame(struct frame_conn *c, struct frame *ret)
{
	struct head h;

	if (c->in.len < sizeof h)
		return 0;
	memcpy(&h, c->in.data, sizeof h);
	if (h.len > c->max_payload || h.nfds > FRAME_MAX_FDS)
		return -EPROTO;
	if (c->in.len < sizeof h + h.len)
		return 0;
	if (h.nfds > c->n_in_fds)
		return -EPROTO;
	memcpy(c->frame_fds, c->in_fds, h.nfds * sizeof(int));
	c->n_frame_fds = h.nfds;
	c->n_in_fds -= h.nfds;
	memmove(c->in_fds, c->in_fds + h.nfds, c->n_in_fds * sizeof(int));
	c->taken = sizeof h + h.len;
	*ret = (struct frame){.type = h.type,
			      .nfds = h.nfds,
			      .stream = h.stream,
			      .payload = c->in.data + sizeof h,
			      .len = h.len,
			      .fds = c->frame_fds};
	return 1;
}

int frame_recv(struct frame_conn *c, struct frame *ret)
{
	buf_consume(&c->in, c->taken);
	c->taken = 0;
	close_all(c->frame_fds, c->n_frame_fds);
	c->n_frame_fds = 0;
	for (;;) {
		int r = next_frame(c, ret);
		if (r != 0)
			return r;
		if (c->ended)
			return -ECONNRESET;
		r = read_more(c);
		if (r < 0 || (r == 0 && !c->ended))
			return r;
	}
}

int frame_recv_wait(struct frame_conn *c, struct frame *ret, int timeout_ms)
{
	/* The end is fixed once: a peer that sends a byte now and then must not put it off. */
	uint64_t end = clock_ms() + (uint64_t)MAX(timeout_ms, 0);

	for (;;) {
		int r = frame_recv(c, ret);
		if (r != 0)
			return r;
		uint64_t now = clock_ms();
		int left = timeout_ms < 0 ? -1 : (int)(end > now ? end - now : 0);
		struct pollfd p = {.fd = c->fd, .events = POLLIN};
		r = poll(&p, 1, left);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r == 0)
			return -ETIMEDOUT;
	}
}
