/* References in templates and expressions: that what they name exists, has the field they ask for, and can have run
 * before (C017, C029, C031 to C036, C053, C054). One reference is looked at where it is used: a prompt once for every
 * node that uses it, because its {{input.…}} means that node's input. */
#include "checks.h"

#include <base/arena.h>
#include <base/mem.h>
#include <dsl/expr.h>
#include <dsl/template.h>

#include <string.h>

/* Where references stand: in a node's own text, or on one of its edges. */
struct place_of_use {
	const struct dsl_node *node;
	bool edge;
	const struct dsl_str *text;
};

static struct dsl_pos ref_pos(const struct place_of_use *u, const struct dsl_ref *r)
{
	return dsl_str_pos(u->text, r->offset);
}

static void check_var(struct check *c, const struct place_of_use *u, const struct dsl_ref *r)
{
	if (!dsl_find_var(c->f, r->path[0]))
		diag_error(c->f, "C033", ref_pos(u, r),
			   hint_nearest_name(c->f, r->path[0], &c->f->state->vars, "declare it under vars:"),
			   "unknown var \"%s\"", r->path[0]);
}

/* C034. On an edge, input is what the source got or gave; either schema may name the field. */
static void check_input(struct check *c, const struct place_of_use *u, const struct dsl_ref *r)
{
	const struct dsl_schema *in = input_schema(c, u->node);
	const struct dsl_schema *out = u->edge ? output_schema(c, u->node) : NULL;

	if (r->n == 0 || (!in && !out) || (u->edge && (u->node->kind == DSL_ROUTER || !in)))
		return;
	if ((in && dsl_schema_field(in, r->path[0])) || (out && dsl_schema_field(out, r->path[0])))
		return;
	diag_error(
		c->f, "C034", ref_pos(u, r),
		hint_nearest_name(c->f, r->path[0], in->index, "add the field to the schema, or use vars or outputs"),
		"the input of \"%s\" (schema \"%s\") has no field \"%s\"", u->node->name.s, in->name.s, r->path[0]);
}

/* The fields that an output has without any schema. */
static bool built_in_field(const struct dsl_node *n, const char *field)
{
	if (field[0] == '_')
		return true;
	return n->kind == DSL_TOOL &&
	       (strcmp(field, "output") == 0 || strcmp(field, "stderr") == 0 || strcmp(field, "exit_code") == 0);
}

static bool has_expr(const struct dsl_node *n, const char *field)
{
	for (size_t i = 0; i < n->n_exprs; i++)
		if (strcmp(n->exprs[i].key.s, field) == 0)
			return true;
	return false;
}

static void check_output_field(struct check *c, const struct place_of_use *u, const struct dsl_ref *r,
			       const struct dsl_node *n)
{
	const struct dsl_schema *schema = output_schema(c, n);
	const char *field = r->path[1];

	if (n->kind == DSL_ROUTER || strcmp(field, "*") == 0 || (n->output.s && !schema))
		return;
	if (schema && field[0] != '_' && !dsl_schema_field(schema, field))
		diag_error(c->f, "C031", ref_pos(u, r),
			   hint_nearest_name(c->f, field, schema->index, "add the field to the schema"),
			   "the output of \"%s\" (schema \"%s\") has no field \"%s\"", n->name.s, schema->name.s,
			   field);
	else if (!schema && n->kind == DSL_COMPUTE && !has_expr(n, field))
		diag_error(c->f, "C031", ref_pos(u, r), "add it to expr:", "the compute \"%s\" has no field \"%s\"",
			   n->name.s, field);
	else if (!schema && n->kind != DSL_COMPUTE && !built_in_field(n, field))
		diag_warning(c->f, "C032", ref_pos(u, r), "add output: and a schema",
			     "\"%s\" has no output schema, so the field \"%s\" cannot be checked", n->name.s, field);
}

static void check_output(struct check *c, const struct place_of_use *u, const struct dsl_ref *r)
{
	const struct dsl_node *n = dsl_find_node(c->f, r->path[0]);
	const struct flow *f = &c->flow;

	if (!n) {
		diag_error(c->f, "C029", ref_pos(u, r),
			   hint_nearest_name(c->f, r->path[0], &c->f->state->nodes, "declare it"),
			   "unknown node \"%s\"", r->path[0]);
		return;
	}
	if (r->ns == DSL_NS_HISTORY && !f->looped[n->index])
		diag_error(c->f, "C017", ref_pos(u, r), "declare a loop over it: as NAME(N), or use its output",
			   "\"%s\" has a history only inside of a loop", n->name.s);
	if (r->ns == DSL_NS_OUTPUTS && r->n > 1)
		check_output_field(c, u, r, n);
	if (f->entry == f->n || !f->reached[n->index] || !f->reached[u->node->index] || (u->edge && n == u->node))
		return;
	if (!flow_leads(c, n, u->node))
		diag_error(c->f, "C036", ref_pos(u, r), "wire an edge so that it runs first",
			   "\"%s\" uses the output of \"%s\", which never runs before it", u->node->name.s, n->name.s);
}

