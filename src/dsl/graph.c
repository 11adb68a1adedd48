/* Names to declarations: the look-up functions, and the graph that edges and nodes make of each other. */
#include "state.h"

#include <base/arena.h>

#include <string.h>

#define FIND(name, type, index)                                                                                        \
	const struct type *dsl_find_##name(const struct dsl_file *f, const char *s)                                    \
	{                                                                                                              \
		return names_get(&f->state->index, s);                                                                 \
	}
FIND(var, dsl_var, vars)
FIND(preset, dsl_preset, presets)
FIND(attachment, dsl_attachment, attachments)
FIND(prompt, dsl_prompt, prompts)
FIND(schema, dsl_schema, schemas)
FIND(mcp_server, dsl_mcp_server, mcp_servers)
FIND(cursor, dsl_cursor, cursors)
FIND(node, dsl_node, nodes)

const struct dsl_field *dsl_schema_field(const struct dsl_schema *s, const char *name)
{
	return names_get(s->index, name);
}

void graph_link(struct dsl_file *f)
{
	struct arena *a = f->state->arena;
	struct dsl_workflow *w = f->workflow;

	for (size_t i = 0; w && i < w->n_edges; i++) {
		struct dsl_edge *e = w->edges[i];
		e->src = names_get(&f->state->nodes, e->from.s);
		e->dst = names_get(&f->state->nodes, e->to.s);
		e->target = strcmp(e->to.s, "done") == 0   ? DSL_TO_DONE
			    : strcmp(e->to.s, "fail") == 0 ? DSL_TO_FAIL
							   : DSL_TO_NODE;
		if (e->src)
			ARENA_PUSH(a, e->src->out, e->src->n_out, e);
		if (e->dst)
			ARENA_PUSH(a, e->dst->in, e->dst->n_in, e);
	}
}
