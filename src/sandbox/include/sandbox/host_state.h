/* What of the user's own state a sandbox shares: the run store's folder, agents' credentials and memory, and package
 * caches. */
#pragma once

#include <base/str.h>
#include <stdbool.h>

/* Paths absolute and clean; any may be NULL. */
struct host_state_facts {
	const char *home;
	const char *iterion_home; /* $ITERION_HOME, or .iterion below home */
	const char *workspace;
	const char *will_exist; /* a folder that is made before the sandbox is, with those above it */
};

/* Parallel lists; freed by host_state_done. */
struct host_state_plan {
	struct strv mounts;  /* read-write, at the same path inside */
	struct strv sources; /* where each is on the host, symlinks resolved */
	struct strv covers;  /* below a mount: must look empty inside, and exist before it is mounted */
	struct strv skipped; /* paths that are not mounted, and why not */
	struct strv reasons;
};

/* Parts of the run store's folder that are not this run's to see; NULL-terminated. */
extern const char *const host_state_private[];

/* Chooses among what exists on this machine. Looks, and creates nothing. */
void host_state_choose(const struct host_state_facts *f, struct host_state_plan *ret);
void host_state_done(struct host_state_plan *p);
#define auto_host_state __attribute__((cleanup(host_state_done))) struct host_state_plan
