/* The graph as numbers: what can be reached, which nodes lie on cycles, and whether one node can run before another.
 * All walks are iterative (a workflow may be a chain of a hundred thousand nodes) and linear, but for the last
 * question, which is answered by numbers where it can (a depth-first forest, the order of the components) and by a
 * walk between them where it cannot; those walks share a budget, past which the answer is yes, so that a hostile file
 * costs no more than seconds and no sound file is refused. */
#include "checks.h"

#include <base/arena.h>
#include <base/mem.h>

#include <string.h>

enum { WALK_BUDGET = 20 * 1000 * 1000 };

struct frame {
	size_t node, next;
};

/* One depth-first walk over all nodes, from the entry first. */
struct walk {
	struct check *c;
	bool plain; /* only edges without a declared loop */
	struct frame *stack;
	size_t depth;
	uint32_t *order; /* 1 + the number of entering, 0: not yet */
	uint32_t *low;
	size_t *pending; /* nodes without a component yet */
	size_t n_pending;
	bool *on_stack, *is_pending;
	uint32_t clock, components;
	uint32_t *component, *first, *last;
};

static void *numbers(struct check *c, size_t size)
{
	return arena_alloc(c->f->state->arena, (c->flow.n + 1) * size);
}

static void enter(struct walk *w, size_t v)
{
	w->order[v] = w->low[v] = ++w->clock;
	w->first[v] = w->clock;
	w->pending[w->n_pending++] = v;
	w->is_pending[v] = w->on_stack[v] = true;
	w->stack[w->depth++] = (struct frame){.node = v};
}

/* All successors of v were seen (Tarjan's algorithm): v ends a component when none of them led back above it. */
static void leave(struct walk *w, size_t v)
{
	w->depth--;
	w->on_stack[v] = false;
	w->last[v] = w->clock;
	if (w->depth) {
		size_t parent = w->stack[w->depth - 1].node;
		w->low[parent] = MIN(w->low[parent], w->low[v]);
	}
	if (w->low[v] != w->order[v])
		return;
	for (size_t u = SIZE_MAX; u != v;) {
		u = w->pending[--w->n_pending];
		w->is_pending[u] = false;
		w->component[u] = w->components;
	}
	w->components++;
}

static void step(struct walk *w)
{
	struct frame *top = &w->stack[w->depth - 1];
	const struct dsl_node *n = w->c->f->nodes[top->node];

	if (top->next == n->n_out) {
		leave(w, top->node);
		return;
	}
	struct dsl_edge *e = n->out[top->next++];
	if (!e->dst || (w->plain && e->loop.s))
		return;
	size_t u = e->dst->index;
	if (!w->order[u]) {
		enter(w, u);
		return;
	}
	if (w->is_pending[u])
		w->low[top->node] = MIN(w->low[top->node], w->order[u]);
	if (w->plain && w->on_stack[u])
		ARENA_PUSH(w->c->f->state->arena, w->c->flow.back, w->c->flow.n_back, e);
}

static void walk_from(struct walk *w, size_t v)
{
	if (w->order[v])
		return;
	enter(w, v);
	while (w->depth)
		step(w);
}

static struct walk walk_all(struct check *c, bool plain)
{
	struct walk w = {
		.c = c,
		.plain = plain,
		.stack = numbers(c, sizeof *w.stack),
		.order = numbers(c, sizeof *w.order),
		.low = numbers(c, sizeof *w.low),
		.pending = numbers(c, sizeof *w.pending),
		.on_stack = numbers(c, sizeof *w.on_stack),
		.is_pending = numbers(c, sizeof *w.is_pending),
		.component = numbers(c, sizeof *w.component),
		.first = numbers(c, sizeof *w.first),
		.last = numbers(c, sizeof *w.last),
	};

	if (c->flow.entry < c->flow.n) {
		walk_from(&w, c->flow.entry);
		for (size_t i = 0; !plain && i < c->flow.n; i++)
			c->flow.reached[i] = w.order[i] != 0;
	}
	for (size_t i = 0; i < c->flow.n; i++)
		walk_from(&w, i);
	return w;
}

/* Nodes of components that a declared loop closes. */
static void mark_loops(struct check *c)
{
	struct flow *f = &c->flow;
	bool *looped = numbers(c, sizeof *looped);

	for (size_t i = 0; i < c->w->n_edges; i++) {
		const struct dsl_edge *e = c->w->edges[i];
		if (e->loop.s && e->src && e->dst && f->component[e->src->index] == f->component[e->dst->index])
			looped[f->component[e->src->index]] = true;
	}
	for (size_t i = 0; i < f->n; i++)
		f->looped[i] = looped[f->component[i]];
}

void flow_make(struct check *c)
{
	struct flow *f = &c->flow;
	const struct dsl_node *entry = c->w->entry.s ? dsl_find_node(c->f, c->w->entry.s) : NULL;

	f->n = c->f->n_nodes;
	f->entry = entry ? entry->index : f->n;
	f->reached = numbers(c, sizeof *f->reached);
	f->looped = numbers(c, sizeof *f->looped);
	f->stamp = numbers(c, sizeof *f->stamp);
	f->queue = numbers(c, sizeof *f->queue);
	f->budget = WALK_BUDGET;
	struct walk w = walk_all(c, false);
	f->component = w.component;
	f->first = w.first;
	f->last = w.last;
	(void)walk_all(c, true);
	mark_loops(c);
}

/* A walk from one node, through components that can still lead to the other only. */
static bool search(struct check *c, size_t from, size_t to)
{
	struct flow *f = &c->flow;
	size_t *queue = f->queue, n = 0;

	f->round++;
	queue[n++] = from;
	for (size_t i = 0; i < n; i++) {
		const struct dsl_node *v = c->f->nodes[queue[i]];
		for (size_t k = 0; k < v->n_out; k++) {
			const struct dsl_node *u = v->out[k]->dst;
			if (f->budget == 0)
				return true;
			f->budget--;
			if (!u || f->stamp[u->index] == f->round || f->component[u->index] < f->component[to])
				continue;
			if (u->index == to)
				return true;
			f->stamp[u->index] = f->round;
			queue[n++] = u->index;
		}
	}
	return false;
}

bool flow_leads(struct check *c, const struct dsl_node *from, const struct dsl_node *to)
{
	const struct flow *f = &c->flow;
	size_t a = from->index, b = to->index;

	if (a != b && f->component[a] == f->component[b])
		return true;
	if (a != b && f->first[a] <= f->first[b] && f->first[b] <= f->last[a])
		return true;
	if (f->component[a] < f->component[b])
		return false;
	return search(c, a, b);
}
