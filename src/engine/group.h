/* The branches of one fan-out: group.c is their life, group_save.c how they go to a checkpoint and back. */
#pragma once

#include "branch.h"

struct arrival {
	const struct dsl_node *node;
	json_t *input;
};

struct group {
	const struct dsl_node *router;
	struct branch *parent;
	unsigned number;
	unsigned active;    /* branches under way */
	unsigned succeeded; /* branches that ended without an error */
	bool forking;	    /* branches are still being made: nothing may fire */
	struct arrival *arrivals;
	size_t n, cap;
	json_t *failed; /* ids */
	struct err first_error;
	struct group *next;
};
