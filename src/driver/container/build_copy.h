/* A copy of a build's files that nobody else can write in. */
#pragma once

#include <sys/stat.h>

struct err;

struct build_copy {
	char *top; /* its folder, mode 0700; NULL: there is none */
	int fd;	   /* of top/context */
};

/* Makes the folder below $TMPDIR or /var/tmp. Returns 0 or -errno. */
int build_copy_make(struct build_copy *ret, struct err *e) __attribute__((warn_unused_result));
/* Removes it with all that is in it; reads much of the disk, so it belongs on a thread. */
void build_copy_remove(struct build_copy *c);

/* Removes the copies whose owners are gone. */
void build_copy_sweep(void);

/* Each makes what must not be there yet, at a path below the context, and returns 0 or -errno. A folder of a path must
 * have been made before. */
int build_copy_folder(const struct build_copy *c, const char *path, mode_t mode) __attribute__((warn_unused_result));
int build_copy_link(const struct build_copy *c, const char *path, const char *target)
	__attribute__((warn_unused_result));
/* A new file, open for writing; "../NAME" stands beside the context. Returns the descriptor or -errno. */
int build_copy_file(const struct build_copy *c, const char *path) __attribute__((warn_unused_result));
/* The mode and the time of the original. */
int build_copy_finish(int fd, const struct stat *original) __attribute__((warn_unused_result));
