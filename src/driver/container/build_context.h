/* What an image is built from: the files, found safely, and a hash over all that decides about the result. */
#pragma once

#include "build_copy.h"

#include <stdatomic.h>
#include <stdbool.h>

struct err;
struct sandbox_build;

enum { BUILD_HASH_SIZE = 65 };

/* Absolute paths of the host, without symlinks; free with build_context_done. */
struct build_context {
	char *dockerfile;
	char *folder;
	struct build_copy copy;
};

/* Finds both below the workspace; a symlink that leads out of it is refused. */
int build_context_find(const char *workspace, const struct sandbox_build *b, struct build_context *ret, struct err *e)
	__attribute__((warn_unused_result));
/* Removes the copy too, if there is one. */
void build_context_done(struct build_context *c);

/* SHA-256 over the Dockerfile, each file of the context that a .dockerignore does not keep out (its path, its mode,
 * what it holds), arguments and stage, as hexadecimal digits. hidden: the host's path of a folder that must not be in
 * the context (the run store), or NULL. Reads everything, so that it belongs on a thread; *stop ends it early with
 * -ECANCELED. */
int build_context_hash(const struct build_context *c, const struct sandbox_build *b, const char *hidden,
		       const atomic_bool *stop, char ret[BUILD_HASH_SIZE], struct err *e)
	__attribute__((warn_unused_result));

/* As build_context_hash, and copies what it hashes to where nobody else can change it: on success both paths are those
 * of the copy. */
int build_context_copy(struct build_context *c, const struct sandbox_build *b, const char *hidden,
		       const atomic_bool *stop, char ret[BUILD_HASH_SIZE], struct err *e)
	__attribute__((warn_unused_result));
