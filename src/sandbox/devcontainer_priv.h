/* What the parts of the devcontainer.json reader share. */
#pragma once

#include "jsonc.h"

#include <sandbox/block.h>
#include <sandbox/devcontainer.h>

struct devcontainer {
	const char *const *env; /* borrowed */
	char *workspace;
	char *path;
	char *shown; /* the file as messages and events name it */
	char *text;
	struct jsonc doc; /* root: substituted, in its legacy parts brought up to date */
	char *folder;	  /* ${containerWorkspaceFolder} */
};

/* Replaces ${devcontainerId} in every string value. */
int dc_expand_id(struct devcontainer *d, struct err *e);

/* One reading of a devcontainer.json into a block. */
struct dc_reader {
	const struct devcontainer *d;
	json_t *root;
	struct sandbox_block *out;
	struct err *e;
};

/* Ends the reading: fills r->e with "file:line:column: devcontainer FIELD: why" and the hint, returns -EINVAL. */
int dc_bad(const struct dc_reader *r, const json_t *at, const char *field, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* The same around an error that a check has filled r->e with. */
int dc_wrap(const struct dc_reader *r, const json_t *at, const char *field, int code);

/* Adds to the spec's warnings. */
void dc_warn(const struct dc_reader *r, const char *code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Says whose value a field is. */
void dc_source(const struct dc_reader *r, const char *field);

/* The text of a value, which must be a string without a line end or another control character. */
int dc_text(const struct dc_reader *r, json_t *v, const char *field, const char **ret);

/* Sets an environment variable after the checks of both halves. */
int dc_set_env(const struct dc_reader *r, const json_t *at, const char *field, struct strv *to, const char *name,
	       const char *value);

/* mounts; one mount as --mount or -v write it; workspaceMount and workspaceFolder, which belong together. */
int dc_read_mounts(struct dc_reader *r, json_t *v, const char *field);
int dc_add_mount(const struct dc_reader *r, const json_t *at, const char *field, const char *text);
int dc_read_workspace(struct dc_reader *r);

/* runArgs, capAdd, securityOpt, init and privileged. */
int dc_read_run_args(struct dc_reader *r, json_t *v, const char *field);
int dc_read_cap_add(struct dc_reader *r, json_t *v, const char *field);
int dc_read_security_opt(struct dc_reader *r, json_t *v, const char *field);
int dc_read_init(struct dc_reader *r, json_t *v, const char *field);
int dc_read_privileged(struct dc_reader *r, json_t *v, const char *field);

/* onCreateCommand and its three successors. */
int dc_read_command(struct dc_reader *r, json_t *v, const char *field);
