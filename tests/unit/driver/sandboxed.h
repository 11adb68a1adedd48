/* A sandbox of one driver on a loop of its own, for the tests of this folder. */
#pragma once

#include "ops.h"

#include <base/err.h>
#include <sandbox/spec.h>

struct sandboxed {
	uv_loop_t loop;
	struct sandbox_spec spec; /* an empty one */
	struct sandbox_params params;
	struct sandbox *sandbox;
	bool ready, lost, stopped, killed;
	int listeners[4];
	size_t n_listeners;
	struct err why;
	json_t *events;		/* an array that gets [type, data]; NULL: nobody listens */
	const char *const *env; /* of sandboxed_sh; NULL: a PATH */
};

/* Starts it and runs the loop until it is ready or lost. Fails the test when sandbox_new does. */
void sandboxed_start(struct sandboxed *s, const struct driver *d, bool enforce_network);
/* The same with this spec, which is borrowed; s->events is set before, the rest of it is not. */
void sandboxed_start_with(struct sandboxed *s, const struct driver *d, bool enforce_network,
			  const struct sandbox_spec *spec);
/* Runs a shell command to its end and returns how it ended; out (may be NULL) gets its stdout, NUL-terminated. */
struct exec_status sandboxed_sh(struct sandboxed *s, const char *command, char *out, size_t size);
/* Runs the loop until *flag is set. */
void sandboxed_wait(struct sandboxed *s, const bool *flag);
/* Stops and frees everything; fails the test when handles are left. */
void sandboxed_end(struct sandboxed *s);
