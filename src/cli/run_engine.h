/* A run from its parameters to the exit code, as `run` and `resume` show it. */
#pragma once

#include <stdbool.h>

struct engine_params;
struct err;

struct run_show {
	bool json;   /* the events, one JSON object a line */
	bool quiet;  /* errors only */
	bool lines;  /* never the live view */
	bool no_ask; /* human nodes are not asked about on the terminal */
};

/* Makes the engine, works on its loop until the run has ended, and tells what went wrong in it. p's on_event and arg
 * are set here. Returns the exit code, or -errno with e when nothing was started. */
int run_engine(const struct engine_params *p, const struct run_show *show, struct err *e)
	__attribute__((warn_unused_result));
