/* Clean-up by scope, and the moving of ownership out of one. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* close() is never retried on EINTR: on Linux the descriptor is gone (close(2), "Dealing with error returns"). */
static inline void close_quietly(int fd)
{
	if (fd < 0)
		return;
	int saved = errno;
	(void)close(fd);
	errno = saved;
}

static inline void cleanup_fd(const int *fd)
{
	close_quietly(*fd);
}

static inline void cleanup_free(void *p)
{
	int saved = errno;
	free(*(void **)p);
	errno = saved;
}

static inline void cleanup_file(FILE **f)
{
	int saved = errno;
	if (*f)
		(void)fclose(*f);
	errno = saved;
}

static inline void cleanup_dir(DIR **d)
{
	int saved = errno;
	if (*d)
		(void)closedir(*d);
	errno = saved;
}

/* Each is declared and initialised in one line; a function that has one has no goto. */
#define auto_fd __attribute__((cleanup(cleanup_fd))) int
#define auto_free __attribute__((cleanup(cleanup_free)))
#define auto_file __attribute__((cleanup(cleanup_file))) FILE *
#define auto_dir __attribute__((cleanup(cleanup_dir))) DIR *

/* Yields the value and leaves the variable empty: the receiver owns it now. */
#define TAKE_PTR(p)                                                                                                    \
	({                                                                                                             \
		__typeof__(p) take_p_ = (p);                                                                           \
		(p) = NULL;                                                                                            \
		take_p_;                                                                                               \
	})
#define TAKE_FD(fd)                                                                                                    \
	({                                                                                                             \
		int take_fd_ = (fd);                                                                                   \
		(fd) = -1;                                                                                             \
		take_fd_;                                                                                              \
	})
