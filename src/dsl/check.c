/* The semantic checks: families, each a function in a file of its own, run in one order over the same tree. A family
 * reports each thing once, where it stands in the file, and is silent where an earlier error makes the answer
 * unknowable (an unknown node has no unknown fields). */
#include "checks.h"

#include <base/mem.h>

#include <errno.h>

static void (*const families[])(struct check *c) = {
	check_names, check_edges, check_graph,	 check_nodes,	     check_limits,
	check_data,  check_mcp,	  check_cursors, check_capabilities, check_refs,
};

const struct dsl_schema *input_schema(const struct check *c, const struct dsl_node *n)
{
	return n->input.s ? dsl_find_schema(c->f, n->input.s) : NULL;
}

const struct dsl_schema *output_schema(const struct check *c, const struct dsl_node *n)
{
	return n->output.s ? dsl_find_schema(c->f, n->output.s) : NULL;
}

const char *node_backend(const struct check *c, const struct dsl_node *n)
{
	return n->backend.len ? n->backend.s : c->w->default_backend.len ? c->w->default_backend.s : NULL;
}

bool edge_conditional(const struct dsl_edge *e)
{
	return e->when.s || e->expr.src.s;
}

bool is_llm(const struct dsl_node *n)
{
	return n->kind == DSL_AGENT || n->kind == DSL_JUDGE;
}

int dsl_check(struct dsl_file *f, const struct dsl_check_opts *opts)
{
	struct dsl_workflow none = {0};
	struct check c = {.f = f, .w = f->workflow ? f->workflow : &none};

	if (opts)
		c.opts = *opts;
	/* A file that was too large to be read may hold one. */
	bool unread = f->n_errors && f->state->len == 0;
	if (!f->workflow && !unread)
		diag_error(f, "C006", ((struct dsl_pos){1, 1}),
			   "add a block \"workflow name:\" with an entry and edges", "the file has no workflow");
	flow_make(&c);
	for (size_t i = 0; i < ARRAY_LEN(families); i++)
		families[i](&c);
	diag_sort(f);
	return f->n_errors ? -EINVAL : 0;
}
