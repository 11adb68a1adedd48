/* The graph as Mermaid text. Names are identifiers and go in as they are; whatever else is shown is put between quotes
 * with the characters that Mermaid would read replaced by its entities. */
#include "state.h"

#include <base/buf.h>
#include <base/mem.h>
#include <dsl/diagram.h>

#include <string.h>

/* Opening and closing bracket of a node's shape. */
static const char *const shapes[][2] = {
	[DSL_AGENT] = {"[", "]"},   [DSL_JUDGE] = {"{{", "}}"}, [DSL_ROUTER] = {"{", "}"},
	[DSL_HUMAN] = {"[/", "/]"}, [DSL_TOOL] = {"[[", "]]"},	[DSL_COMPUTE] = {"(", ")"},
};

static const char *const modes[] = {"router", "fan_out_all", "condition", "round_robin", "llm"};

static int put_text(struct buf *to, const char *s)
{
	int r = 0;

	for (; r == 0 && *s; s++) {
		if (strchr("\"<>&#|\n\r`", *s))
			r = buf_printf(to, "#%d;", *s == '\n' || *s == '\r' ? ' ' : *s);
		else
			r = buf_putc(to, *s);
	}
	return r;
}

/* One more line of a label. */
static int put_line(struct buf *to, const char *what, const char *text)
{
	int r = buf_printf(to, "<br/>%s", what);

	return r < 0 ? r : put_text(to, text);
}

static int put_details(const struct dsl_node *n, enum dsl_diagram_level level, struct buf *to)
{
	int r = put_line(to, "", n->kind == DSL_ROUTER ? modes[n->mode.v] : dsl_node_kind_name(n->kind));
	const struct {
		const char *what;
		const struct dsl_str *s;
	} rows[] = {
		{"", &n->description},	{"model: ", &n->model},	  {"backend: ", &n->backend},
		{"input: ", &n->input}, {"output: ", &n->output}, {"publish: ", &n->publish},
	};

	for (size_t i = 0; level == DSL_DIAGRAM_FULL && i < ARRAY_LEN(rows); i++)
		if (r == 0 && rows[i].s->len)
			r = put_line(to, rows[i].what, rows[i].s->s);
	return r;
}

static int put_node(const struct dsl_node *n, enum dsl_diagram_level level, struct buf *to)
{
	int r = buf_printf(to, "  n_%s%s\"%s", n->name.s, shapes[n->kind][0], n->name.s);

	if (r == 0 && level != DSL_DIAGRAM_PLAIN)
		r = put_details(n, level, to);
	return r < 0 ? r : buf_printf(to, "\"%s\n", shapes[n->kind][1]);
}

/* What an edge's label says: its condition, loop and keys. */
static int put_label(const struct dsl_edge *e, enum dsl_diagram_level level, struct buf *label)
{
	int r = 0;

	if (e->when.s)
		r = buf_printf(label, "%s%s", e->negated ? "not " : "", e->when.s);
	else if (e->expr.src.s)
		r = put_text(label, e->expr.src.s);
	if (r == 0 && e->loop.s)
		r = buf_printf(label, "%s%s ≤ %lld", label->len ? "<br/>" : "", e->loop.s, e->loop_max.v);
	for (size_t i = 0; level == DSL_DIAGRAM_FULL && r == 0 && i < e->n_with; i++) {
		r = buf_puts(label, i ? ", " : label->len ? "<br/>with " : "with ");
		if (r == 0)
			r = put_text(label, e->with[i].key.s);
	}
	return r;
}

static int put_edge(const struct dsl_edge *e, enum dsl_diagram_level level, struct buf *to)
{
	auto_buf label = BUF_INIT(to->max);
	int r = level == DSL_DIAGRAM_PLAIN ? 0 : put_label(e, level, &label);

	if (r < 0)
		return r;
	if (label.len)
		return buf_printf(to, "  n_%s -->|\"%s\"| n_%s\n", e->from.s, buf_str(&label), e->to.s);
	return buf_printf(to, "  n_%s --> n_%s\n", e->from.s, e->to.s);
}

int dsl_diagram(const struct dsl_file *f, enum dsl_diagram_level level, struct buf *to)
{
	const struct dsl_workflow *w = f->workflow;
	bool ends[2] = {false, false};
	int r = buf_puts(to, "flowchart TD\n");

	if (r == 0 && w->entry.s)
		r = buf_printf(to, "  start((\"%s\")) --> n_%s\n", w->name.s, w->entry.s);
	for (size_t i = 0; r == 0 && i < f->n_nodes; i++)
		r = put_node(f->nodes[i], level, to);
	for (size_t i = 0; i < w->n_edges; i++) {
		ends[0] |= w->edges[i]->target == DSL_TO_DONE;
		ends[1] |= w->edges[i]->target == DSL_TO_FAIL;
	}
	if (r == 0 && ends[0])
		r = buf_puts(to, "  n_done((\"done\"))\n");
	if (r == 0 && ends[1])
		r = buf_puts(to, "  n_fail((\"fail\"))\n");
	for (size_t i = 0; r == 0 && i < w->n_edges; i++)
		r = put_edge(w->edges[i], level, to);
	return r;
}
