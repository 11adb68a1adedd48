/* The host's end of a guest's control channel. */
#pragma once

#include <driver/exec.h>
#include <guest/protocol.h>
#include <stdbool.h>
#include <uv.h>

struct channel;

struct channel_callbacks {
	/* The guest stands; the descriptors are the callee's. terminals: the sandbox's /dev/pts, -1: it has none. */
	void (*on_ready)(void *arg, int terminals, const int *listeners, size_t n);
	/* It said why it cannot start, it broke the protocol, or it hung up. Once; nothing comes after. Every exec has
	 * ended as EXEC_LOST before. */
	void (*on_closed)(void *arg, const struct err *e);
	void *arg;
};

/* Takes the socket and queues the configuration, so that the guest finds it when it starts. */
struct channel *channel_new(int fd, const struct guest_config *cfg);

int channel_attach(struct channel *c, uv_loop_t *loop, const struct channel_callbacks *cb, struct err *e)
	__attribute__((warn_unused_result));

/* As sandbox_ops.exec. */
int channel_exec(struct channel *c, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		 struct err *e) __attribute__((warn_unused_result));

/* Tells the guest to end at once; for sandboxes whose PID 1 this process cannot kill itself. */
void channel_end(struct channel *c);

/* Handles what has arrived but was not read yet (the last words of a guest that ended). */
void channel_drain(struct channel *c);

/* Whether a program that it started has not ended. */
bool channel_busy(const struct channel *c);

/* Ends every exec as EXEC_LOST and hangs up, without on_closed. Idempotent. */
void channel_close(struct channel *c);

/* closed is called once the loop has let go of it; NULL when it was never attached (then it is freed at once). */
void channel_free(struct channel *c, void (*closed)(void *arg), void *arg);
