/* From the model to lines: a head, the sandbox, images on their way, a line a node, what was refused, the last warning.
 *
 * Pure: the same model, space and time give the same lines. Where there are more nodes than rows, those that run come
 * first, then those that failed, then what ended last; the rest is a count. Every line is put together by a writer that
 * knows how many columns are left, so none can be too wide; colours are the only escape sequences in it, because the
 * model's texts hold none. */
#include "view_frame.h"
#include "output.h"
#include "view_model.h"
#include "view_width.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LINE_MAX_BYTES = 64 * 1024,
	STATE_COLUMNS = 8,
	TIME_COLUMNS = 10,
	NUMBER_COLUMNS = 8,
	MIN_NAME = 6,
	PULLS = 3,
	PLACES = 3
};

struct line {
	struct buf b;
	size_t left; /* columns */
	bool colour;
};

static const struct {
	const char *word;
	enum style style;
} states[VIEW_STATES] = {
	[VIEW_RUNNING] = {"running", STYLE_BOLD},    [VIEW_WAITING] = {"waiting", STYLE_YELLOW},
	[VIEW_FAILED] = {"failed", STYLE_RED},	     [VIEW_STOPPED] = {"stopped", STYLE_RED},
	[VIEW_FINISHED] = {"finished", STYLE_GREEN},
};

static struct line line_new(const struct view_space *space)
{
	return (struct line){.b = BUF_INIT(LINE_MAX_BYTES), .left = space->columns, .colour = space->colour};
}

static void spaces(struct line *l, size_t n)
{
	for (n = MIN(n, l->left); n; n--, l->left--)
		(void)buf_putc(&l->b, ' ');
}

/* text, cut to the columns that are left. */
static void put(struct line *l, enum style style, const char *text)
{
	bool styled = l->colour && style != STYLE_PLAIN && *text && l->left;

	if (styled)
		(void)buf_puts(&l->b, style_code(style));
	l->left -= text_fit(&l->b, text, l->left);
	if (styled)
		(void)buf_puts(&l->b, style_code(STYLE_PLAIN));
}

/* text in a column of its own, with two spaces behind it. */
static void put_column(struct line *l, enum style style, const char *text, size_t columns)
{
	auto_buf b = BUF_INIT(LINE_MAX_BYTES);
	size_t used = text_fit(&b, text, columns);

	put(l, style, buf_str(&b));
	spaces(l, columns - used + 2);
}

static void put_number(struct line *l, const char *text)
{
	size_t used = text_columns(text);

	spaces(l, used < NUMBER_COLUMNS ? NUMBER_COLUMNS - used : 0);
	put(l, STYLE_PLAIN, text);
	spaces(l, 2);
}

static void line_end(struct line *l, struct strv *ret)
{
	while (l->b.len && l->b.data[l->b.len - 1] == ' ')
		l->b.data[--l->b.len] = '\0';
	strv_take(ret, buf_steal(&l->b));
}

enum { SHORT_TEXT = 48 };

/* The clock's text: it must not jump in width from one drawing to the next more than it has to. */
static void clock_text(char ret[SHORT_TEXT], uint64_t ms)
{
	unsigned long long s = ms / 1000;

	if (s < 60)
		snprintf(ret, SHORT_TEXT, "%llu.%llu s", s, (unsigned long long)(ms / 100 % 10));
	else if (s < 3600)
		snprintf(ret, SHORT_TEXT, "%llum %02llus", s / 60, s % 60);
	else
		snprintf(ret, SHORT_TEXT, "%lluh %02llum", s / 3600, s / 60 % 60);
}

static void count_text(char ret[SHORT_TEXT], long long n)
{
	if (n < 100000)
		snprintf(ret, SHORT_TEXT, "%lld", n);
	else if (n < 100000000)
		snprintf(ret, SHORT_TEXT, "%.1fk", (double)n / 1e3);
	else
		snprintf(ret, SHORT_TEXT, "%.1fM", (double)n / 1e6);
}

static uint64_t since(uint64_t then_ms, uint64_t now_ms)
{
	return then_ms && now_ms > then_ms ? now_ms - then_ms : 0;
}

/* "3 running, 5 finished" of those lines that are not chosen (chosen NULL: of all). */
static void counts(const struct view *v, const bool *chosen, struct buf *to)
{
	size_t n[VIEW_STATES] = {0};
	bool first = true;

	for (size_t i = 0; i < v->n_nodes; i++)
		n[v->nodes[i].state] += !chosen || !chosen[i];
	n[VIEW_FINISHED] += v->n_dropped;
	for (size_t s = 0; s < VIEW_STATES; s++) {
		if (!n[s])
			continue;
		(void)buf_printf(to, "%s%zu %s", first ? "" : ", ", n[s], states[s].word);
		first = false;
	}
}

