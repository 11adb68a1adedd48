/* What this machine can do for sandboxes. */
#pragma once

#include <jansson.h>

struct err;

struct doctor_params {
	const char *driver;	   /* asked for by name; NULL: by host */
	const char *driver_source; /* who asked */
	unsigned timeout_ms;	   /* for each question */
};

/* Asks everything at the same time and returns one document:
 * {"driver": {"name": null when none can serve, "reason", "hint"?},
 *  "drivers": [{"name", "usable", "reason"?, "hint"?, "capabilities": […]}],
 *  "host": [{"id", "status": "yes", "no" or "unknown", "detail", "hint"?}],
 *  "versions": [the same]}.
 * Takes no longer than the slowest question, and timeout_ms at most. Fails only when nothing can be asked at all, or
 * the name is no driver's. */
int doctor_report(const struct doctor_params *p, json_t **ret, struct err *e) __attribute__((warn_unused_result));
