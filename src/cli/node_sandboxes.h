/* The sandboxes of nodes that have a block of their own. */
#pragma once

#include "sandbox_flags.h"

#include <engine/engine.h>
#include <jansson.h>

struct node_sandboxes {
	struct sandbox_choice *choices;
	size_t n_choices;
	struct engine_sandbox *v; /* for the engine, by node; NULL: no node has a block */
};

/* What these flags, the file's blocks and the environment come to for each node that has one: all are resolved and
 * checked before anything starts. drivers (NULL: none): by node, which one is meant when nobody asks for one. Returns 0
 * or -errno; the caller calls node_sandboxes_done in any case. */
int node_sandboxes_resolve(const struct sandbox_flags *f, const struct dsl_file *file, const json_t *drivers,
			   const char *workspace, struct node_sandboxes *ret, struct err *e)
	__attribute__((warn_unused_result));
void node_sandboxes_done(struct node_sandboxes *s);
#define auto_node_sandboxes __attribute__((cleanup(node_sandboxes_done))) struct node_sandboxes
