/* What `run` was told that changes where its nodes run and how: kept in run.json for `resume`. */
#pragma once

#include "run_opts.h"

#include <jansson.h>

/* Of a run's command line and environment. A new object. */
json_t *run_note(const struct run_opts *o);

/* What resume goes by; the strings are those of its command line and of the record. */
struct run_noted {
	struct run_opts opts;
	struct sandbox_env env;	 /* the run's own variables; opts.sandbox.env points here */
	const char *main_driver; /* that the run's own sandbox had; NULL: to be chosen anew */
	const json_t *drivers;	 /* and those of nodes' own sandboxes, by name */
};

/* Fills in what the flags that were given now (in ret->opts, whose list it owns) leave open from the record (run.json),
 * which must outlive it. The caller calls run_noted_done. */
void run_noted_fill(struct run_noted *ret, const json_t *record);
/* Lets the drivers, who read ITERION_NETWORK_ENFORCEMENT themselves, see the one of then when there is none now: a run
 * whose policy must be enforced does not go on where it is only offered. */
void run_noted_enforce(const json_t *record);
void run_noted_done(struct run_noted *n);
#define auto_run_noted __attribute__((cleanup(run_noted_done))) struct run_noted
