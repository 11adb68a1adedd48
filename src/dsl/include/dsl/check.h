/* Whether a parsed file makes sense as a whole. */
#pragma once

#include <stdbool.h>

struct dsl_file;

struct dsl_check_opts {
	/* A backend with credentials was found on this host, so an agent need not name one (C018). */
	bool backend_detected;
};

/* Adds what it finds to the file's diagnostics. opts may be NULL. Call once, also after a parse with errors (then what
 * the errors make unknowable is not reported again). Returns 0, or -EINVAL when the file has errors, of either step. */
int dsl_check(struct dsl_file *f, const struct dsl_check_opts *opts);
