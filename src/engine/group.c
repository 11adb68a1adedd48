/* Fan-outs and joins.
 *
 * A fan_out_all router makes a group: one branch an edge, while the branch that came to the router waits. The joins of
 * a group are the nodes that two or more of the router's edges lead to (without passing the router again). A branch
 * that comes to one ends there and leaves its input. The join runs as soon as nobody of the group who is still under
 * way, nor another waiting join, can come to it any more; reachability in the graph decides that, so branches may end
 * elsewhere, or meet in twos before they all meet. When the last join of a group is ready, the waiting branch itself
 * goes on there, and the group is gone: in an outer group that may in turn be the arrival at a join.
 *
 * A branch that fails ends the run, unless a best_effort join lies ahead of it: that one then runs with what the others
 * brought. When all failed, the run fails with the first error. */
#include "group.h"
#include "kinds.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct dsl_node *group_router(const struct group *g)
{
	return g->router;
}

static void group_free(struct engine *en, struct group *g)
{
	struct group **p = &en->groups;

	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	for (size_t i = 0; i < g->n; i++)
		json_decref(g->arrivals[i].input);
	free(g->arrivals);
	json_decref(g->failed);
	free(g);
}

void groups_free(struct engine *en)
{
	while (en->groups)
		group_free(en, en->groups);
}

/* Counts for every node how many of the router's edges lead to it. */
static unsigned char *find_joins(const struct dsl_file *f, const struct dsl_node *router)
{
	unsigned char *joins = xcalloc(f->n_nodes, 1);
	auto_free unsigned char *seen = xcalloc(f->n_nodes, 1);

	for (size_t i = 0; i < router->n_out; i++) {
		auto_free unsigned char *marks = xcalloc(f->n_nodes, 1);
		if (router->out[i]->dst)
			graph_mark(router->out[i]->dst, router, marks);
		for (size_t k = 0; k < f->n_nodes; k++) {
			joins[k] |= marks[k] & seen[k];
			seen[k] |= marks[k];
		}
	}
	return joins;
}

bool group_is_join(struct engine *en, struct group *g, const struct dsl_node *node)
{
	struct node_state *s = &en->nodes[g->router->index];

	if (!s->joins)
		s->joins = find_joins(en->p.file, g->router);
	return s->joins[node->index];
}

bool group_tolerates(struct engine *en, struct group *g, const struct dsl_node *node)
{
	const struct dsl_file *f = en->p.file;
	auto_free unsigned char *ahead = xcalloc(f->n_nodes, 1);

	graph_mark(node, g->router, ahead);
	for (size_t i = 0; i < f->n_nodes; i++)
		if (ahead[i] && f->nodes[i] != node && f->nodes[i]->await.v == DSL_BEST_EFFORT &&
		    group_is_join(en, g, f->nodes[i]))
			return true;
	return false;
}

/* The first arrival, from the one at `from` on, whose join is not marked; g->n when all are. */
static size_t skip_marked(const struct group *g, size_t from, const unsigned char *marks)
{
	while (from < g->n && marks[g->arrivals[from].node->index])
		from++;
	return from;
}

/* Whether another waiting join can come to this one. */
static bool waits_for_another(const struct engine *en, const struct group *g, const struct dsl_node *join)
{
	auto_free unsigned char *marks = xcalloc(en->p.file->n_nodes, 1);

	for (size_t i = 0; i < g->n && !marks[join->index]; i++)
		if (g->arrivals[i].node != join)
			graph_mark(g->arrivals[i].node, g->router, marks);
	return marks[join->index];
}

/* The first join that has all it will get; NULL: none. With nobody under way, joins that wait for each other (a cycle)
 * begin with the first. Mostly one branch that is under way is enough to see that all must wait, and the walk stops
 * there: this is asked whenever one of thousands of branches ends. */
static const struct dsl_node *find_ready(const struct engine *en, const struct group *g)
{
	auto_free unsigned char *marks = xcalloc(en->p.file->n_nodes, 1);
	size_t first = 0;

	for (const struct branch *b = en->branches; b && first < g->n; b = b->next) {
		if (b->group != g)
			continue;
		graph_mark(b->node, g->router, marks);
		first = skip_marked(g, first, marks);
	}
	for (size_t i = first; i < g->n; i = skip_marked(g, i, marks)) {
		if (!waits_for_another(en, g, g->arrivals[i].node))
			return g->arrivals[i].node;
		marks[g->arrivals[i].node->index] = 1;
	}
	return g->active == 0 && g->n > 0 ? g->arrivals[0].node : NULL;
}

