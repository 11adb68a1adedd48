/* What a proxy that is a program of its own is told at its start. */
#pragma once

#include <net/proxy.h>

struct buf;
struct err;

enum { PROXY_PARAMS_MAX = 8 * 1024 * 1024 };

/* Everything of p, and whose child it is. Holds secrets: the caller wipes it. 0 or -ENOBUFS. */
int proxy_params_pack(struct buf *to, const struct proxy_params *p, int parent_pid) __attribute__((warn_unused_result));

/* The other way. What *ret points to lives as long as the process. 0 or -errno. */
int proxy_params_unpack(const char *data, size_t len, struct proxy_params *ret, int *ret_parent_pid, struct err *e)
	__attribute__((warn_unused_result));
