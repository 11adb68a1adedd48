/* Files by descriptor: whole reads with a limit, atomic writes, safe opening. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;
struct err;

/* Write everything, through EINTR and short writes. Return 0 or -errno. */
int fd_write_all(int fd, const void *data, size_t len) __attribute__((warn_unused_result));

/* Reads until the end; returns 0, -errno, or -EFBIG when more than the buffer's limit is there. */
int fd_read_all(int fd, struct buf *to) __attribute__((warn_unused_result));

/* Reads a regular file below dirfd (AT_FDCWD for the current folder), at most limit bytes, into ret_data, which the
 * caller frees (a NUL stands behind it). Refuses what is not a regular file, without blocking on a FIFO. */
int file_read(int dirfd, const char *path, size_t limit, char **ret_data, size_t *ret_len, struct err *e)
	__attribute__((warn_unused_result));

enum file_sync { FILE_NO_SYNC, FILE_SYNC };

/* Puts data in place of the file in one step (a temporary name beside it, rename): readers see the old or the new
 * content, never a half. FILE_SYNC: fsync before the rename, so that this also holds across a power loss. */
int file_replace(int dirfd, const char *name, const void *data, size_t len, mode_t mode, enum file_sync sync,
		 struct err *e) __attribute__((warn_unused_result));

/* Makes the folder and its parents (mode for those that are new). An existing folder is fine. */
int dir_make(int dirfd, const char *path, mode_t mode, struct err *e) __attribute__((warn_unused_result));

/* Opens a folder for use as dirfd (O_DIRECTORY|O_CLOEXEC). Returns the descriptor or -errno. */
int dir_open(int dirfd, const char *path, struct err *e) __attribute__((warn_unused_result));

/* openat2 with O_CLOEXEC and resolve flags (RESOLVE_IN_ROOT, RESOLVE_NO_SYMLINKS, …; openat2(2)).
 * Returns the descriptor or -errno; never falls back to a weaker call. */
int file_open_resolve(int dirfd, const char *path, int flags, unsigned long long resolve)
	__attribute__((warn_unused_result));

/* Removes a tree below dirfd without following symlinks or leaving its file system. Missing is fine. */
int tree_remove(int dirfd, const char *name, struct err *e) __attribute__((warn_unused_result));

int fd_set_nonblock(int fd, bool on) __attribute__((warn_unused_result));
int fd_set_cloexec(int fd, bool on) __attribute__((warn_unused_result));