/* Takes the inputs that arrived at a join out of the group, merged in the order of arrival. */
static json_t *merge(struct group *g, const struct dsl_node *join)
{
	json_t *all = json_object();
	size_t kept = 0;

	for (size_t i = 0; i < g->n; i++) {
		if (g->arrivals[i].node != join) {
			g->arrivals[kept++] = g->arrivals[i];
			continue;
		}
		(void)json_object_update(all, g->arrivals[i].input);
		json_decref(g->arrivals[i].input);
	}
	g->n = kept;
	return all;
}

static char *branch_name(const struct group *g, const char *node)
{
	if (g->number == 1)
		return xasprintf("%s.%s", g->router->name.s, node);
	return xasprintf("%s.%s#%u", g->router->name.s, node, g->number);
}

static void fire(struct engine *en, struct group *g, const struct dsl_node *join)
{
	json_t *d = json_object();

	json_put_str(d, "strategy", join->await.v == DSL_BEST_EFFORT ? "best_effort" : "wait_all");
	if (json_array_size(g->failed))
		json_put(d, "failed_branches", json_incref(g->failed));
	engine_emit(en, "join_ready", g->parent->id, join->name.s, d);
	json_t *input = merge(g, join);
	if (g->active > 0 || g->n > 0) {
		g->active++;
		(void)branch_new(en, branch_name(g, join->name.s), g, join, input);
		return;
	}
	struct branch *parent = g->parent;
	group_free(en, g);
	branch_go(en, parent, join, input);
}

/* Nobody is under way and nobody waits. */
static void complete(struct engine *en, struct group *g)
{
	struct branch *parent = g->parent;
	struct err first = g->first_error;
	bool any = g->succeeded > 0;

	group_free(en, g);
	if (any)
		branch_done(en, parent);
	else
		branch_failed(en, parent, &first, true);
}

static void check(struct engine *en, struct group *g)
{
	const struct dsl_node *join;

	if (g->forking)
		return;
	while ((join = find_ready(en, g))) {
		bool last = g->active == 0;
		for (size_t i = 0; last && i < g->n; i++)
			last = g->arrivals[i].node == join;
		fire(en, g, join);
		if (last)
			return; /* the group is gone */
	}
	if (g->active == 0)
		complete(en, g);
}

void group_branch_ended(struct engine *en, struct group *g, const char *branch_id, const struct dsl_node *node,
			json_t *input, const struct err *e)
{
	g->active--;
	if (e) {
		if (g->first_error.kind == ERR_NONE)
			g->first_error = *e;
		(void)json_array_append_new(g->failed, json_text(branch_id, strlen(branch_id)));
	} else {
		g->succeeded++;
	}
	if (node) {
		g->arrivals = grow_array(g->arrivals, g->n, &g->cap, sizeof *g->arrivals);
		g->arrivals[g->n++] = (struct arrival){.node = node, .input = input};
	}
	check(en, g);
}

/* Puts a branch on one edge of the router. */
static int put_on_edge(struct engine *en, struct group *g, const struct dsl_edge *edge, json_t *output, struct err *e)
{
	json_t *input = NULL;
	/* A router passes on what it got, whoever chose the way. */
	int r = edge_input(en, g->parent, edge, route_is_llm(g->router) ? g->parent->input : output, &input, e);

	if (r < 0)
		return r;
	g->active++;
	struct branch *b = branch_new(en, branch_name(g, edge->to.s), g, edge->dst, NULL);
	b->conversation = json_incref(g->parent->conversation);
	branch_go(en, b, edge->dst, input);
	return 0;
}

int group_fork(struct engine *en, struct branch *b, json_t *output, struct err *e)
{
	struct group *g = xcalloc(1, sizeof *g);
	unsigned taken = 0;
	bool to_fail = false;

	*g = (struct group){.router = b->node, .parent = b, .number = ++en->n_groups, .forking = true};
	g->failed = json_array();
	g->next = en->groups;
	en->groups = g;
	b->state = BRANCH_FORKED;
	for (size_t i = 0; i < b->node->n_out; i++) {
		const struct dsl_edge *edge = b->node->out[i];
		bool passed_over = route_is_llm(b->node) && !route_names(output, edge);
		int r = passed_over ? 0 : edge_holds(en, b, output, edge, e);
		if (r > 0) {
			taken++;
			g->succeeded += edge->target == DSL_TO_DONE;
			to_fail |= edge->target == DSL_TO_FAIL;
			r = edge->dst ? put_on_edge(en, g, edge, output, e) : 0;
		}
		if (r < 0)
			return r; /* the run ends; its branches and their group are freed with it */
	}
	g->forking = false;
	if (to_fail || taken == 0)
		return err_set(e, ERR_NODE, ECANCELED, "node %s: %s", b->node->name.s,
			       to_fail ? "one of its edges leads to fail" : "none of its edges' conditions holds");
	check(en, g);
	return 0;
}
