/* The locks of a native sandbox's first process, in the order they must be closed. */
#pragma once

struct err;

/* In a new user namespace: the user's own uid and gid are themselves inside, nothing else is mapped. */
int confine_map_self(unsigned uid, unsigned gid, struct err *e) __attribute__((warn_unused_result));

/* Brings up loopback in this network namespace. */
int confine_loopback_up(struct err *e) __attribute__((warn_unused_result));

/* Drops supplementary groups (when it may), every capability for good, sets no_new_privs, no core dumps, and last the
 * system call filter. Nothing privileged works afterwards. */
int confine_privileges(struct err *e) __attribute__((warn_unused_result));
