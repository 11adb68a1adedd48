/* The graph of a report: the nodes that a run came to and the edges it took, as SVG. */
#include "report.h"
#include "report_layout.h"
#include "view_width.h"

#include <base/cleanup.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 1000, NODE_HEIGHT = 38, LETTERS = 20, LETTER = 8, LOOP_ROOM = 56, LOOP_LANES = 6, SHORT = 160 };

struct graph {
	struct strv names;   /* in the order they were met */
	const char **states; /* of the last time each ran; NULL: it never did */
	size_t *times;	     /* that it ran */
	size_t cap;
};

static size_t find(const struct graph *g, const char *name)
{
	for (size_t i = 0; i < g->names.n; i++)
		if (str_eq(g->names.v[i], name))
			return i;
	return SIZE_MAX;
}

static size_t meet(struct graph *g, const char *name)
{
	size_t i = find(g, name);

	if (i != SIZE_MAX || g->names.n == g->cap)
		return i;
	strv_add(&g->names, name);
	return g->names.n - 1;
}

static void gather(const struct report *r, struct graph *g)
{
	g->cap = MIN(r->nodes.n + 2 * r->n_ways, (size_t)MAX_NODES);
	g->states = xcalloc(g->cap + 1, sizeof *g->states);
	g->times = xcalloc(g->cap + 1, sizeof *g->times);
	for (size_t i = 0; i < r->nodes.n; i++) {
		size_t at = meet(g, r->nodes.rows[i].node);
		if (at == SIZE_MAX)
			continue;
		g->states[at] = r->nodes.rows[i].state;
		g->times[at]++;
	}
	for (size_t i = 0; i < r->n_ways; i++) {
		(void)meet(g, r->ways[i].from);
		(void)meet(g, r->ways[i].to);
	}
}

/* The longest name has room, as far as it is shown. */
static double node_width(const struct graph *g)
{
	size_t letters = 5;

	for (size_t i = 0; i < g->names.n; i++)
		letters = MAX(letters, strlen(g->names.v[i]));
	return (double)(MIN(letters, (size_t)LETTERS) * LETTER + 24);
}

static void draw_node(const struct graph *g, const struct layout *l, size_t i, struct page *p)
{
	const char *state = g->states[i], *name = g->names.v[i];
	bool end = !state && (str_eq(name, "done") || str_eq(name, "fail"));
	auto_buf safe = BUF_INIT(8 * (size_t)SHORT), cut = BUF_INIT(8 * (size_t)SHORT);

	(void)text_neutralise(&safe, name, strnlen(name, SHORT));
	(void)text_fit(&cut, buf_str(&safe), LETTERS);
	page_printf(p, "<g class=\"node %s\"><title>", state ? state : end ? "end" : "unknown");
	page_text(p, name, 0);
	if (state)
		page_printf(p, ": %s%s", g->times[i] > 1 ? "the last time " : "", state);
	page_printf(p,
		    "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%d\" rx=\"%d\"/>"
		    "<text x=\"%.1f\" y=\"%.1f\">",
		    l->nodes[i].x - l->node_width / 2, l->nodes[i].y - NODE_HEIGHT / 2.0, l->node_width, NODE_HEIGHT,
		    end ? NODE_HEIGHT / 2 : 7, l->nodes[i].x, l->nodes[i].y + 5);
	page_text(p, buf_str(&cut), 0);
	page_printf(p, "</text></g>\n");
}

static void draw_label(struct page *p, double x, double y, unsigned long long times)
{
	if (times > 1)
		page_printf(p, "<text class=\"times\" x=\"%.1f\" y=\"%.1f\">×%llu</text>\n", x, y, times);
}

/* Whether another node stands in or between the ranks of the two, where a curve beside them would cross it. */
static bool is_crowded(const struct layout *l, const struct layout_edge *e)
{
	struct layout_point a = l->nodes[e->from], b = l->nodes[e->to];

	for (size_t i = 0; i < l->n_nodes; i++) {
		double at = l->sideways ? l->nodes[i].x : l->nodes[i].y;
		double one = l->sideways ? a.x : a.y, other = l->sideways ? b.x : b.y;
		if (i != e->from && i != e->to && at >= MIN(one, other) && at <= MAX(one, other))
			return true;
	}
	return false;
}

/* Against the order, round everything: out into the gap behind its rank, along the drawing's side, and back through the
 * gap before the other's, as no node stands in a gap. */
static void draw_detour(const struct layout *l, const struct layout_edge *e, size_t lane, unsigned long long times,
			struct page *p)
{
	struct layout_point a = l->nodes[e->from], b = l->nodes[e->to];
	double side = (l->sideways ? l->height : l->width) + (double)(lane % LOOP_LANES) * LOOP_ROOM / LOOP_LANES;
	double out = (l->sideways ? l->node_width : NODE_HEIGHT) / 2.0, gap = LAYOUT_BETWEEN / 3.0;

	if (l->sideways)
		page_printf(p, "<path class=\"edge loop\" d=\"M%.1f,%.1f h%.1f V%.1f H%.1f V%.1f h%.1f\"/>\n",
			    a.x + out, a.y, gap, side, b.x - out - gap, b.y, gap);
	else
		page_printf(p, "<path class=\"edge loop\" d=\"M%.1f,%.1f v%.1f H%.1f V%.1f H%.1f v%.1f\"/>\n", a.x,
			    a.y + out, gap, side, b.y - out - gap, b.x, gap);
	draw_label(p, l->sideways ? (a.x + b.x) / 2 : side + 4, l->sideways ? side - 4 : (a.y + b.y) / 2, times);
}

