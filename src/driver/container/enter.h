/* Listening on the loopback of a container that has no guest, from outside. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct err;

/* Whether it failed since the process is not there or may not be entered, and is not the container's by its cgroup: the
 * container is elsewhere, or has ended. */
bool enter_is_elsewhere(const struct err *e);

struct enter_params {
	pid_t pid;	    /* of the container's first process, by the engine's word */
	const char *id;	    /* the container's, as its cgroup has it; "": unknown */
	const char *marker; /* a folder of this machine … */
	const char *inside; /* … and where the container has it, which proves that it is that process */
	uint16_t port;
	/* Once, later: the listening sockets, the callee's; or n 0 and why there are none. */
	void (*done)(void *arg, const int *fds, size_t n, const struct err *e);
	void *arg;
};

/* Everything is borrowed during the call. Returns 0, or -errno and done is never called. It waits for nothing, so it is
 * over in a moment and cannot be cancelled. */
int enter_start(uv_loop_t *loop, const struct enter_params *p, struct err *e) __attribute__((warn_unused_result));
