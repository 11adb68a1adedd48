/* The first process of a native sandbox, from its birth to the guest. */
#pragma once

#include "confine.h"

#include <stdbool.h>
#include <sys/types.h>

struct err;
struct hold;
struct plan;

struct child_params {
	const struct plan *plan;
	struct hold *hold;   /* NULL: no limits */
	bool user_namespace; /* for a user without CAP_SYS_ADMIN */
	bool own_network;
	struct confine_ids ids;
};

/* Makes the process in new namespaces. It builds the sandbox around itself and becomes the guest's init, with its end
 * of *ret_control as control channel; what fails on the way it reports there. Returns 0 or -errno. */
int child_start(const struct child_params *p, pid_t *ret_pid, int *ret_pidfd, int *ret_control, struct err *e)
	__attribute__((warn_unused_result));

/* Whether this process may make namespaces without a user namespace. */
bool child_is_privileged(void);

/* Whether a glance at this system's switches says that the probe may fail. */
bool child_doubtful(void);

/* Whether the kernel lets this process make a sandbox's namespaces: makes them, in a process that ends at once. */
int child_probe(struct err *e) __attribute__((warn_unused_result));
