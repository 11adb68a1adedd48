/* The graph as a whole: loops (C005, C019, C026), what is never reached (C016), sessions where branches meet (C009),
 * and with maps that contradict each other (C028). */
#include "checks.h"

#include <base/arena.h>
#include <base/mem.h>

#include <string.h>

static void check_loops(struct check *c)
{
	struct names loops = {0};

	for (size_t i = 0; i < c->w->n_edges; i++) {
		struct dsl_edge *e = c->w->edges[i];
		if (!e->loop.s || !e->loop_max.set)
			continue;
		if (e->loop_max.v < 1)
			diag_error(c->f, "C026", e->loop_max.pos, "a loop runs at least once: as name(3)",
				   "the loop \"%s\" has %lld iterations", e->loop.s, e->loop_max.v);
		const struct dsl_edge *first = names_add(&loops, c->f->state->arena, e->loop.s, e);
		if (first && first->loop_max.v != e->loop_max.v)
			diag_error(c->f, "C005", e->loop.pos, "give both the same number, or different names",
				   "the loop \"%s\" has %lld iterations here and %lld in line %u", e->loop.s,
				   e->loop_max.v, first->loop_max.v, first->pos.line);
	}
	for (size_t i = 0; i < c->flow.n_back; i++) {
		const struct dsl_edge *e = c->flow.back[i];
		diag_error(c->f, "C019", e->pos, "bound it: add as NAME(N) to this edge",
			   "the edge %s -> %s closes a cycle that has no declared loop", e->from.s, e->to.s);
	}
}

static void check_reached(struct check *c)
{
	if (c->flow.entry == c->flow.n)
		return;
	/* A second node of one name, or one that is called done, can be reached by nobody; that was reported. */
	for (size_t i = 0; i < c->flow.n; i++)
		if (!c->flow.reached[i] && dsl_find_node(c->f, c->f->nodes[i]->name.s) == c->f->nodes[i])
			diag_error(c->f, "C016", c->f->nodes[i]->name.pos, "add an edge to it, or remove it",
				   "\"%s\" is never reached from the entry \"%s\"", c->f->nodes[i]->name.s,
				   c->w->entry.s);
}

/* Whether edges from more than one node meet here, loops aside. */
static bool converges(const struct dsl_node *n)
{
	const struct dsl_node *one = NULL;

	if (n->await.v)
		return true;
	for (size_t i = 0; i < n->n_in; i++) {
		const struct dsl_edge *e = n->in[i];
		if (e->loop.s || !e->src)
			continue;
		if (one && e->src != one)
			return true;
		one = e->src;
	}
	return false;
}

static void check_session(struct check *c, const struct dsl_node *n)
{
	if ((n->session.v == DSL_INHERIT || n->session.v == DSL_FORK) && converges(n))
		diag_error(c->f, "C009", n->session.pos, "use session: fresh or artifacts_only",
			   "\"%s\" takes over a session, but several branches meet there", n->name.s);
}

/* C028: two unconditional edges between the same nodes that give the same key. */
static void check_with(struct check *c, const struct dsl_node *n)
{
	struct names seen = {0};

	for (size_t i = 0; n->n_out > 1 && i < n->n_out; i++) {
		const struct dsl_edge *e = n->out[i];
		for (size_t k = 0; !edge_conditional(e) && !e->loop.s && k < e->n_with; k++) {
			const char *key = arena_printf(c->f->state->arena, "%s %s", e->to.s, e->with[k].key.s);
			if (names_add(&seen, c->f->state->arena, key, (void *)(uintptr_t)e) &&
			    names_get(&seen, key) != e)
				diag_error(c->f, "C028", e->with[k].key.pos, "use different keys, or one edge",
					   "another edge %s -> %s gives \"%s\" too", e->from.s, e->to.s,
					   e->with[k].key.s);
		}
	}
}

void check_graph(struct check *c)
{
	check_loops(c);
	check_reached(c);
	for (size_t i = 0; i < c->f->n_nodes; i++) {
		check_session(c, c->f->nodes[i]);
		check_with(c, c->f->nodes[i]);
	}
}
