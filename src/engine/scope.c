/* What the names in templates and expressions mean at one moment of a run. Values are only read; a node sees its own
 * input, and a condition on an edge also sees the output of the edge's source by bare names. */
#include "engine_priv.h"
#include "place.h"
#include "values.h"

#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/expr.h>
#include <dsl/template.h>

static json_t *loop_value(const struct loop_state *l)
{
	json_t *o = json_object();

	json_put_int(o, "iteration", l->count);
	json_put_int(o, "max", l->max);
	json_put(o, "previous_output", l->previous_output ? json_incref(l->previous_output) : json_null());
	return o;
}

static json_t *loops_value(const struct engine *en, const char *name)
{
	json_t *all = name ? NULL : json_object();

	for (size_t i = 0; i < en->n_loops; i++) {
		if (all)
			json_put(all, en->loops[i].name, loop_value(&en->loops[i]));
		else if (str_eq(en->loops[i].name, name))
			return loop_value(&en->loops[i]);
	}
	return all;
}

static json_t *run_value(const struct engine *en)
{
	json_t *o = json_object();

	json_put_str(o, "id", en->run_id);
	json_put_str(o, "name", en->p.run_name);
	json_put_str(o, "workflow", en->workflow->name.s);
	json_put_str(o, "workspace", en->p.workspace);
	json_put_str(o, "artifact_files_dir", en->run ? store_run_artifact_files(en->run) : NULL);
	return o;
}

static json_t *member(const json_t *object, const char *name)
{
	/* jansson counts references in the value itself, whatever the constness of the holder. */
	union {
		const json_t *is;
		json_t *wanted;
	} whole = {.is = object};

	return json_incref(name ? json_object_get(object, name) : whole.wanted);
}

static json_t *history_of(const struct engine *en, const char *name)
{
	const struct dsl_node *n = name ? dsl_find_node(en->p.file, name) : NULL;

	return n ? json_incref(en->nodes[n->index].history) : NULL;
}

static json_t *get(void *arg, enum dsl_ns ns, const char *name)
{
	const struct node_scope *s = arg;

	switch (ns) {
	case DSL_NS_VARS:
		return member(s->en->vars, name);
	case DSL_NS_INPUT:
		return member(s->input, name);
	case DSL_NS_OUTPUTS:
		return member(s->en->outputs, name);
	case DSL_NS_HISTORY:
		return history_of(s->en, name);
	case DSL_NS_ARTIFACTS:
		return member(s->en->artifacts, name);
	case DSL_NS_LOOP:
		return loops_value(s->en, name);
	case DSL_NS_FIELD:
		return member(s->output, name);
	case DSL_NS_RUN: {
		auto_json all = run_value(s->en);
		return member(all, name);
	}
	case DSL_NS_ATTACHMENTS:
		return attachments_value(s->en, s->place, name);
	}
	return NULL;
}

void scope_init(struct node_scope *s, const struct engine *en, const json_t *input, const json_t *output)
{
	*s = (struct node_scope){
		.en = en, .input = input, .output = output, .place = en->places, .scope = {.get = get, .arg = s}};
}

static void note_refs(struct engine *en, const struct dsl_ref *const *refs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (refs[i]->ns != DSL_NS_HISTORY || refs[i]->n == 0)
			continue;
		const struct dsl_node *node = dsl_find_node(en->p.file, refs[i]->path[0]);
		if (node && !en->nodes[node->index].history)
			en->nodes[node->index].history = json_array();
	}
}

static void note_text(struct engine *en, const struct dsl_text *t)
{
	const struct dsl_ref *const *refs = NULL;
	size_t n = t->t ? template_refs(t->t, &refs) : 0;

	note_refs(en, refs, n);
}

static void note_expr(struct engine *en, const struct dsl_expr *x)
{
	const struct dsl_ref *const *refs = NULL;
	size_t n = x->x ? expr_refs(x->x, &refs) : 0;

	note_refs(en, refs, n);
}

void scope_prepare_history(struct engine *en)
{
	const struct dsl_file *f = en->p.file;

	for (size_t i = 0; i < f->n_prompts; i++)
		note_text(en, &f->prompts[i]->text);
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct dsl_node *n = f->nodes[i];
		note_text(en, &n->command);
		note_text(en, &n->script);
		for (size_t k = 0; k < n->n_exprs; k++)
			note_expr(en, &n->exprs[k].value);
	}
	for (size_t i = 0; i < en->workflow->n_edges; i++) {
		const struct dsl_edge *edge = en->workflow->edges[i];
		note_expr(en, &edge->expr);
		for (size_t k = 0; k < edge->n_with; k++)
			note_text(en, &edge->with[k].value);
	}
}
