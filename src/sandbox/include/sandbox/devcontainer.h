/* devcontainer.json: where it stands, what it says, and what of it a sandbox takes over. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct devcontainer;
struct err;
struct sandbox_block;
struct strv;

/* A file that was found: its absolute path and its text. The caller frees both. */
struct devcontainer_file {
	char *path; /* NULL: there is none */
	char *text;
	size_t len;
};

/* Looks in the workspace (absolute, without symlinks) for .devcontainer/devcontainer.json, .devcontainer.json and
 * .devcontainer/FOLDER/devcontainer.json, in this order. No symlink leads out of the workspace. Returns 0, also when
 * there is none; -ENOTUNIQ when several folders have one, with their names; other errors with a hint. */
int devcontainer_find(const char *workspace, struct devcontainer_file *ret, struct err *e)
	__attribute__((warn_unused_result));

/* Reads the one that was asked for by path (relative: from the current folder). It may lie anywhere; in the workspace
 * no symlink leads out of it. */
int devcontainer_read(const char *workspace, const char *path, struct devcontainer_file *ret, struct err *e)
	__attribute__((warn_unused_result));

void devcontainer_file_done(struct devcontainer_file *f);
#define auto_devcontainer_file __attribute__((cleanup(devcontainer_file_done))) struct devcontainer_file

struct devcontainer_params {
	const char *workspace;	    /* on the host, absolute */
	const char *path;	    /* of the file, absolute */
	const char *const *env;	    /* of the host, "NAME=value", NULL-terminated */
	const char *folder;	    /* where the workspace stands inside, whatever the file says; NULL: as it says */
	const char *default_folder; /* the same when it says nothing; NULL: /workspaces/NAME, the reference's choice */
};

/* Parses the text and replaces ${localEnv:…}, ${localWorkspaceFolder…} and ${containerWorkspaceFolder…} in every string
 * value; the rest waits for the container (devcontainer_expand_env). Afterwards only env is still needed. Returns 0, or
 * -EINVAL with "file:line:column: …" and a hint. */
int devcontainer_load(const struct devcontainer_params *p, const char *text, size_t len, struct devcontainer **ret,
		      struct err *e) __attribute__((warn_unused_result));
void devcontainer_free(struct devcontainer *d);
static inline void cleanup_devcontainer(struct devcontainer **d)
{
	devcontainer_free(*d);
}
#define auto_devcontainer __attribute__((cleanup(cleanup_devcontainer))) struct devcontainer *

/* What `devcontainer read-configuration` of @devcontainers/cli 0.89 prints as "configuration" and "workspace"; new
 * references. */
json_t *devcontainer_configuration(const struct devcontainer *d);
json_t *devcontainer_workspace(const struct devcontainer *d);

/* What of it a sandbox takes over; what it does not is in the spec's warnings. ${devcontainerId} is replaced, also in
 * the configuration. Returns 0 (sandbox_block_done frees), or -EINVAL with "file:line:column: devcontainer FIELD: …"
 * and a hint. */
int devcontainer_to_block(struct devcontainer *d, struct sandbox_block *ret, struct err *e)
	__attribute__((warn_unused_result));

/* All of that for one run: asked is a path, "none" for no file at all, or NULL for the one that is found. folder is
 * where the workspace stands inside when somebody else decided that (NULL: as the file says, else at its own path).
 * *ret_there: whether there was a file; only then ret is filled. */
int devcontainer_take(const char *workspace, const char *asked, const char *const *env, const char *folder,
		      struct sandbox_block *ret, bool *ret_there, struct err *e) __attribute__((warn_unused_result));

/* ${devcontainerId}: the reference's algorithm, over the labels that it gives a container (devcontainer.local_folder
 * and devcontainer.config_file): their JSON's SHA-256 in base 32 with the digits 0-9 and a-v, 52 of them. */
enum { DEVCONTAINER_ID_SIZE = 53 };
void devcontainer_id(const char *workspace, const char *path, char ret[DEVCONTAINER_ID_SIZE]);

/* The second stage, once the container's environment is known: a new string with ${containerEnv:NAME} and
 * ${containerEnv:NAME:default} replaced from "NAME=value" entries; the text as it is when it would become longer than
 * any program can take. The caller frees. */
char *devcontainer_expand_env(const struct strv *env, const char *text) __attribute__((returns_nonnull));

/* Lays a spec's remote_env over the environment of one program: "NAME=value" sets, with ${containerEnv:…} meaning the
 * environment as it was given; "NAME" alone takes the variable out. */
void devcontainer_apply_remote_env(struct strv *env, const struct strv *remote);