static void head(const struct view *v, const struct view_space *space, uint64_t now_ms, struct strv *ret)
{
	struct line l = line_new(space);
	char time[SHORT_TEXT];
	auto_buf numbers = BUF_INIT(LINE_MAX_BYTES);
	bool good = str_eq(v->end, "finished");

	clock_text(time, since(v->begun_ms, v->ended_ms ? v->ended_ms : now_ms));
	put(&l, STYLE_BOLD, v->title ? v->title : "run");
	spaces(&l, 2);
	put(&l,
	    !v->end ? STYLE_PLAIN
	    : good  ? STYLE_GREEN
		    : STYLE_RED,
	    v->end     ? v->end
	    : v->doing ? v->doing
		       : "running");
	put(&l, STYLE_PLAIN, v->end ? " in " : " ");
	put(&l, STYLE_PLAIN, time);
	spaces(&l, 2);
	if (v->n_nodes)
		(void)buf_puts(&numbers, "nodes: ");
	counts(v, NULL, &numbers);
	if (v->tokens)
		(void)buf_printf(&numbers, "%s%lld tokens", numbers.len ? "  " : "", v->tokens);
	if (v->cost_usd > 0)
		(void)buf_printf(&numbers, "%s$%.4f", numbers.len ? "  " : "", v->cost_usd);
	put(&l, STYLE_PLAIN, buf_str(&numbers));
	line_end(&l, ret);
}

static void labelled(const struct view_space *space, enum style style, const char *label, const char *text,
		     struct strv *ret)
{
	struct line l = line_new(space);

	put(&l, style, label);
	spaces(&l, 1);
	put(&l, STYLE_PLAIN, text);
	line_end(&l, ret);
}

/* Sandboxes that some nodes have to themselves: the newest ones; after the end all of them. */
static void places(const struct view *v, const struct view_space *space, struct strv *ret)
{
	for (size_t i = space->rows && v->n_places > PLACES ? v->n_places - PLACES : 0; i < v->n_places; i++) {
		auto_free char *whose = xasprintf("sandbox of %s:", v->places[i].nodes);
		labelled(space, STYLE_PLAIN, whose, v->places[i].text ? v->places[i].text : "starting", ret);
	}
}

/* Images whose layers are on their way: one line an image. */
static void pulls(const struct view *v, const struct view_space *space, struct strv *ret)
{
	size_t shown = 0;

	for (size_t i = 0; i < v->n_pulls && shown < PULLS; i++) {
		uint64_t current = 0, total = 0;
		bool first = true;
		for (size_t k = 0; k < v->n_pulls; k++) {
			if (!str_eq(v->pulls[k].image, v->pulls[i].image))
				continue;
			first = first && k >= i;
			current += v->pulls[k].current;
			total += MAX(v->pulls[k].total, v->pulls[k].current);
		}
		if (!first)
			continue;
		unsigned percent = total ? (unsigned)(100 * (double)current / (double)total) : 0;
		auto_free char *text = xasprintf("%s  %u %%  %.1f of %.1f MB", v->pulls[i].image, percent,
						 (double)current / 1e6, (double)total / 1e6);
		labelled(space, STYLE_BOLD, "pulling:", text, ret);
		shown++;
	}
}

static void blocked(const struct view *v, const struct view_space *space, struct strv *ret)
{
	auto_buf text = BUF_INIT(LINE_MAX_BYTES);

	if (!v->n_blocks)
		return;
	for (size_t i = 0; i < v->n_blocks; i++) {
		(void)buf_printf(&text, "%s%s", i ? ", " : "", v->blocks[i].host);
		if (v->blocks[i].count > 1)
			(void)buf_printf(&text, " ×%llu", (unsigned long long)v->blocks[i].count);
	}
	if (v->n_more_blocked)
		(void)buf_printf(&text, ", and %llu to others", (unsigned long long)v->n_more_blocked);
	labelled(space, STYLE_YELLOW, "blocked:", buf_str(&text), ret);
}

/* The newest warning; after the end all of them. */
static void notes(const struct view *v, const struct view_space *space, struct strv *ret)
{
	for (size_t i = space->rows && v->notes.n ? v->notes.n - 1 : 0; i < v->notes.n; i++)
		labelled(space, STYLE_YELLOW, "warning:", v->notes.v[i], ret);
}

/* A branch is named by its router and first node: "split.work", or "split.work#2" when the router runs again. */
static char *label(const struct view_node *n)
{
	auto_buf b = BUF_INIT(LINE_MAX_BYTES);
	const char *dot = n->branch ? strrchr(n->branch, '.') : NULL;
	size_t len = strlen(n->name);

	(void)buf_puts(&b, n->name);
	if (dot && strncmp(dot + 1, n->name, len) == 0 && (dot[1 + len] == '\0' || dot[1 + len] == '#'))
		(void)buf_puts(&b, dot + 1 + len);
	else if (n->branch)
		(void)buf_printf(&b, " (%s)", n->branch);
	if (n->times > 1)
		(void)buf_printf(&b, " ×%u", n->times);
	return buf_steal(&b);
}

