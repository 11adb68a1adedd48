/* A small layered layout.
 *
 * An edge to a node that was met later goes forward, any other is a loop and has no say. A node's rank is one more than
 * the highest among those that lead to it; as all forward edges go to higher numbers, one pass in that order is enough.
 * An edge across several ranks gets a place in each between them, so that it is led past the nodes there (not in graphs
 * so large that this would be most of the work). Within a rank, a few passes put each item near the middle of its
 * neighbours, which undoes most crossings. Ranks stand below each other, as narrow as a page; where one would be too
 * wide for that they stand side by side. */
#include "report_layout.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <stdint.h>
#include <stdlib.h>

enum { PASSES = 4, WIDE = 5, MAX_ITEMS = 5000, MARGIN = 20, BESIDE = 24, EDGE_ROOM = 14 };

/* A node, or a place where an edge passes a rank. */
struct item {
	size_t rank, node; /* SIZE_MAX: none */
	double weight;	   /* its order within the rank */
	double sum;	   /* of its neighbours' weights */
	size_t n;
	double along, across; /* its middle */
};

struct link {
	size_t from, to; /* items of neighbouring ranks */
};

struct work {
	struct layout *l;
	struct item *items;
	size_t n_items, cap_items;
	struct link *links;
	size_t n_links, cap_links;
	size_t n_ranks;
	struct item **order; /* by rank and weight */
	size_t *first_via;   /* by edge: the first of its passing places */
};

static size_t add_item(struct work *w, size_t rank, size_t node, double weight)
{
	w->items = grow_array(w->items, w->n_items, &w->cap_items, sizeof *w->items);
	w->items[w->n_items] = (struct item){.rank = rank, .node = node, .weight = weight};
	return w->n_items++;
}

static void add_link(struct work *w, size_t from, size_t to)
{
	w->links = grow_array(w->links, w->n_links, &w->cap_links, sizeof *w->links);
	w->links[w->n_links++] = (struct link){.from = from, .to = to};
}

/* In the order of the nodes they start from, which a pass over all edges for each node would be too slow for. */
static int by_start(const void *a, const void *b)
{
	const struct layout_edge *const *x = a, *const *y = b;

	return ((*x)->from > (*y)->from) - ((*x)->from < (*y)->from);
}

static void make_ranks(struct work *w)
{
	const struct layout *l = w->l;
	auto_free struct layout_edge **sorted = xcalloc(l->n_edges + 1, sizeof(struct layout_edge *));

	for (size_t i = 0; i < l->n_nodes; i++)
		(void)add_item(w, 0, i, (double)i);
	for (size_t i = 0; i < l->n_edges; i++) {
		sorted[i] = &l->edges[i];
		sorted[i]->back = sorted[i]->to <= sorted[i]->from;
	}
	qsort(sorted, l->n_edges, sizeof(struct layout_edge *), by_start);
	for (size_t i = 0; i < l->n_edges; i++) {
		if (sorted[i]->back)
			continue;
		struct item *to = &w->items[sorted[i]->to];
		to->rank = MAX(to->rank, w->items[sorted[i]->from].rank + 1);
	}
	for (size_t i = 0; i < l->n_nodes; i++)
		w->n_ranks = MAX(w->n_ranks, w->items[i].rank + 1);
}

static void make_links(struct work *w)
{
	const struct layout *l = w->l;

	for (size_t i = 0; i < l->n_edges; i++) {
		const struct layout_edge *edge = &l->edges[i];
		size_t from = edge->from, to = edge->to, before = from;
		if (edge->back)
			continue;
		w->first_via[i] = w->n_items;
		for (size_t rank = w->items[from].rank + 1; rank < w->items[to].rank && w->n_items < MAX_ITEMS;
		     rank++) {
			size_t via = add_item(w, rank, SIZE_MAX, w->items[from].weight);
			add_link(w, before, via);
			before = via;
		}
		if (w->items[before].rank + 1 == w->items[to].rank)
			add_link(w, before, to);
	}
}

static int by_place(const void *a, const void *b)
{
	const struct item *x = *(struct item *const *)a, *y = *(struct item *const *)b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->weight < y->weight || x->weight > y->weight)
		return x->weight < y->weight ? -1 : 1;
	return (x > y) - (x < y);
}

/* One behind the last item of the rank that begins at place i. */
static size_t rank_end(const struct work *w, size_t i)
{
	size_t end = i;

	while (end < w->n_items && w->order[end]->rank == w->order[i]->rank)
		end++;
	return end;
}

/* Sorts the items and numbers each rank from its middle, so that ranks of different sizes can be compared. */
static void number_ranks(struct work *w)
{
	qsort(w->order, w->n_items, sizeof(struct item *), by_place);
	for (size_t i = 0, end; i < w->n_items; i = end) {
		end = rank_end(w, i);
		for (size_t k = i; k < end; k++)
			w->order[k]->weight = (double)(k - i) - (double)(end - i - 1) / 2;
	}
}

