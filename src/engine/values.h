/* Values that nodes give and see: large ones in files, and the scope that expressions and templates read. */
#pragma once

#include "engine_priv.h"

/* --- large.c --- */

enum { LARGE_MIN = 16 * 1024 }; /* values of more bytes than this are large */

/* Writes a value to a file of its own when it is large; a failure to do so ends the run. */
void large_keep(struct engine *en, const char *node, json_t *value);
/* The file of a value, or NULL when it is not large. */
const char *large_ref(const struct engine *en, const json_t *value);
/* Remembers the file (taken) of a value. */
void large_add(struct engine *en, json_t *value, char *ref);
/* Sets key to a value, or key_ref to its file; a value that is NULL sets nothing. */
void large_put(const struct engine *en, json_t *to, const char *key, json_t *value);
/* Reads back what large_put set: a new reference, NULL when there is none. 0 or -errno. */
int large_get(struct engine *en, const json_t *from, const char *key, json_t **ret, struct err *e)
	__attribute__((warn_unused_result));
/* Forgets those that nobody else holds, or all. */
void large_forget(struct engine *en, bool all);

/* --- scope.c --- */

struct node_scope {
	const struct engine *en;
	const json_t *input;	   /* of the node that asks */
	const json_t *output;	   /* of the source of an edge; NULL otherwise */
	const struct place *place; /* where the values are to be used */
	struct dsl_scope scope;
};
/* Fills s, which may not be copied afterwards; everything is borrowed. place is the run's own; the caller may change
 * it. */
void scope_init(struct node_scope *s, const struct engine *en, const json_t *input, const json_t *output);
/* Finds the nodes whose history is asked for, and gives them an array. */
void scope_prepare_history(struct engine *en);
