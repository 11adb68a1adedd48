/* A cgroup from systemd: a transient scope unit with limits, for a process that exists already. */
#pragma once

#include <sandbox/spec.h>
#include <sys/types.h>

struct err;

struct unit_params {
	const char *name; /* "….scope" */
	const char *run_id;
	pid_t pid; /* as the manager sees it */
	uid_t uid; /* the same: a new user namespace knows none until it is mapped */
	struct sandbox_limits limits;
	unsigned which; /* bits of enum sandbox_limit */
};

/* The socket of the bus on which this user's manager (root: the system's) is asked; the caller frees. NULL: there is
 * none that could be reached from a process with a network of its own. */
char *unit_bus(void);

/* Whether something listens on it. */
bool unit_bus_answers(const char *bus);

/* Asks for the unit and waits, within seconds, until it stands. Blocks: for a process without a loop. */
int unit_start(const char *bus, const struct unit_params *p, struct err *e) __attribute__((warn_unused_result));
