/* Reading a workflow file for a command. */
#pragma once

#include <stddef.h>

struct dsl_file;
struct err;

struct workflow {
	char *source;
	size_t len;
	struct dsl_file *file;
};

/* Reads, parses and checks it; project_dir is what ${PROJECT_DIR} means. Returns 0 also when the file has findings,
 * which then stand in file->diags; -errno when it cannot be read. The caller calls workflow_done in any case. */
int workflow_read(const char *path, const char *project_dir, struct workflow *ret, struct err *e)
	__attribute__((warn_unused_result));

/* The same for a command that goes on with the file: findings are printed on standard error, and an error among them
 * is one of the command (kind INPUT). */
int workflow_load(const char *path, const char *project_dir, struct workflow *ret, struct err *e)
	__attribute__((warn_unused_result));

void workflow_done(struct workflow *w);
#define auto_workflow __attribute__((cleanup(workflow_done))) struct workflow
