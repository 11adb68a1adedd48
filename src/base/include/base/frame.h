/* Framed messages, with descriptors over a connected unix stream socket. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct frame_conn;

enum {
	FRAME_MAX_FDS = 16,		     /* descriptors in one frame */
	FRAME_MAX_PAYLOAD = 4 * 1024 * 1024, /* bytes in one frame */
};

/* One message. payload and fds belong to the connection until the next frame_recv; a receiver that keeps a
 * descriptor sets its entry to -1. */
struct frame {
	uint16_t type;
	uint16_t nfds;
	uint32_t stream; /* which exec or object it speaks of; 0 for the connection itself */
	const char *payload;
	size_t len;
	int *fds;
};

/* Takes the socket and makes it non-blocking. Frames from the other side with a payload past max_payload (at most
 * FRAME_MAX_PAYLOAD) are a protocol error. */
struct frame_conn *frame_conn_new(int fd, size_t max_payload);
/* The same over two descriptors of any kind (a program's stdin and stdout), which are taken: no descriptor can travel
 * with a frame there. The caller has SIGPIPE blocked or ignored. */
struct frame_conn *frame_conn_new_plain(int in, int out, size_t max_payload);
/* Closes the socket and every descriptor still queued either way; NULL is accepted. */
void frame_conn_free(struct frame_conn *c);
int frame_conn_fd(const struct frame_conn *c);
/* What is written to: the same, but for a plain one. */
int frame_conn_out_fd(const struct frame_conn *c);

/* Queues a frame and writes what the socket takes. The descriptors are the connection's from here on, also on error
 * (closed when sent). Returns 0 or -errno: -EPIPE when the other side is gone, -ENOBUFS when more than queue_limit
 * bytes wait (the other side does not read). */
int frame_send(struct frame_conn *c, uint16_t type, uint32_t stream, const void *payload, size_t len, const int *fds,
	       size_t nfds) __attribute__((warn_unused_result));

/* Whether queued bytes wait for the socket to become writable, and the writing of them (0 or -errno). */
bool frame_wants_write(const struct frame_conn *c);
int frame_flush(struct frame_conn *c) __attribute__((warn_unused_result));

/* Next frame: 1 with *ret filled, 0 when none is complete yet (wait until readable), -ECONNRESET at the end of the
 * stream, -EPROTO for a malformed frame, or another -errno. Descriptors arrive with O_CLOEXEC. */
int frame_recv(struct frame_conn *c, struct frame *ret) __attribute__((warn_unused_result));

/* Waits (poll) until a frame is there or timeout_ms passed (-ETIMEDOUT; -1 waits for ever); for start-up hand-shakes
 * before a loop runs. */
int frame_recv_wait(struct frame_conn *c, struct frame *ret, int timeout_ms) __attribute__((warn_unused_result));
