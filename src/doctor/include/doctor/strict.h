/* Whether a run would work: the checks of `sandbox doctor --strict`. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct err;
struct sandbox_spec;

/* Everything is borrowed. */
struct strict_params {
	const struct sandbox_spec *spec; /* what a run would use; NULL: it could not be resolved */
	const struct err *why;		 /* then: why not */
	const char *driver;		 /* that would serve it; NULL: unknown */
	bool cloud;			 /* checked for the kubernetes driver, whatever this machine has */
	bool other_host;		 /* --target was given: what this machine lacks is a warning */
	const char *workspace;		 /* absolute, resolved */
	const char *store_dir;		 /* absolute */
	unsigned timeout_ms;		 /* for each check */
};

/* Carries out the checks that apply, all at the same time. *ret: [{"id", "status": "pass", "warn" or "fail", "detail",
 * "remedy"?}]; *ret_ok: none failed. One that does not answer in time is a warning. Returns 0, or -errno when nothing
 * could be asked. */
int doctor_strict(const struct strict_params *p, json_t **ret, bool *ret_ok, struct err *e)
	__attribute__((warn_unused_result));
