/* One program behind the agent, as the host sees it. */
#pragma once

#include "../ops.h"

#include <base/buf.h>
#include <guest/protocol.h>

struct mux;

/* A descriptor of the caller's, as our own: non-blocking without a change to what others have of it. */
struct mux_end {
	struct mux_exec *exec;
	int fd;	      /* -1: none, or ended */
	bool watched; /* poll is one of the loop's; else it is a file, which never blocks */
	uv_poll_t poll;
};

struct mux_exec {
	struct exec base;
	struct mux *mux;
	uint32_t stream;
	struct mux_end in, out[2];
	uint32_t in_credit;  /* bytes that the agent still takes */
	struct buf queue[2]; /* that the caller's reader has not taken */
	bool eof[2];
	bool tty;
	bool own;    /* of the driver's, not of the run's nodes */
	bool killed; /* SIGKILL was sent: its end must follow */
	bool ended;
	bool told; /* done was called: what comes for it is dropped */
	struct exec_status status;
	unsigned open_handles;
};

/* Opens the ends. Returns 0 or -errno; mux_exec_close and the loop end it in any case. */
int mux_exec_open(struct mux_exec *x, const struct exec_opts *o, uv_loop_t *loop, struct err *e)
	__attribute__((warn_unused_result));

/* Frames of the agent: 0, or -EPROTO. */
int mux_exec_output(struct mux_exec *x, int i, const struct frame *f) __attribute__((warn_unused_result));
int mux_exec_taken(struct mux_exec *x, const struct frame *f) __attribute__((warn_unused_result));

/* Reads what may be read of the input now. */
void mux_exec_feed(struct mux_exec *x);
/* Whether its reader has everything. */
bool mux_exec_flushed(const struct mux_exec *x);
/* Lets go of the ends; mux_exec_closed follows, from within when there is nothing to wait for. */
void mux_exec_close(struct mux_exec *x);

/* What mux.c does for them. */
int mux_send(struct mux *m, uint16_t type, uint32_t stream, const void *data, size_t len);
/* Whether input has to wait; it is fed again when that is over. */
bool mux_is_full(struct mux *m);
/* Its reader took something. */
void mux_exec_progress(struct mux_exec *x);
void mux_exec_closed(struct mux_exec *x);
