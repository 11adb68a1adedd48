/* A layer into a folder, as overlayfs wants it. */
#pragma once

#include "digest.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

struct unpack_opts {
	bool owners;	    /* files get their owners (root); else all are this user's */
	uint64_t max_bytes; /* that the files may have together */
};

struct unpack_result {
	uint64_t entries;
	uint64_t bytes;
	bool foreign;		   /* something belongs to somebody else than root */
	char diff_id[DIGEST_SIZE]; /* of what was decompressed */
};

/* Reads the layer from in, decompressed as its first bytes say, into the folder. like: the digest that it should have;
 * its algorithm is used. Nothing outside of the folder is touched whatever the layer holds. Returns 0, or -errno: what
 * was made until then is left for the caller to remove. */
int unpack_layer(int in, int folder, const char *like, const struct unpack_opts *o, struct unpack_result *ret,
		 struct err *e) __attribute__((warn_unused_result));
