/* The edges of one node: which of them is taken must be clear (C010, C011, C012), what conditions ask for must exist
 * (C013, C014), and routers have the edges they route to (C020 to C023). */
#include "checks.h"

#include <base/arena.h>
#include <base/mem.h>

#include <string.h>

static const char *condition_key(struct check *c, const struct dsl_edge *e)
{
	if (e->when.s)
		return arena_printf(c->f->state->arena, "%s%s", e->negated ? "not " : "", e->when.s);
	return e->expr.src.s ? arena_printf(c->f->state->arena, "\"%s\"", e->expr.src.s) : NULL;
}

/* C011, and whether a field stands there in both polarities. */
static bool check_conditions(struct check *c, const struct dsl_node *n)
{
	struct names seen = {0};
	bool exhaustive = false;

	if (n->n_out < 2)
		return false;
	for (size_t i = 0; i < n->n_out; i++) {
		const struct dsl_edge *e = n->out[i];
		const char *key = condition_key(c, e);
		if (!key)
			continue;
		const struct dsl_edge *earlier = names_add(&seen, c->f->state->arena, key, (void *)(uintptr_t)e);
		if (earlier)
			diag_error(c->f, "C011", e->pos, "remove one of them, or change its condition",
				   "\"%s\" has the condition %s twice (first in line %u)", n->name.s, key,
				   earlier->pos.line);
		if (e->when.s &&
		    names_get(&seen, arena_printf(c->f->state->arena, "%s%s", e->negated ? "" : "not ", e->when.s)))
			exhaustive = true;
	}
	return exhaustive;
}

/* C010: of the unconditional edges one may be a loop and one its way out. */
static size_t check_unconditional(struct check *c, const struct dsl_node *n, bool many)
{
	size_t plain = 0, loops = 0;

	for (size_t i = 0; i < n->n_out; i++) {
		const struct dsl_edge *e = n->out[i];
		if (edge_conditional(e))
			continue;
		size_t nth = e->loop.s ? ++loops : ++plain;
		if (nth > 1 && !many)
			diag_error(c->f, "C010", e->pos, "give it a condition, or use a router of mode fan_out_all",
				   "\"%s\" has several unconditional edges", n->name.s);
	}
	return plain + loops;
}

static void check_field(struct check *c, const struct dsl_node *n, const struct dsl_edge *e)
{
	const struct dsl_schema *schema = output_schema(c, n);

	if (!e->when.s || !schema)
		return;
	const struct dsl_field *field = dsl_schema_field(schema, e->when.s);
	if (!field)
		diag_error(c->f, "C014", e->when.pos,
			   hint_nearest_name(c->f, e->when.s, schema->index, "add the field to the schema"),
			   "the output of \"%s\" (schema \"%s\") has no field \"%s\"", n->name.s, schema->name.s,
			   e->when.s);
	else if (field->type != DSL_BOOL && field->type != DSL_TYPE_NONE)
		diag_error(c->f, "C013", e->when.pos, "make it bool, or write a quoted expression: when \"field == …\"",
			   "the field \"%s\" of schema \"%s\" is not a bool", e->when.s, schema->name.s);
}

static void check_router(struct check *c, const struct dsl_node *n, size_t unconditional)
{
	const struct {
		const char *name;
		struct dsl_pos pos;
	} props[] = {
		{"model", n->model.pos},
		{"backend", n->backend.pos},
		{"provider", n->provider.pos},
		{"system", n->system.pos},
		{"user", n->user.pos},
		{"multi", n->multi.pos},
		{"reasoning_effort", n->reasoning_effort.pos},
	};
	bool llm = n->mode.v == DSL_LLM;

	if (!n->mode.pos.line)
		diag_error(c->f, "P016", n->name.pos, "add mode: fan_out_all, condition, round_robin or llm",
			   "the router \"%s\" has no mode", n->name.s);
	if (n->mode.v == DSL_ROUND_ROBIN && unconditional < 2)
		diag_error(c->f, "C020", n->name.pos, "add edges without conditions",
			   "the round_robin router \"%s\" has fewer than 2 edges to take turns with", n->name.s);
	if (llm && n->n_out < 2)
		diag_error(c->f, "C021", n->name.pos, "add the edges to choose from",
			   "the llm router \"%s\" has fewer than 2 edges", n->name.s);
	for (size_t i = 0; llm && i < n->n_out; i++)
		if (edge_conditional(n->out[i]))
			diag_error(c->f, "C022", n->out[i]->pos, "remove \"when\": the model chooses",
				   "an edge of the llm router \"%s\" has a condition", n->name.s);
	for (size_t i = 0; n->mode.v && !llm && i < ARRAY_LEN(props); i++)
		if (props[i].pos.line)
			diag_error(c->f, "C023", props[i].pos, "remove it, or use mode: llm",
				   "\"%s\" is for llm routers; \"%s\" is of another mode", props[i].name, n->name.s);
}

static void check_node_edges(struct check *c, const struct dsl_node *n)
{
	bool router = n->kind == DSL_ROUTER, llm = router && n->mode.v == DSL_LLM;
	bool many = llm || (router && (n->mode.v == DSL_FAN_OUT_ALL || n->mode.v == DSL_ROUND_ROBIN));
	bool exhaustive = check_conditions(c, n);
	size_t unconditional = check_unconditional(c, n, many);

	for (size_t i = 0; i < n->n_out; i++)
		check_field(c, n, n->out[i]);
	if (router)
		check_router(c, n, unconditional);
	if (n->n_out == 0 && c->f->workflow && c->flow.entry < c->flow.n && c->flow.reached[n->index] && !llm &&
	    n->mode.v != DSL_ROUND_ROBIN)
		diag_warning(c->f, "C012", n->name.pos, "add an edge, such as NODE -> done", "\"%s\" leads nowhere",
			     n->name.s);
	else if (n->n_out && !unconditional && !exhaustive && !llm)
		diag_error(c->f, "C012", n->out[n->n_out - 1]->pos,
			   "add an edge without a condition, or one with \"when not\"",
			   "\"%s\" has no edge to take when no condition holds", n->name.s);
}

void check_edges(struct check *c)
{
	for (size_t i = 0; i < c->f->n_nodes; i++)
		check_node_edges(c, c->f->nodes[i]);
}
