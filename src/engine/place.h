/* Where nodes run. */
#pragma once

#include "engine_priv.h"
#include "stay.h"

#include <sandbox/spec.h>

enum place_state { PLACE_NEW, PLACE_STARTING, PLACE_UP, PLACE_FAILED };

/* A place that nodes run in: one session, by the spec it is made from. */
struct place {
	struct engine *en;
	struct sandbox_spec spec; /* a copy, with what the run's worktree needs */
	const char *driver;
	struct session *session;
	bool isolated; /* a real sandbox: the spec's environment applies */
	enum place_state state;
	const struct dsl_node *first; /* that it was started for; NULL: none yet, or the whole run */
	struct err err;		      /* PLACE_FAILED: why */
	struct stays stays;
	bool started; /* session_start was called */
	bool stopping;
	bool stopped;
};

/* Which places there are, and which node runs where; makes nothing. 0 or -errno. */
int places_plan(struct engine *en, struct err *e) __attribute__((warn_unused_result));
/* Makes their sessions. 0 or -errno. */
int places_new(struct engine *en, struct err *e) __attribute__((warn_unused_result));
/* Starts those that every node may run in; PHASE_RUNNING follows. */
void places_start(struct engine *en);
/* Whether a node can start in it: 1, or 0 when it is being started (the pump is woken after that), or -errno when it
 * could not be started. The first that asks, for node n, starts it. */
int place_need(struct place *pl, const struct dsl_node *n, struct err *e) __attribute__((warn_unused_result));
bool place_is_starting(const struct place *pl);
/* Where it has the run's attachments; NULL: at the host's path, or there are none. */
const char *place_attachments(const struct place *pl);
/* Stops all; engine_check_end is called after each. */
void places_stop(struct engine *en);
/* Stops those that could not be started: a run that does without them may go on for long. From the loop. */
void places_stop_failed(struct engine *en);
bool places_stopped(const struct engine *en);
void places_free(struct engine *en);
