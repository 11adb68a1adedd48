/* The checks' common ground. Each family is one file with one entry in check.c's table. */
#pragma once

#include "state.h"

#include <dsl/check.h>
#include <dsl/scope.h>

/* The graph as numbers, by node index; made once for all families (flow.c). */
struct flow {
	size_t n;
	size_t entry;		/* n: not known */
	bool *reached;		/* from the entry */
	bool *looped;		/* part of a cycle that has a declared loop */
	uint32_t *component;	/* strongly connected ones; a path never leads to a higher number */
	uint32_t *first, *last; /* the node's and its last descendant's number in a depth-first forest */
	size_t budget;		/* edges that look-ups may still walk */
	uint32_t *stamp, round; /* visited marks of look-ups */
	size_t *queue;		/* room for one look-up: every node and one more */
	struct dsl_edge **back; /* edges that close a cycle without any declared loop */
	size_t n_back;
};

struct check {
	struct dsl_file *f;
	struct dsl_workflow *w; /* never NULL */
	struct dsl_check_opts opts;
	struct flow flow;
};

void flow_make(struct check *c);
/* Whether a path of at least one edge leads from one node to the other. */
bool flow_leads(struct check *c, const struct dsl_node *from, const struct dsl_node *to);

void check_names(struct check *c);
void check_edges(struct check *c);
void check_graph(struct check *c);
void check_nodes(struct check *c);
void check_limits(struct check *c);
void check_data(struct check *c);
void check_mcp(struct check *c);
void check_cursors(struct check *c);
void check_capabilities(struct check *c);
void check_refs(struct check *c);

/* The node's schemas, NULL when it has none (or an unknown one). */
const struct dsl_schema *input_schema(const struct check *c, const struct dsl_node *n);
const struct dsl_schema *output_schema(const struct check *c, const struct dsl_node *n);
/* The backend that the file gives a node, or NULL. */
const char *node_backend(const struct check *c, const struct dsl_node *n);
bool edge_conditional(const struct dsl_edge *e);
bool is_llm(const struct dsl_node *n); /* an agent or a judge */
