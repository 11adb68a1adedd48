/* What pax headers say about the entry behind them. */
#pragma once

#include "tar.h"

/* What could be put into the entry only once its head is known. */
struct tar_extra {
	bool has_size, has_uid, has_gid, has_mtime, sparse, has_real_size;
	uint64_t size, uid, gid, real_size;
	int64_t mtime;
};

/* Reads t->pax; names and extended attributes go into the entry at once. */
int tar_extra_parse(struct tar *t, struct tar_extra *x, struct err *e) __attribute__((warn_unused_result));
/* Puts the rest into the entry, over what the head said. */
int tar_extra_apply(struct tar *t, const struct tar_extra *x, struct err *e) __attribute__((warn_unused_result));
/* The map of a sparse file of pax format 1.0, which stands at the start of its data. */
int tar_read_sparse_map(struct tar *t, const struct tar_extra *x, struct err *e) __attribute__((warn_unused_result));

/* Adds a piece of data: in order, and within the file. */
int tar_add_piece(struct tar *t, uint64_t offset, uint64_t len, struct err *e) __attribute__((warn_unused_result));
int tar_bad(struct err *e, const char *why);
