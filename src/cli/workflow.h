/* Reading a workflow file for a command. */
#pragma once

#include "sandbox_check.h"

#include <jansson.h>
#include <stddef.h>

struct buf;
struct dsl_file;
struct err;

struct workflow {
	char *source;
	size_t len;
	struct dsl_file *file;
	struct sandbox_findings sandbox; /* errors of the sandbox blocks */
	char *project;			 /* what the file means by its workspace; NULL: the workspace itself */
};

/* Reads, parses and checks it; workspace (absolute) is what ${PROJECT_DIR} means. Returns 0 also when there are
 * findings; -errno when the file cannot be read. The caller calls workflow_done in any case. */
int workflow_read(const char *path, const char *workspace, struct workflow *ret, struct err *e)
	__attribute__((warn_unused_result));

/* The same for a command that goes on with the file: findings are printed on standard error, and an error among them
 * is one of the command (kind INPUT). */
int workflow_load(const char *path, const char *workspace, struct workflow *ret, struct err *e)
	__attribute__((warn_unused_result));

/* The same for a run, whose nodes may work in a worktree of its own: ${PROJECT_DIR} then means the workspace there. */
int workflow_load_run(const char *path, const char *workspace, const char *store_dir, const char *run_id,
		      struct workflow *ret, struct err *e) __attribute__((warn_unused_result));

size_t workflow_errors(const struct workflow *w);
size_t workflow_warnings(const struct workflow *w);
/* All findings for people (what goes past the buffer's limit is left out), and as the document of `validate --json`. */
void workflow_findings(const struct workflow *w, struct buf *to);
json_t *workflow_findings_json(const struct workflow *w);

void workflow_done(struct workflow *w);
#define auto_workflow __attribute__((cleanup(workflow_done))) struct workflow
