/* What holds one native sandbox to its limits, from before its process to after it. */
#pragma once

#include <driver/limits.h>
#include <sandbox/spec.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct hold;
struct limit_counters;

/* Chooses who holds them and makes the cgroups; what cannot be held so is left to the process itself, with a warning.
 * NULL when no limit is asked for: then nothing is looked at. */
struct hold *hold_new(const struct sandbox_limits *l, const char *run_id, bool user_namespace);

/* The cgroup of version 2 that the sandbox's process is to be born in (CLONE_INTO_CGROUP), borrowed; -1: none. */
int hold_birth(const struct hold *h);

/* In the sandbox's process, before anything foreign runs and while the host's files are there: enters the cgroups
 * (born: it is in there already), makes a cgroup namespace of them, and sets what the process has of its own. */
int hold_enter(struct hold *h, bool born, struct err *e) __attribute__((warn_unused_result));

/* In the parent, once the sandbox's own program runs: takes in what hold_enter said. */
void hold_entered(struct hold *h);

/* One message for each limit that is weaker than it was asked for; after hold_entered. */
void hold_warnings(const struct hold *h, void (*warn)(void *arg, const char *message), void *arg);

/* Where the kernel counts; the folders stay the hold's. Of a unit only after hold_entered. */
void hold_counters(const struct hold *h, struct limit_counters *ret);

/* Removes the cgroups, which are empty by now. NULL is accepted. */
void hold_free(struct hold *h);

/* Removes what dead owners left of cgroups anywhere here. Returns how many sandboxes' folders. */
size_t hold_sweep(void);
