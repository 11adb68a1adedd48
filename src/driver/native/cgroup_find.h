/* Where this process stands in the hierarchies of cgroups, from the kernel's own texts. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct cgroup_at {
	char *top; /* the highest folder of the hierarchy that can be seen: a mount point */
	char *own; /* this process's folder, which is top or below it */
};

void cgroup_at_done(struct cgroup_at *at);
#define auto_cgroup_at __attribute__((cleanup(cgroup_at_done))) struct cgroup_at

/* mountinfo and own are the texts of /proc/self/mountinfo and /proc/self/cgroup. controller: a hierarchy of version 1
 * that has it; NULL: version 2. Returns 0, or -ENOENT: it is not mounted, or not where this process is. */
int cgroup_locate(const char *mountinfo, const char *own, const char *controller, struct cgroup_at *ret)
	__attribute__((warn_unused_result));

/* The same with the texts of this process, and for another one, in the hierarchies as this process sees them. */
int cgroup_find(const char *controller, struct cgroup_at *ret) __attribute__((warn_unused_result));
int cgroup_find_of(pid_t pid, const char *controller, struct cgroup_at *ret) __attribute__((warn_unused_result));
