/* The host's end of an agent's connection: programs in a sandbox to which no descriptor can travel. */
#pragma once

#include <driver/exec.h>
#include <guest/protocol.h>
#include <stdbool.h>
#include <uv.h>

struct mux;

struct mux_callbacks {
	/* The guest stands. */
	void (*on_ready)(void *arg);
	/* It said why it cannot start, it broke the protocol, or it hung up (r is then -ECONNRESET). Once; nothing
	 * comes after. The execs end by mux_close. */
	void (*on_closed)(void *arg, int r, const struct err *e);
	void *arg;
};

/* Takes the socket that the agent's stdin and stdout are. prefix (taken, may be NULL) goes in front of all frames, the
 * first of which, cfg, follows the agent's hello. */
struct mux *mux_new(int fd, char *prefix, size_t prefix_len, const struct guest_config *cfg);

int mux_attach(struct mux *m, uv_loop_t *loop, const struct mux_callbacks *cb, struct err *e)
	__attribute__((warn_unused_result));

/* As sandbox_ops.exec. own: a program of the driver's, which the two calls below pass over. */
int mux_exec(struct mux *m, const struct exec_opts *o, bool own, exec_done_cb done, void *arg, struct exec **ret,
	     struct err *e) __attribute__((warn_unused_result));

/* Whether a program of the run has not ended. */
bool mux_busy(const struct mux *m);
/* Kills every program of the run and ends its exec as EXEC_LOST; more can be started. */
void mux_lose_execs(struct mux *m);

/* Tells the guest to end, and with it everything inside. */
void mux_end(struct mux *m);
/* Ends every exec as EXEC_LOST and hangs up, without on_closed. Idempotent. */
void mux_close(struct mux *m);

/* closed is called once the loop has let go of it; from within when it was never attached. */
void mux_free(struct mux *m, void (*closed)(void *arg), void *arg);
