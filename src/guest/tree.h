/* A folder's content as a stream, by which a workspace goes into a pod and what changed comes back.
 *
 * Records follow each other: a head, the path (relative, clean), then for a link its target and for a file its bytes
 * and a u32 that is 1 when they are the whole of it. TREE_END is the last; without it the stream was cut off. Both ends
 * are the guest program, of one version and architecture. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum tree_type { TREE_DIR = 'd', TREE_FILE = 'f', TREE_LINK = 'l', TREE_GONE = 'x', TREE_END = 'e' };

struct tree_head {
	uint32_t type; /* enum tree_type */
	uint32_t mode; /* permissions */
	uint64_t size; /* bytes of a file, or of a link's target */
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t path_len;
};

enum { TREE_PATH_MAX = 4095, TREE_DEPTH_MAX = 200, TREE_ENTRIES_MAX = 4 * 1000 * 1000 };
#define TREE_BYTES_MAX (UINT64_C(64) << 30)

/* Whether it may stand in a record: relative, no empty component, no "." or "..", no NUL, not too long or deep. */
bool tree_path_ok(const char *path, size_t len);

/* Counts for the summary line, which both jobs print to stderr as their last. */
struct tree_sum {
	uint64_t files, bytes, gone, skipped;
};
void tree_tell(const struct tree_sum *s);

/* Paths that are left out, with all below them. */
struct tree_without {
	const char *const *v;
	size_t n;
};
/* Takes the options behind the folder: --without PATH, and the flag. Returns 0 or -EINVAL. */
int tree_options(int argc, char **argv, const char *flag, bool *ret_flag, struct tree_without *ret);
bool tree_is_without(const struct tree_without *w, const char *path);
/* Whether something that is left out lies below the path. */
bool tree_covers_without(const struct tree_without *w, const char *path);

/* What was there right after unpacking: what is not the same later was changed. The change time cannot be set by a
 * program, so nothing is missed. */
struct tree_seen {
	uint32_t type, mode;
	uint64_t size, ino;
	int64_t ctime_s;
	uint32_t ctime_ns, path_len;
};
struct tree_list;
struct tree_list *tree_list_new(void);
void tree_list_free(struct tree_list *l);
/* -E2BIG past TREE_ENTRIES_MAX. */
int tree_list_add(struct tree_list *l, const char *path, const struct stat *st) __attribute__((warn_unused_result));
/* All of it to or from a descriptor; 0 or -errno, -EPROTO for what tree_list_write does not write. */
int tree_list_write(const struct tree_list *l, int fd) __attribute__((warn_unused_result));
int tree_list_read(struct tree_list *l, int fd) __attribute__((warn_unused_result));
/* Before the calls below. */
void tree_list_sort(struct tree_list *l);
/* Whether it is there, and unchanged. */
bool tree_list_same(const struct tree_list *l, const char *path, const struct stat *st);
size_t tree_list_count(const struct tree_list *l);
/* The i-th path, in byte order. */
const char *tree_list_path(const struct tree_list *l, size_t i);
