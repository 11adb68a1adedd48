/* Locking the proxy process in. */
#pragma once

struct err;

/* Gives up everything but open sockets, memory and the clock, and proves it by trying. Everything that opens files must
 * be done before. Returns 0 with *ret_landlock, the ABI of Landlock in force (0: the kernel has none), or -errno: then
 * the process must end. Source: prctl(2), capabilities(7), landlock(7), seccomp(2). */
int proxy_confine(unsigned *ret_landlock, struct err *e) __attribute__((warn_unused_result));
