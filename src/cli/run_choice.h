/* Which run a command speaks of. */
#pragma once

struct err;

/* The row of --store-dir for a command that reads. */
#define STORE_DIR_ROW(type, member)                                                                                    \
	{                                                                                                              \
		.name = "store-dir", .kind = OPTION_STRING, .value = "DIR", .offset = offsetof(type, member),          \
		.help = "the run store (default: the repository's .iterion, $ITERION_HOME, ~/.iterion)"                \
	}

/* The run's whole id from what the user wrote: an id, its beginning, or a name; NULL: the newest run. The caller
 * frees. */
int run_choose(const char *store, const char *what, char **ret_id, struct err *e) __attribute__((warn_unused_result));
