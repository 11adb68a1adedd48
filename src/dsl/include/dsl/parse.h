/* Reading a workflow file. */
#pragma once

#include <dsl/ast.h>
#include <stddef.h>

enum { DSL_FILE_MAX = 64 * 1024 * 1024 };

/* Where ${NAME} comes from; the library itself never looks at the environment. */
struct dsl_env {
	/* The value of a name, or NULL when it is not set; may be NULL. */
	const char *(*get)(void *arg, const char *name);
	void *arg;
	/* The workspace, what ${PROJECT_DIR} means; NULL: asked of get like any other name. */
	const char *project_dir;
};

/* Parses text (any bytes). file is the name that messages show; env may be NULL (nothing is set). *ret is always set,
 * whatever the text holds, and freed by dsl_file_free; text is copied. Returns 0, or -EINVAL when there were errors,
 * which then stand in (*ret)->diags. */
int dsl_parse(const char *file, const char *text, size_t len, const struct dsl_env *env, struct dsl_file **ret);

/* NULL is accepted. */
void dsl_file_free(struct dsl_file *f);
