/* What /proc tells of a process. */
#pragma once

#include <sys/types.h>

/* When it started, in clock ticks since boot (field 22 of /proc/PID/stat, proc(5)): with its number it tells a process
 * from a later one that was given the same number. 0 or -errno (-ENOENT: it is not there). */
int proc_start_time(pid_t pid, unsigned long long *ret) __attribute__((warn_unused_result));
