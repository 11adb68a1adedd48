/* `sandbox doctor`: its options, and its strict half. */
#pragma once

#include "sandbox_flags.h"

#include <stdbool.h>

struct dsl_file;
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

/* How long an answer may take: ITERION_SANDBOX_DOCTOR_TIMEOUT, or its default. -EINVAL (kind USAGE) for a bad word. */
int sandbox_doctor_timeout(unsigned *ret_ms, struct err *e) __attribute__((warn_unused_result));

/* Whether a run of the file (NULL: none, this machine alone) would work: checks, shows, and returns 0, 1 when a check
 * failed, or -errno. */
int sandbox_doctor_strict(const struct doctor_opts *o, const char *file, unsigned timeout_ms, struct err *e)
	__attribute__((warn_unused_result));

/* What a run has resolved; borrowed. */
struct preflight_request {
	const struct sandbox_flags *flags;
	const struct dsl_file *file;
	const struct sandbox_choice *choice;
	const char *workspace;
	const char *store_dir;
};

/* The same checks before a run, when ITERION_SANDBOX_PREFLIGHT asks for them. Warnings are printed; a failure is the
 * error, of kind PREFLIGHT. */
int sandbox_preflight(const struct preflight_request *q, struct err *e) __attribute__((warn_unused_result));
