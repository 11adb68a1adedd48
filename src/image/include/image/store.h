/* The images that are on this machine: layers by their content, images by their digest, names that lead to them. */
#pragma once

#include <base/str.h>
#include <jansson.h>
#include <stdbool.h>

struct err;
struct image_ref;

/* Where they are kept: $ITERION_HOME/images, else ~/.iterion/images. The caller frees; NULL when neither is set. */
char *image_store_dir(const char *iterion_home, const char *home);

/* One image, which stays as it is while this is held. Strings are owned; image_done lets it go. */
struct image {
	char *digest; /* as the registry names it */
	char *user;   /* that its programs run as; NULL: root */
	struct strv env;
	struct strv layers; /* folders, the topmost first */
	bool foreign;	    /* files of it belong to others than root */
	int hold;	    /* -1: nothing is held */
};
void image_done(struct image *i);

/* Finds an image by name. Returns 0, -ENOENT (without an error) when it is not here as it is now, or -errno. */
int image_store_find(const char *dir, const struct image_ref *ref, struct image *ret, struct err *e)
	__attribute__((warn_unused_result));

/* A small file as programs in the image see it ("etc/passwd"): the caller frees; NULL: it has none that is a file. */
char *image_file(const struct image *i, const char *path);

/* Opens one of an image's layers without following a link anywhere: its descriptor (O_PATH) or -errno. */
int image_layer_open(const char *path) __attribute__((warn_unused_result));

/* Appends one object for each: reference (null: no name leads to it any more), digest, size, layers, used, in_use. */
int image_store_list(const char *dir, json_t *rows, struct err *e) __attribute__((warn_unused_result));

struct image_prune {
	bool all;		      /* every image that no sandbox uses now */
	unsigned long long unused_ms; /* those not used for so long; 0: no matter */
};
struct image_pruned {
	size_t images, layers;
	unsigned long long bytes; /* of the files that were removed */
};
/* Removes images that have no name, those that o says, and layers that no image has. What a sandbox uses stays. Returns
 * 0, or -EBUSY while an image is being fetched, or -errno. */
int image_store_prune(const char *dir, const struct image_prune *o, struct image_pruned *ret, struct err *e)
	__attribute__((warn_unused_result));
