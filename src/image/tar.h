/* Reading a tar archive: ustar, pax and GNU's long names and sparse files. */
#pragma once

#include "input.h"

#include <base/buf.h>
#include <base/str.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum tar_type { TAR_FILE, TAR_HARDLINK, TAR_SYMLINK, TAR_CHAR, TAR_BLOCK, TAR_FOLDER, TAR_FIFO };

enum {
	TAR_MAX_PATH = 4095,	     /* bytes of a name or a link's text */
	TAR_MAX_EXTRA = 1024 * 1024, /* bytes of one pax header */
	TAR_MAX_EXTRAS = 8,	     /* headers that speak about one entry */
	TAR_MAX_HOLES = 65536,	     /* pieces of one sparse file */
};

struct tar_piece {
	uint64_t offset, len;
};

struct tar_xattr {
	char *name;
	char *value;
	size_t len;
};

/* One entry; strings belong to the reader and last until the next one. */
struct tar_entry {
	enum tar_type type;
	char *name; /* as it stands there */
	char *link; /* of a link: its text */
	mode_t mode;
	uint64_t uid, gid;
	int64_t mtime;
	uint64_t size;		  /* of the file as it is read later, holes included */
	struct tar_piece *pieces; /* of a sparse file: where its data is; NULL: all of it is data */
	size_t n_pieces;
	struct tar_xattr *xattrs;
	size_t n_xattrs;
};

struct tar {
	struct input in;
	uint64_t at;	 /* bytes read so far */
	uint64_t left;	 /* of the entry's data, not read yet */
	uint64_t stored; /* of the entry's data in the archive */
	struct tar_entry entry;
	struct buf pax;
	size_t cap_pieces, cap_xattrs;
	bool over;
};

void tar_begin(struct tar *t, const struct input *in);
void tar_done(struct tar *t);

/* The next entry: 1 with t->entry filled, 0 at the end, or -errno. What was not read of the last one is passed over. */
int tar_next(struct tar *t, struct err *e) __attribute__((warn_unused_result));

/* Data of the entry as it is stored (of a sparse file its pieces, one behind the other): bytes, 0 at its end, or
 * -errno. */
ssize_t tar_read(struct tar *t, void *to, size_t n, struct err *e);