static void check_attachment(struct check *c, const struct place_of_use *u, const struct dsl_ref *r)
{
	static const char *const fields[] = {"path", "url", "mime", "size", "sha256"};
	bool known = r->n < 2;

	if (!dsl_find_attachment(c->f, r->path[0])) {
		diag_error(
			c->f, "C053", ref_pos(u, r),
			hint_nearest_name(c->f, r->path[0], &c->f->state->attachments, "declare it under attachments:"),
			"unknown attachment \"%s\"", r->path[0]);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		known = known || (r->n == 2 && strcmp(r->path[1], fields[i]) == 0);
	if (!known)
		diag_error(c->f, "C054", ref_pos(u, r),
			   hint_nearest(c->f, r->path[1], fields, ARRAY_LEN(fields),
					"an attachment has path, url, mime, size and sha256"),
			   "an attachment has no field \"%s\"", r->path[1]);
}

static struct names published(struct check *c)
{
	struct names names = {0};

	for (size_t i = 0; i < c->f->n_nodes; i++)
		if (c->f->nodes[i]->publish.len)
			(void)names_add(&names, c->f->state->arena, c->f->nodes[i]->publish.s, c->f->nodes[i]);
	return names;
}

static struct names loop_names(struct check *c)
{
	struct names names = {0};

	for (size_t i = 0; i < c->w->n_edges; i++)
		if (c->w->edges[i]->loop.s)
			(void)names_add(&names, c->f->state->arena, c->w->edges[i]->loop.s, c->w->edges[i]);
	return names;
}

struct indexes {
	struct names artifacts, loops;
};

static void check_known(struct check *c, const struct place_of_use *u, const struct dsl_ref *r,
			const struct names *names, const char *code, const char *what, const char *otherwise)
{
	if (!names_get(names, r->path[0]))
		diag_error(c->f, code, ref_pos(u, r), hint_nearest_name(c->f, r->path[0], names, otherwise),
			   "unknown %s \"%s\"", what, r->path[0]);
}

static void check_bare(struct check *c, const struct place_of_use *u, const struct dsl_ref *r)
{
	const struct dsl_schema *out = output_schema(c, u->node);

	if (out && !dsl_schema_field(out, r->path[0]))
		diag_error(c->f, "C014", ref_pos(u, r),
			   hint_nearest_name(c->f, r->path[0], out->index, "text goes between quotes"),
			   "the output of \"%s\" (schema \"%s\") has no field \"%s\"", u->node->name.s, out->name.s,
			   r->path[0]);
}

static void check_ref(struct check *c, const struct indexes *x, const struct place_of_use *u, const struct dsl_ref *r)
{
	switch (r->ns) {
	case DSL_NS_VARS:
		check_var(c, u, r);
		break;
	case DSL_NS_INPUT:
		check_input(c, u, r);
		break;
	case DSL_NS_OUTPUTS:
	case DSL_NS_HISTORY:
		check_output(c, u, r);
		break;
	case DSL_NS_ARTIFACTS:
		check_known(c, u, r, &x->artifacts, "C035", "artifact", "add publish: to the node that makes it");
		break;
	case DSL_NS_LOOP:
		check_known(c, u, r, &x->loops, "C004", "loop", "name it on an edge: as NAME(N)");
		break;
	case DSL_NS_ATTACHMENTS:
		check_attachment(c, u, r);
		break;
	case DSL_NS_FIELD:
		check_bare(c, u, r);
		break;
	case DSL_NS_RUN:
		break;
	}
}

static void check_text(struct check *c, const struct indexes *x, const struct dsl_node *n, bool edge,
		       const struct dsl_text *t)
{
	struct place_of_use u = {.node = n, .edge = edge, .text = &t->src};
	const struct dsl_ref *const *refs;
	size_t count = t->t ? template_refs(t->t, &refs) : 0;

	for (size_t i = 0; i < count; i++)
		check_ref(c, x, &u, refs[i]);
}

static void check_expr(struct check *c, const struct indexes *x, const struct dsl_node *n, bool edge,
		       const struct dsl_expr *e)
{
	struct place_of_use u = {.node = n, .edge = edge, .text = &e->src};
	const struct dsl_ref *const *refs;
	size_t count = e->x ? expr_refs(e->x, &refs) : 0;

	for (size_t i = 0; i < count; i++)
		check_ref(c, x, &u, refs[i]);
}

static void check_prompt(struct check *c, const struct indexes *x, const struct dsl_node *n, const struct dsl_str *name)
{
	const struct dsl_prompt *p = name->s ? dsl_find_prompt(c->f, name->s) : NULL;

	if (p)
		check_text(c, x, n, false, &p->text);
}

static void check_node_refs(struct check *c, const struct indexes *x, const struct dsl_node *n)
{
	check_prompt(c, x, n, &n->system);
	check_prompt(c, x, n, &n->user);
	check_prompt(c, x, n, &n->instructions);
	check_prompt(c, x, n, &n->interaction_prompt);
	check_text(c, x, n, false, &n->command);
	check_text(c, x, n, false, &n->script);
	for (size_t i = 0; i < n->n_exprs; i++)
		check_expr(c, x, n, false, &n->exprs[i].value);
	for (size_t i = 0; i < n->n_out; i++) {
		const struct dsl_edge *e = n->out[i];
		check_expr(c, x, n, true, &e->expr);
		for (size_t k = 0; k < e->n_with; k++)
			check_text(c, x, n, true, &e->with[k].value);
	}
}

void check_refs(struct check *c)
{
	struct indexes x = {.artifacts = published(c), .loops = loop_names(c)};

	for (size_t i = 0; i < c->f->n_nodes; i++)
		check_node_refs(c, &x, c->f->nodes[i]);
}
