/* The locks of a native sandbox's first process, in the order they must be closed. */
#pragma once

struct err;

/* In a new user namespace: one user and group inside are these outside (the process's own), nothing else is mapped. */
struct confine_ids {
	unsigned uid, gid;	     /* inside */
	unsigned host_uid, host_gid; /* outside */
};
int confine_map_ids(const struct confine_ids *ids, struct err *e) __attribute__((warn_unused_result));

/* Brings up loopback in this network namespace. */
int confine_loopback_up(struct err *e) __attribute__((warn_unused_result));

/* Drops supplementary groups (when it may), becomes the user when ids says another than this one, drops every
 * capability for good, sets no_new_privs, no core dumps, and last the system call filter. Nothing privileged works
 * afterwards. */
int confine_privileges(const struct confine_ids *ids, struct err *e) __attribute__((warn_unused_result));
