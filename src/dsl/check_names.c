/* Names: that what is named exists (C001, C002, C003, C008). */
#include "checks.h"

#include <base/arena.h>
#include <base/mem.h>

#include <string.h>

static void check_entry(struct check *c)
{
	const struct dsl_str *entry = &c->w->entry;

	if (!c->f->workflow)
		return;
	if (!entry->s)
		diag_error(c->f, "C008", c->w->name.pos, "add entry: and the name of the first node",
			   "the workflow \"%s\" has no entry", c->w->name.s);
	else if (!dsl_find_node(c->f, entry->s))
		diag_error(c->f, "C008", entry->pos, hint_nearest_name(c->f, entry->s, &c->f->state->nodes, NULL),
			   "the entry \"%s\" is no node", entry->s);
}

static void check_edge_names(struct check *c, const struct dsl_edge *e)
{
	struct names *nodes = &c->f->state->nodes;

	if (strcmp(e->from.s, "done") == 0 || strcmp(e->from.s, "fail") == 0)
		diag_error(c->f, "C001", e->from.pos, "a run ends there", "\"%s\" has no outgoing edges", e->from.s);
	else if (!e->src)
		diag_error(c->f, "C001", e->from.pos, hint_nearest_name(c->f, e->from.s, nodes, "declare it"),
			   "unknown node \"%s\"", e->from.s);
	if (!e->dst && e->target == DSL_TO_NODE)
		diag_error(c->f, "C001", e->to.pos, hint_nearest_name(c->f, e->to.s, nodes, "declare it"),
			   "unknown node \"%s\"", e->to.s);
}

/* The properties of a node that name other declarations. */
static const struct {
	size_t offset;
	bool schema;
} references[] = {
	{offsetof(struct dsl_node, input), true},	  {offsetof(struct dsl_node, output), true},
	{offsetof(struct dsl_node, system), false},	  {offsetof(struct dsl_node, user), false},
	{offsetof(struct dsl_node, instructions), false}, {offsetof(struct dsl_node, interaction_prompt), false},
};

static void check_node_names(struct check *c, const struct dsl_node *n)
{
	struct dsl_state *st = c->f->state;

	for (size_t i = 0; i < ARRAY_LEN(references); i++) {
		const struct dsl_str *s =
			(const struct dsl_str *)(const void *)((const char *)n + references[i].offset);
		bool schema = references[i].schema;
		struct names *names = schema ? &st->schemas : &st->prompts;
		if (s->s && !names_get(names, s->s))
			diag_error(c->f, schema ? "C002" : "C003", s->pos,
				   hint_nearest_name(c->f, s->s, names,
						     schema ? "declare it: schema NAME:" : "declare it: prompt NAME:"),
				   "unknown %s \"%.100s\"", schema ? "schema" : "prompt", s->s);
	}
}

void check_names(struct check *c)
{
	check_entry(c);
	for (size_t i = 0; i < c->w->n_edges; i++)
		check_edge_names(c, c->w->edges[i]);
	for (size_t i = 0; i < c->f->n_nodes; i++)
		check_node_names(c, c->f->nodes[i]);
}