static void pull_together(struct work *w, bool down)
{
	for (size_t i = 0; i < w->n_links; i++) {
		struct item *at = &w->items[down ? w->links[i].to : w->links[i].from];
		at->sum += w->items[down ? w->links[i].from : w->links[i].to].weight;
		at->n++;
	}
	for (size_t i = 0; i < w->n_items; i++) {
		struct item *at = &w->items[i];
		if (at->n)
			at->weight = at->sum / (double)at->n;
		at->sum = 0;
		at->n = 0;
	}
}

static void arrange(struct work *w)
{
	w->order = xcalloc(w->n_items + 1, sizeof(struct item *));
	for (size_t i = 0; i < w->n_items; i++)
		w->order[i] = &w->items[i];
	number_ranks(w);
	for (int pass = 0; pass < PASSES; pass++) {
		pull_together(w, pass % 2 == 0);
		number_ranks(w);
	}
}

static double item_room(const struct work *w, const struct item *it)
{
	if (it->node == SIZE_MAX)
		return EDGE_ROOM;
	return (w->l->sideways ? w->l->node_height : w->l->node_width) + BESIDE;
}

static bool has_wide_rank(const struct work *w)
{
	for (size_t i = 0, end; i < w->n_items; i = end) {
		size_t n = 0;
		end = rank_end(w, i);
		for (size_t k = i; k < end; k++)
			n += w->order[k]->node != SIZE_MAX;
		if (n > WIDE)
			return true;
	}
	return false;
}

static double rank_room(const struct work *w, size_t i)
{
	double room = 0;

	for (size_t k = i, end = rank_end(w, i); k < end; k++)
		room += item_room(w, w->order[k]);
	return room;
}

/* Gives every item its middle, in each rank around the middle of the widest. */
static void place(struct work *w)
{
	struct layout *l = w->l;
	double breadth = 0;

	l->sideways = has_wide_rank(w);
	double step = (l->sideways ? l->node_width : l->node_height) + LAYOUT_BETWEEN;
	for (size_t i = 0; i < w->n_items; i = rank_end(w, i))
		breadth = MAX(breadth, rank_room(w, i));
	for (size_t i = 0, end; i < w->n_items; i = end) {
		double at = MARGIN + (breadth - rank_room(w, i)) / 2;
		end = rank_end(w, i);
		for (size_t k = i; k < end; k++) {
			struct item *it = w->order[k];
			it->across = at + item_room(w, it) / 2;
			it->along = MARGIN + step * ((double)it->rank + 0.5) - LAYOUT_BETWEEN / 2.0;
			at += item_room(w, it);
		}
	}
	double along = 2 * MARGIN + step * (double)w->n_ranks - LAYOUT_BETWEEN, across = 2 * MARGIN + breadth;
	l->width = l->sideways ? along : across;
	l->height = l->sideways ? across : along;
}

static struct layout_point point(const struct work *w, size_t i)
{
	const struct item *it = &w->items[i];

	return w->l->sideways ? (struct layout_point){it->along, it->across}
			      : (struct layout_point){it->across, it->along};
}

static void give(struct work *w)
{
	struct layout *l = w->l;

	l->nodes = xcalloc(l->n_nodes + 1, sizeof *l->nodes);
	for (size_t i = 0; i < l->n_nodes; i++)
		l->nodes[i] = point(w, i);
	for (size_t i = 0; i < l->n_edges; i++) {
		struct layout_edge *edge = &l->edges[i];
		if (edge->back)
			continue;
		size_t ranks = w->items[edge->to].rank - w->items[edge->from].rank - 1, at = w->first_via[i];
		edge->via = xcalloc(ranks + 1, sizeof *edge->via);
		/* Past the limit of items an edge has fewer places than ranks, or none. */
		for (; edge->n_via < ranks && at + edge->n_via < w->n_items; edge->n_via++) {
			const struct item *it = &w->items[at + edge->n_via];
			if (it->node != SIZE_MAX || it->rank != w->items[edge->from].rank + 1 + edge->n_via)
				break;
			edge->via[edge->n_via] = point(w, at + edge->n_via);
		}
	}
}

void layout_place(struct layout *l)
{
	if (!l->n_nodes)
		return;
	struct work w = {.l = l, .first_via = xcalloc(l->n_edges + 1, sizeof(size_t))};

	make_ranks(&w);
	make_links(&w);
	arrange(&w);
	place(&w);
	give(&w);
	free(w.items);
	free(w.links);
	free(w.order);
	free(w.first_via);
}

void layout_done(struct layout *l)
{
	for (size_t i = 0; i < l->n_edges; i++)
		free(l->edges[i].via);
	free(l->nodes);
}
