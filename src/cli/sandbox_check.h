/* What is wrong with the sandbox blocks of a workflow file: the part of its checks that the language cannot make alone.
 */
#pragma once

#include <base/err.h>
#include <dsl/text.h>
#include <stddef.h>

struct dsl_file;
struct strv;

struct sandbox_finding {
	struct dsl_pos pos;
	struct err err;
};
struct sandbox_findings {
	struct sandbox_finding *v;
	size_t n, cap;
};

/* Reads the workflow's block and every node's as a run would. workspace is absolute. */
void sandbox_check_file(const struct dsl_file *f, const char *workspace, struct sandbox_findings *ret);
/* What is wrong with the devcontainer.json that a run of the file would use: the one at asked, or when that is NULL and
 * the workflow's block has mode auto the one that is found in the workspace. warnings gets what of it is not honoured,
 * as "CODE=message". */
void sandbox_check_devcontainer(const struct dsl_file *f, const char *workspace, const char *asked,
				struct sandbox_findings *ret, struct strv *warnings);
void sandbox_findings_done(struct sandbox_findings *f);
