/* One program whose bytes pass through `agent`. */
#pragma once

#include <guest/protocol.h>
#include <poll.h>

enum { AGENT_EXEC_POLLS = 3 };

struct agent_exec;

/* Makes the pipes or the terminal that the frame (GUEST_EXEC) asks for. ret_fds are the program's ends, which the
 * caller passes on. Returns 0 or -errno. */
int agent_exec_new(const struct frame *f, struct agent_exec **ret, int ret_fds[3]) __attribute__((warn_unused_result));
void agent_exec_free(struct agent_exec *x);
uint32_t agent_exec_stream(const struct agent_exec *x);

/* Frames of the host: 0, or -EPROTO. */
int agent_exec_input(struct agent_exec *x, struct frame_conn *host, const struct frame *f)
	__attribute__((warn_unused_result));
int agent_exec_credit(struct agent_exec *x, const struct frame *f) __attribute__((warn_unused_result));
int agent_exec_resize(struct agent_exec *x, const struct frame *f) __attribute__((warn_unused_result));

/* The program has ended with this: it is told once what it had written is passed on. */
void agent_exec_ended(struct agent_exec *x, const struct frame *f);

/* What to wait for. may_read: the host takes more. */
void agent_exec_poll(const struct agent_exec *x, bool may_read, struct pollfd p[AGENT_EXEC_POLLS]);
/* Moves what can be moved after poll. 1 when it is over and was told, 0, or -errno of the host's connection. */
int agent_exec_move(struct agent_exec *x, struct frame_conn *host, const struct pollfd p[AGENT_EXEC_POLLS])
	__attribute__((warn_unused_result));
