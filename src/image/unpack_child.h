/* Unpacking in a process of its own, which can do nothing else. */
#pragma once

#include "unpack.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

struct unpack_child {
	pid_t pid;
	int data;   /* where the layer's bytes go */
	int answer; /* where its result comes from */
};

/* Starts it for an empty folder (a descriptor, which stays the caller's). SIGPIPE must be ignored. */
int unpack_child_start(int folder, const char *like, const struct unpack_opts *o, struct unpack_child *ret,
		       struct err *e) __attribute__((warn_unused_result));

/* Hands bytes over, and waits while it is busy. 0, or -EPIPE when it ended: unpack_child_finish tells why. */
int unpack_child_write(const struct unpack_child *c, const void *data, size_t len) __attribute__((warn_unused_result));

/* Nothing more comes: waits for its result. Returns 0, or -errno with what was wrong with the layer. */
int unpack_child_finish(struct unpack_child *c, struct unpack_result *ret, struct err *e)
	__attribute__((warn_unused_result));

/* Ends it without a result. */
void unpack_child_kill(struct unpack_child *c);
