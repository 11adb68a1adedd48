/* Who could hold a sandbox's limits on this machine. */
#pragma once

#include <driver/limits.h>
#include <sandbox/spec.h>
#include <stddef.h>

enum { HOLD_GROUPS = 3, HOLD_WHY = 256 };

enum hold_way {
	HOLD_PROCESS, /* no cgroup: only what a process can have of its own */
	HOLD_V2,      /* a cgroup of version 2 that we make */
	HOLD_UNIT,    /* one that systemd makes */
	HOLD_V1,      /* cgroups of version 1, root only */
};

struct hold_choice {
	enum hold_way way;
	unsigned by_cgroup; /* the limits (bits) that are the way's */
	/* Where to make a cgroup for which of them: one for version 2, one a hierarchy for version 1. */
	struct {
		char *parent;
		unsigned which;
	} at[HOLD_GROUPS];
	size_t n;
	char *bus;	    /* of HOLD_UNIT */
	char why[HOLD_WHY]; /* why there is none for the rest, as a phrase */
};

/* Looks at the host and makes nothing. */
void hold_choose(unsigned wanted, struct hold_choice *ret);
void hold_choice_done(struct hold_choice *c);

/* driver_limits for the native driver. */
json_t *hold_describe(const struct sandbox_limits *l);
