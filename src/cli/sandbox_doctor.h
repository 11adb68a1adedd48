/* `sandbox doctor`: its options, and its strict half. */
#pragma once

#include "sandbox_flags.h"

#include <stdbool.h>

struct err;

struct doctor_opts {
	struct sandbox_flags sandbox;
	const char *workspace;
	const char *store_dir;
	const char *target; /* NULL: auto */
	bool strict;
	bool json;
};

extern const char *const doctor_targets[];

/* Whether a run of the file (NULL: none, this machine alone) would work: checks, shows, and returns 0, 1 when a check
 * failed, or -errno. */
int sandbox_doctor_strict(const struct doctor_opts *o, const char *file, unsigned timeout_ms, struct err *e)
	__attribute__((warn_unused_result));
