/* A session of the driver layer that runs programs on the host and does what a test tells it: fails to start, is lost
 * under a program, counts what the engine does with it. Linked in place of the real one. */
#pragma once

#include <base/err.h>
#include <stdbool.h>
#include <uv.h>

struct session;

struct fake_session {
	struct err new_error;	/* kind not NONE: session_new fails with it */
	struct err start_error; /* the same for session_start */
	bool only_late;		/* start_error is for those that are made late */
	unsigned lose_at;	/* the session is lost right after its n-th program started; 0: never */
	bool early_event;	/* session_new already emits an event */
	/* What happened. */
	unsigned late; /* of those made */
	unsigned made, started, stopped, freed, execs;
	char *env; /* of the latest program, one a line; free with fake_session_reset */
};
extern struct fake_session fake_session;

/* Back to a session without tricks. */
void fake_session_reset(void);

/* For tests of what runs in a session: one that is up, on the host; and its orderly end, which leaves the loop empty.
 */
struct session *fake_session_open(uv_loop_t *loop, const char *workspace);
void fake_session_close(struct session *s, uv_loop_t *loop);
