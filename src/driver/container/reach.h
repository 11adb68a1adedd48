/* What a container without guest is asked before its programs run: whether it has this machine's workspace, and where
 * it reaches the proxy. */
#pragma once

#include <stddef.h>

struct container;
struct err;
struct reach;

/* Begins, as steps of the container's start; ends in done, in container_lost, or, when its network is to be entered and
 * cannot be, in container_offer. The listeners are the callee's; none when there is no policy. */
int reach_start(struct container *c, void (*done)(struct container *c, const int *listeners, size_t n), struct err *e)
	__attribute__((warn_unused_result));
