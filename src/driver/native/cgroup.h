/* One sandbox's cgroup: made, limited, watched, removed. */
#pragma once

#include <driver/limits.h>
#include <sandbox/spec.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct cgroup_at;

enum { LIMIT_ALL = LIMIT_CPUS | LIMIT_MEMORY | LIMIT_PIDS };

struct cgroup {
	int dir; /* locked: who finds it unlocked knows that its owner is gone */
	char *path;
};

/* Which of the limits a spec has. */
unsigned limits_wanted(const struct sandbox_limits *l);

/* The controller of one limit, as the kernel names it. */
const char *cgroup_controller(enum sandbox_limit which);

/* The nearest folder, from own upwards to top, in which this process may make a cgroup of version 2 with the wanted
 * controllers; the caller frees *ret. Looks only. -ENOENT: there is none, and why says so. */
int cgroup_v2_parent(const struct cgroup_at *at, unsigned wanted, char **ret, struct buf *why)
	__attribute__((warn_unused_result));

/* The controllers that a folder of version 2 has, as bits of limits. */
unsigned cgroup_v2_controllers(const char *folder);

/* Hands these controllers down to the folder's children (cgroup.subtree_control), where that is not so yet. */
int cgroup_v2_hand_down(const char *parent, unsigned wanted) __attribute__((warn_unused_result));

/* Makes the folder and takes its lock. Returns 0 or -errno. */
int cgroup_make(const char *parent, const char *name, struct cgroup *ret) __attribute__((warn_unused_result));

/* Writes these limits (bits) into the files of a cgroup. Returns 0 or -errno. */
int cgroup_v2_limit(int dir, const struct sandbox_limits *l, unsigned which) __attribute__((warn_unused_result));
int cgroup_v1_limit(int dir, const struct sandbox_limits *l, unsigned which) __attribute__((warn_unused_result));

/* Which of the limits the files of a version 2 cgroup hold by now: at most what was asked for. */
unsigned cgroup_v2_held(int dir, const struct sandbox_limits *l);

/* Adds what the kernel counted there; a file that is missing counts nothing. Either version. */
void cgroup_hits(int dir, struct limit_hits *to);

/* Removes it when nothing runs in it any more; ret as the caller's own is empty then. */
void cgroup_remove(struct cgroup *c);

/* Removes the folders of dead owners directly in this one; returns how many. */
size_t cgroup_sweep(const char *parent);
/* The same in all of a hierarchy. */
size_t cgroup_sweep_tree(const char *top);
