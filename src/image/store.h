/* The store from within: what fetching an image does to it. */
#pragma once

#include "unpack.h"

#include <image/store.h>

enum { STORE_NAME_SIZE = DIGEST_SIZE, STORE_MAX_RECORD = 1024 * 1024 };

/* Opens the store, made when it is missing: a descriptor or -errno. */
int store_open(const char *dir, struct err *e) __attribute__((warn_unused_result));

/* The same for a store that is there; refused when others can write to it. */
int store_open_existing(const char *dir, struct err *e) __attribute__((warn_unused_result));

/* "sha256-…": a digest as the name of a file. */
void store_name(const char *digest, char ret[STORE_NAME_SIZE]);
/* The file of a reference's record. */
void store_ref_name(const char *text, char ret[STORE_NAME_SIZE]);

/* A file of locks/, locked: its descriptor, or -errno (-EWOULDBLOCK when it must not wait). Closing it unlocks. Waits
 * without a limit: who waits is a process that may be killed. */
int store_lock(int store, const char *name, int operation) __attribute__((warn_unused_result));

bool store_has_layer(int store, const char *diff_id);
/* A new folder for the layer's files: its descriptor or -errno. Its lock must be held. */
int store_layer_begin(int store, const char *diff_id, struct err *e) __attribute__((warn_unused_result));
/* All of it is written: it becomes the layer, on disk before it is seen. */
int store_layer_commit(int store, const char *diff_id, const struct unpack_result *u, struct err *e)
	__attribute__((warn_unused_result));
void store_layer_abort(int store, const char *diff_id);

/* Puts a record in its place in one step. folder: "images" or "refs". */
int store_put(int store, const char *folder, const char *name, const json_t *record, struct err *e)
	__attribute__((warn_unused_result));
/* A record, or NULL. */
json_t *store_get(int store, const char *folder, const char *name);

/* What tells that a folder or archive changed: the caller frees; NULL: it is not there. */
struct image_ref;
char *store_stamp(const struct image_ref *ref);