static void node_line(const struct view *v, const struct view_node *n, const char *name, size_t name_columns,
		      const struct view_space *space, uint64_t now_ms, struct strv *ret)
{
	struct line l = line_new(space);
	char text[SHORT_TEXT];
	bool open = n->state == VIEW_RUNNING || n->state == VIEW_WAITING;

	auto_buf short_name = BUF_INIT(LINE_MAX_BYTES);
	(void)name_fit(&short_name, name, name_columns);
	put_column(&l, STYLE_PLAIN, buf_str(&short_name), name_columns);
	put_column(&l, states[n->state].style, states[n->state].word, STATE_COLUMNS);
	clock_text(text, n->took_ms + (open ? since(n->begun_ms, v->ended_ms ? v->ended_ms : now_ms) : 0));
	put_column(&l, STYLE_PLAIN, text, TIME_COLUMNS);
	if (v->tokens) {
		count_text(text, n->tokens);
		put_number(&l, n->tokens ? text : "");
	}
	if (v->cost_usd > 0) {
		snprintf(text, sizeof text, "$%.4f", n->cost_usd);
		put_number(&l, n->cost_usd > 0 ? text : "");
	}
	if (n->detail)
		put(&l, n->state == VIEW_FAILED ? STYLE_PLAIN : STYLE_DIM, n->detail);
	line_end(&l, ret);
}

/* Marks at most room lines; returns how many. */
static size_t choose(const struct view *v, size_t room, bool *chosen)
{
	size_t n = 0;

	for (size_t s = 0; s < VIEW_STATES; s++) {
		/* Of what goes on the longest first, of what has ended the latest. */
		bool forward = s <= VIEW_WAITING;
		for (size_t k = 0; k < v->n_nodes && n < room; k++) {
			size_t i = forward ? k : v->n_nodes - 1 - k;
			if (v->nodes[i].state != s)
				continue;
			chosen[i] = true;
			n++;
		}
	}
	return n;
}

/* room: lines that may be used, the one that counts the rest included. */
static void nodes(const struct view *v, size_t room, const struct view_space *space, uint64_t now_ms, struct strv *ret)
{
	size_t all = v->n_nodes + v->n_dropped, widest = MIN_NAME,
	       limit = MAX((size_t)space->columns * 2 / 5, MIN_NAME);
	auto_free bool *chosen = xcalloc(v->n_nodes + 1, sizeof *chosen);
	auto_strv names = {0};

	if (all > room || v->n_dropped)
		room = room ? room - 1 : 0;
	size_t n = choose(v, room, chosen);
	for (size_t i = 0; i < v->n_nodes; i++) {
		strv_take(&names, chosen[i] ? label(&v->nodes[i]) : xstrdup(""));
		widest = MAX(widest, text_columns(names.v[i]));
	}
	for (size_t i = 0; i < v->n_nodes; i++)
		if (chosen[i])
			node_line(v, &v->nodes[i], names.v[i], MIN(widest, limit), space, now_ms, ret);
	if (n == all)
		return;
	auto_buf rest = BUF_INIT(LINE_MAX_BYTES);
	counts(v, chosen, &rest);
	auto_free char *text = xasprintf("… %zu more: %s", all - n, buf_str(&rest));
	struct line l = line_new(space);
	put(&l, STYLE_DIM, text);
	line_end(&l, ret);
}

/* Moves the lines of one list behind those of the other. */
static void append(struct strv *to, struct strv *from)
{
	for (size_t i = 0; i < from->n; i++)
		strv_take(to, TAKE_PTR(from->v[i]));
	from->n = 0;
}

void view_frame(const struct view *v, const struct view_space *space, uint64_t now_ms, struct strv *ret)
{
	enum { ENOUGH = 4 };
	auto_strv above = {0}, below = {0};

	labelled(space, STYLE_PLAIN, "sandbox:", v->sandbox ? v->sandbox : v->end ? "not started" : "starting", &above);
	places(v, space, &above);
	pulls(v, space, &above);
	if (v->worktree)
		labelled(space, STYLE_PLAIN, "worktree:", v->worktree, &above);
	blocked(v, space, &below);
	notes(v, space, &below);
	size_t fixed = 1 + above.n + below.n;
	bool roomy = !space->rows || space->rows >= fixed + ENOUGH;
	if (!roomy)
		fixed = 1;
	head(v, space, now_ms, ret);
	if (roomy)
		append(ret, &above);
	size_t room = !space->rows ? SIZE_MAX : space->rows > fixed ? space->rows - fixed : 0;
	if (room)
		nodes(v, room, space, now_ms, ret);
	if (roomy)
		append(ret, &below);
}
