/* Bringing an image into the store. */
#pragma once

#include <image/worker.h>
#include <stdbool.h>
#include <stdint.h>

struct fetch_opts {
	const char *store;     /* its folder */
	const char *reference; /* as the user wrote it */
	const char *base;      /* where relative paths of it start */
	uint64_t max_bytes;    /* of one layer's files; 0: a bound of its own */
	bool look;	       /* only whether it can be had: nothing is stored */
	/* How far it is: bytes of a layer. At most two a second. */
	image_progress on_progress; /* may be NULL */
	void *arg;
};

/* Fetches it, and waits as long as that takes: for a process of its own, which may be killed at any moment. It makes
 * processes and ignores SIGPIPE. Returns 0 or -errno: -ENOENT when there is no such image, -EACCES when the registry
 * refuses. */
int image_fetch(const struct fetch_opts *o, struct err *e) __attribute__((warn_unused_result));
