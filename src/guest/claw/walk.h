/* Walking through a tree, within bounds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct walk_opts {
	/* Also enter .git and node_modules. */
	bool everything;
	/* Each regular file (a symlink to one too); path is relative to the root. Return false to end the walk. */
	bool (*file)(void *arg, int dirfd, const char *name, const char *path, const struct stat *st);
	void *arg;
};

enum { WALK_DEPTH = 64, WALK_ENTRIES = 200 * 1000 };

/* Walks in the order of names. Symlinks to folders are not followed, and what cannot be opened is passed over. Returns
 * 0, -errno when the root cannot be opened, or -EFBIG when it ended early at WALK_ENTRIES. */
int walk_tree(const char *root, const struct walk_opts *o) __attribute__((warn_unused_result));

/* The sorted names of a folder without "." and ".."; takes the descriptor. 0, -errno, or -EFBIG past `most`. */
struct strv;
int walk_names(int fd, struct strv *ret, size_t most) __attribute__((warn_unused_result));
