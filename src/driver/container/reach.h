/* What a container without guest is asked before its programs run: whether it has this machine's workspace, and whether
 * it reaches the proxy. */
#pragma once

#include "proxy_place.h"

struct container;
struct err;
struct reach;

/* Begins, as steps of the container's start; ends in done, or in container_lost. place NULL: there is no proxy to be
 * reached. listener: the socket on which the proxy was reached, the callee's; -1 without a place. */
int reach_start(struct container *c, const struct proxy_place *place, void (*done)(struct container *c, int listener),
		struct err *e) __attribute__((warn_unused_result));
