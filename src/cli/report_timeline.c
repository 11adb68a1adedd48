/* The timeline of a report: one bar for each time that a node ran.
 *
 * The main line has the first lane; every branch has one for as long as it lasts, and a lane that has become free is
 * used again, so that the drawing is as high as there were branches at the same time. */
#include "event_view.h"
#include "report.h"
#include "view_width.h"

#include <base/cleanup.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BARS = 2000, WIDTH = 1000, TOP = 26, LANE = 28, BAR = 22, TICKS = 4, LETTER = 8, SHORT = 160 };

struct strand {
	const char *branch; /* NULL: the main line */
	uint64_t begun_ms, ended_ms;
	size_t lane;
};

struct timeline {
	const struct report *r;
	size_t n; /* bars: the first rows of the table */
	struct strand *strands;
	size_t n_strands;
	size_t *strand_of; /* by row */
	size_t n_lanes;
};

/* A node that is still running reaches to the last event. */
static uint64_t end_of(const struct report *r, const struct node_row *row)
{
	return MAX(row->ended_ms ? row->ended_ms : r->ended_ms, row->begun_ms);
}

static size_t strand_of(struct timeline *t, const struct node_row *row)
{
	size_t i = 0;

	while (i < t->n_strands && !str_eq(t->strands[i].branch, row->branch))
		i++;
	if (i == t->n_strands)
		t->strands[t->n_strands++] = (struct strand){.branch = row->branch, .begun_ms = row->begun_ms};
	t->strands[i].ended_ms = MAX(t->strands[i].ended_ms, end_of(t->r, row));
	return i;
}

/* The strands are in the order they begin, as the rows are. */
static void give_lanes(struct timeline *t)
{
	auto_free uint64_t *free_at = xcalloc(t->n_strands + 2, sizeof *free_at);

	t->n_lanes = 1;
	for (size_t i = 0; i < t->n_strands; i++) {
		struct strand *s = &t->strands[i];
		size_t lane = s->branch ? 1 : 0;
		while (s->branch && lane < t->n_lanes && free_at[lane] > s->begun_ms)
			lane++;
		s->lane = lane;
		free_at[lane] = s->ended_ms;
		t->n_lanes = MAX(t->n_lanes, lane + 1);
	}
}

static double position(const struct report *r, uint64_t ms)
{
	uint64_t all = MAX(r->ended_ms - r->begun_ms, 1U), at = ms > r->begun_ms ? ms - r->begun_ms : 0;

	return WIDTH * ((double)MIN(at, all) / (double)all);
}

/* Where the next bar of the same lane begins. */
static double room_until(const struct timeline *t, size_t i)
{
	const struct node_table *nodes = &t->r->nodes;

	for (size_t k = i + 1; k < t->n; k++)
		if (t->strands[t->strand_of[k]].lane == t->strands[t->strand_of[i]].lane)
			return position(t->r, nodes->rows[k].begun_ms);
	return WIDTH;
}

static void draw_bar(const struct timeline *t, size_t i, struct page *p)
{
	const struct node_row *row = &t->r->nodes.rows[i];
	double from = position(t->r, row->begun_ms), to = position(t->r, end_of(t->r, row));
	double y = TOP + (double)t->strands[t->strand_of[i]].lane * LANE;
	char time[DURATION_TEXT_SIZE];
	auto_buf name = BUF_INIT(8 * (size_t)SHORT);

	duration_text(time, end_of(t->r, row) - row->begun_ms);
	page_printf(p, "<g class=\"bar %s\"><title>", row->state);
	page_text(p, row->node, 0);
	page_printf(p, ": %s, %s", row->state, time);
	if (row->branch) {
		page_printf(p, ", branch ");
		page_text(p, row->branch, 0);
	}
	page_printf(p, "</title><rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" rx=\"3\"/>", from, y,
		    MAX(to - from, 1.5), BAR);
	(void)text_neutralise(&name, row->node, strnlen(row->node, SHORT));
	if ((double)(text_columns(buf_str(&name)) * LETTER + 6) <= room_until(t, i) - from) {
		page_printf(p, "<text x=\"%.2f\" y=\"%.1f\">", from + 4, y + 15);
		page_text(p, buf_str(&name), 0);
		page_printf(p, "</text>");
	}
	page_printf(p, "</g>\n");
}

static void draw_ticks(const struct timeline *t, double height, struct page *p)
{
	for (unsigned i = 0; i <= TICKS; i++) {
		char time[DURATION_TEXT_SIZE];
		double x = (double)WIDTH * i / TICKS;
		duration_text(time, (t->r->ended_ms - t->r->begun_ms) * i / TICKS);
		page_printf(p,
			    "<line class=\"tick\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\"/><text class=\"tick\" "
			    "text-anchor=\"%s\" x=\"%.1f\" y=\"14\">%s</text>\n",
			    x, TOP - 6, x, height,
			    i == 0	 ? "start"
			    : i == TICKS ? "end"
					 : "middle",
			    x, time);
	}
}

void report_timeline(const struct report *r, struct page *p)
{
	struct timeline t = {.r = r, .n = MIN(r->nodes.n, (size_t)MAX_BARS)};

	if (!t.n)
		return;
	t.strands = xcalloc(t.n, sizeof *t.strands);
	t.strand_of = xcalloc(t.n, sizeof *t.strand_of);
	for (size_t i = 0; i < t.n; i++)
		t.strand_of[i] = strand_of(&t, &r->nodes.rows[i]);
	give_lanes(&t);
	double height = TOP + (double)t.n_lanes * LANE;
	page_printf(p,
		    "<div class=\"drawing\"><svg class=\"timeline\" role=\"img\" aria-label=\"when each node ran\" "
		    "viewBox=\"0 0 %d %.0f\">\n",
		    WIDTH, height);
	draw_ticks(&t, height, p);
	for (size_t i = 0; i < t.n; i++)
		draw_bar(&t, i, p);
	page_printf(p, "</svg></div>\n");
	if (t.n < r->nodes.n)
		page_printf(p, "<p>Drawn are the first %zu of %zu times that a node ran.</p>\n", t.n, r->nodes.n);
	free(t.strands);
	free(t.strand_of);
}
