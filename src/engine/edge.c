/* Which way a run goes on from a node.
 *
 * Conditional edges are asked in the order of the file, then the unconditional ones. An edge of a loop that has been
 * taken N times is passed over; when nothing else is left, the message says that the loop is exhausted. Taking an edge
 * counts its loop and remembers the source's output as the loop's previous one. */
#include "branch.h"
#include "kinds.h"
#include "values.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <dsl/expr.h>
#include <dsl/template.h>

#include <errno.h>
#include <string.h>

static struct loop_state *loop_of(struct engine *en, const struct dsl_edge *edge)
{
	for (size_t i = 0; edge->loop.s && i < en->n_loops; i++)
		if (str_eq(en->loops[i].name, edge->loop.s))
			return &en->loops[i];
	return NULL;
}

static bool is_conditional(const struct dsl_edge *edge)
{
	return edge->when.s || edge->expr.x;
}

static int condition(const struct engine *en, const struct branch *b, const json_t *output, const struct dsl_edge *edge,
		     bool *ret, struct err *e)
{
	struct node_scope s;

	if (edge->when.s) {
		*ret = json_truthy(json_object_get(output, edge->when.s)) != edge->negated;
		return 0;
	}
	scope_init(&s, en, b->input, output);
	int r = expr_test(edge->expr.x, &s.scope, ret, e);
	return r < 0 ? err_wrap(e, r, "node %s: the condition \"%s\" of its edge to %s", b->node->name.s,
				edge->expr.src.s, edge->to.s)
		     : 0;
}

static void take(struct engine *en, const struct branch *b, json_t *output, const struct dsl_edge *edge)
{
	struct loop_state *l = loop_of(en, edge);
	json_t *d = json_object();

	json_put_str(d, "from", edge->from.s);
	json_put_str(d, "to", edge->to.s);
	json_put_str(d, "condition", edge->when.s);
	if (edge->when.s)
		json_put_bool(d, "negated", edge->negated);
	json_put_str(d, "expression", edge->expr.src.s);
	if (l) {
		l->count++;
		json_decref(l->previous_output);
		l->previous_output = json_incref(output);
		json_put_str(d, "loop", l->name);
		json_put_int(d, "iteration", l->count);
	}
	engine_emit(en, "edge_selected", b->id, b->node->name.s, d);
}

/* 1 when the edge is to be followed, 0 when not; *exhausted is set to a loop that stood in the way. */
static int try_edge(struct engine *en, const struct branch *b, const json_t *output, const struct dsl_edge *edge,
		    const struct loop_state **exhausted, struct err *e)
{
	bool holds = true;
	int r = is_conditional(edge) ? condition(en, b, output, edge, &holds, e) : 0;

	if (r < 0 || !holds)
		return r;
	const struct loop_state *l = loop_of(en, edge);
	if (!l || l->count < l->max)
		return 1;
	*exhausted = l;
	return 0;
}

static int round_robin(struct engine *en, const struct branch *b, const json_t *output, const struct dsl_edge **ret,
		       const struct loop_state **exhausted, struct err *e)
{
	const struct dsl_node *n = b->node;

	for (size_t i = 0; i < n->n_out; i++) {
		const struct dsl_edge *edge = n->out[en->nodes[n->index].turn++ % n->n_out];
		int r = try_edge(en, b, output, edge, exhausted, e);
		if (r < 0)
			return r;
		if (r > 0) {
			*ret = edge;
			break;
		}
	}
	return 0;
}

static int first_of(struct engine *en, const struct branch *b, const json_t *output, bool conditional,
		    const struct dsl_edge **ret, const struct loop_state **exhausted, struct err *e)
{
	for (size_t i = 0; i < b->node->n_out; i++) {
		const struct dsl_edge *edge = b->node->out[i];
		int r = is_conditional(edge) == conditional ? try_edge(en, b, output, edge, exhausted, e) : 0;
		if (r < 0)
			return r;
		if (r > 0) {
			*ret = edge;
			break;
		}
	}
	return 0;
}

static int no_way(const struct branch *b, const struct loop_state *exhausted, struct err *e)
{
	int r;

	if (exhausted) {
		r = err_set(e, ERR_NODE, ELOOP,
			    "node %s: loop %s is exhausted after %lld iterations and no other edge is left",
			    b->node->name.s, exhausted->name, exhausted->max);
		err_hint(e, "raise its limit, or give the node an edge without a condition for this case");
	} else {
		r = err_set(e, ERR_NODE, ENOENT, "node %s: none of its edges' conditions holds for its output",
			    b->node->name.s);
		err_hint(e, "give the node an edge without a condition for this case");
	}
	return r;
}

int edge_choose(struct engine *en, const struct branch *b, json_t *output, const struct dsl_edge **ret, struct err *e)
{
	const struct loop_state *exhausted = NULL;
	const struct dsl_edge *edge = NULL;
	int r = 0;

	if (route_is_llm(b->node)) {
		for (size_t i = 0; i < b->node->n_out && r == 0 && !edge; i++) {
			const struct dsl_edge *named = b->node->out[i];
			r = route_names(output, named) ? try_edge(en, b, output, named, &exhausted, e) : 0;
			edge = r > 0 ? named : NULL;
		}
		r = MIN(r, 0);
	} else if (b->node->kind == DSL_ROUTER && b->node->mode.v == DSL_ROUND_ROBIN) {
		r = round_robin(en, b, output, &edge, &exhausted, e);
	} else {
		r = first_of(en, b, output, true, &edge, &exhausted, e);
		if (r == 0 && !edge)
			r = first_of(en, b, output, false, &edge, &exhausted, e);
	}
	if (r == 0 && !edge && b->node->n_out > 0)
		r = no_way(b, exhausted, e);
	if (r < 0)
		return r;
	if (edge)
		take(en, b, output, edge);
	*ret = edge;
	return 0;
}

int edge_holds(struct engine *en, const struct branch *b, json_t *output, const struct dsl_edge *edge, struct err *e)
{
	const struct loop_state *exhausted = NULL;
	int r = try_edge(en, b, output, edge, &exhausted, e);

	if (r > 0)
		take(en, b, output, edge);
	return r;
}

int edge_input(const struct engine *en, const struct branch *b, const struct dsl_edge *edge, json_t *output,
	       json_t **ret, struct err *e)
{
	struct node_scope s;

	if (!edge->with_pos.line) {
		*ret = json_incref(output);
		return 0;
	}
	auto_json input = json_object();
	scope_init(&s, en, b->input, output);
	if (edge->dst)
		s.place = en->nodes[edge->dst->index].place;
	for (size_t i = 0; i < edge->n_with; i++) {
		json_t *v = NULL;
		int r = template_value(edge->with[i].value.t, &s.scope, &v, e);
		if (r < 0)
			return err_wrap(e, r, "node %s: with %s of its edge to %s", b->node->name.s,
					edge->with[i].key.s, edge->to.s);
		json_put(input, edge->with[i].key.s, v);
	}
	*ret = TAKE_PTR(input);
	return 0;
}