/* Against the order: a curve out of the node's side and back into the other's. */
static void draw_loop(const struct layout *l, const struct layout_edge *e, unsigned long long times, struct page *p)
{
	struct layout_point a = l->nodes[e->from], b = l->nodes[e->to], c, d;
	double apart = e->from == e->to ? 8 : 0;

	if (l->sideways) {
		a = (struct layout_point){a.x + apart, a.y + NODE_HEIGHT / 2.0};
		b = (struct layout_point){b.x - apart, b.y + NODE_HEIGHT / 2.0};
		c = (struct layout_point){a.x, MAX(a.y, b.y) + LOOP_ROOM};
		d = (struct layout_point){b.x, c.y};
	} else {
		a = (struct layout_point){a.x + l->node_width / 2, a.y + apart};
		b = (struct layout_point){b.x + l->node_width / 2, b.y - apart};
		c = (struct layout_point){MAX(a.x, b.x) + LOOP_ROOM, a.y};
		d = (struct layout_point){c.x, b.y};
	}
	page_printf(p, "<path class=\"edge loop\" d=\"M%.1f,%.1f C%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n", a.x, a.y, c.x,
		    c.y, d.x, d.y, b.x, b.y);
	draw_label(p, (a.x + b.x + 3 * (c.x + d.x)) / 8 + (l->sideways ? 0 : 5),
		   (a.y + b.y + 3 * (c.y + d.y)) / 8 + (l->sideways ? 14 : 4), times);
}

/* Of the two ends the one where fewer edges meet has room for a label. */
static bool label_at_start(const struct layout *l, const struct layout_edge *e)
{
	size_t out = 0, in = 0;

	for (size_t i = 0; i < l->n_edges; i++) {
		out += l->edges[i].from == e->from;
		in += l->edges[i].to == e->to;
	}
	return out <= in;
}

static void draw_edge(const struct layout *l, const struct layout_edge *e, unsigned long long times, struct page *p)
{
	double half = l->sideways ? l->node_width / 2 : NODE_HEIGHT / 2.0;
	struct layout_point a = l->nodes[e->from], b = l->nodes[e->to];

	*(l->sideways ? &a.x : &a.y) += half;
	*(l->sideways ? &b.x : &b.y) -= half;
	page_printf(p, "<path class=\"edge\" d=\"M%.1f,%.1f", a.x, a.y);
	struct layout_point at = a;
	for (size_t i = 0; i <= e->n_via; i++) {
		struct layout_point to = i < e->n_via ? e->via[i] : b;
		double x = (at.x + to.x) / 2, y = (at.y + to.y) / 2;
		if (l->sideways)
			page_printf(p, " C%.1f,%.1f %.1f,%.1f %.1f,%.1f", x, at.y, x, to.y, to.x, to.y);
		else
			page_printf(p, " C%.1f,%.1f %.1f,%.1f %.1f,%.1f", at.x, y, to.x, y, to.x, to.y);
		at = to;
	}
	page_printf(p, "\"/>\n");
	bool start = label_at_start(l, e);
	if (l->sideways)
		draw_label(p, start ? a.x + 4 : b.x - 26, (start ? a.y : b.y) - 5, times);
	else
		draw_label(p, (start ? a.x : b.x) + 6, start ? a.y + 15 : b.y - 11, times);
}

static void draw(const struct report *r, const struct graph *g, struct layout *l, struct page *p)
{
	bool loops = false;
	size_t lane = 0;

	layout_place(l);
	for (size_t i = 0; i < l->n_edges; i++)
		loops = loops || l->edges[i].back;
	double width = l->width + (loops && !l->sideways ? LOOP_ROOM : 0);
	double height = l->height + (loops && l->sideways ? LOOP_ROOM : 0);
	page_printf(
		p,
		"<div class=\"drawing\"><svg class=\"graph\" role=\"img\" aria-label=\"the nodes and the edges that "
		"were taken\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
		"<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
		"markerHeight=\"7\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n",
		width, height, width, height);
	for (size_t i = 0; i < l->n_edges; i++) {
		size_t from = l->edges[i].from;
		unsigned long long times = 1;
		for (size_t k = 0; k < r->n_ways; k++)
			if (str_eq(r->ways[k].from, g->names.v[from]) &&
			    str_eq(r->ways[k].to, g->names.v[l->edges[i].to]))
				times = r->ways[k].times;
		if (!l->edges[i].back)
			draw_edge(l, &l->edges[i], times, p);
		else if (is_crowded(l, &l->edges[i]))
			draw_detour(l, &l->edges[i], lane++, times, p);
		else
			draw_loop(l, &l->edges[i], times, p);
	}
	for (size_t i = 0; i < l->n_nodes; i++)
		draw_node(g, l, i, p);
	page_printf(p, "</svg></div>\n");
	layout_done(l);
}

void report_graph(const struct report *r, struct page *p)
{
	struct graph g = {0};
	auto_free struct layout_edge *edges = xcalloc(r->n_ways + 1, sizeof *edges);
	struct layout l = {.edges = edges, .node_height = NODE_HEIGHT};

	gather(r, &g);
	l.n_nodes = g.names.n;
	l.node_width = node_width(&g);
	for (size_t i = 0; i < r->n_ways; i++) {
		size_t from = find(&g, r->ways[i].from), to = find(&g, r->ways[i].to);
		if (from != SIZE_MAX && to != SIZE_MAX)
			edges[l.n_edges++] = (struct layout_edge){.from = from, .to = to};
	}
	if (l.n_nodes)
		draw(r, &g, &l, p);
	if (l.n_nodes == MAX_NODES)
		page_printf(p, "<p>Drawn are the first %d nodes.</p>\n", MAX_NODES);
	strv_done(&g.names);
	free(g.states);
	free(g.times);
}
