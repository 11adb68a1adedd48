/* One node after the other.
 *
 * The pump starts the nodes of all branches that are ready, as many at once as the budget allows, but of those that let
 * a model write in the workspace only one. Routers and compute
 * nodes are over at once; a chain of them gives the loop its turn now and then, so that signals and other nodes are
 * heard. When a node ended, its output is checked and recorded, and its branch goes on along an edge.
 *
 * A checkpoint follows: it can be seen before the next node starts, so that a kill never makes resume repeat what
 * ended. Its one fsync comes after that node was started, because the disk then works while it runs, which hides what
 * it costs. Routers and compute nodes need none of their own, as running them again does no harm. The last node's
 * checkpoint is made safe together with the run's final state; until then, while a sandbox is being stopped, a plain
 * write guards it against a kill. */
#include "branch.h"
#include "budget.h"
#include "conversation.h"
#include "value.h"
#include "kinds.h"
#include "place.h"
#include "recovery.h"
#include "state.h"
#include "values.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <dsl/expr.h>

#include <errno.h>
#include <string.h>

enum { STEPS_IN_A_TURN = 32 };

static bool is_instant(const struct dsl_node *n)
{
	return (n->kind == DSL_ROUTER && !route_is_llm(n)) || n->kind == DSL_COMPUTE;
}

/* A model may write anything in the workspace, unless its node says that it only reads. What a tool node does stands in
 * the file: whoever puts two of them side by side knows what they write. */
static bool is_writer(const struct dsl_node *n)
{
	return (n->kind == DSL_AGENT || n->kind == DSL_JUDGE) && !n->readonly.v;
}

static bool may_start(const struct engine *en, const struct branch *b)
{
	if (is_instant(b->node))
		return true;
	if (en->nodes[b->node->index].ops && place_is_starting(en->nodes[b->node->index].place))
		return false;
	if (en->n_activities >= en->max_parallel)
		return false;
	if (!is_writer(b->node))
		return true;
	for (const struct branch *other = en->branches; other; other = other->next)
		if (other->state == BRANCH_ACTIVE && is_writer(other->node))
			return false;
	return true;
}

static struct branch *next_ready(const struct engine *en)
{
	for (struct branch *b = en->branches; b; b = b->next)
		if (b->state == BRANCH_READY && may_start(en, b))
			return b;
	return NULL;
}

static int compute(const struct engine *en, const struct branch *b, json_t **ret, struct err *e)
{
	auto_json output = json_object();
	struct node_scope s;

	scope_init(&s, en, b->input, NULL);
	for (size_t i = 0; i < b->node->n_exprs; i++) {
		const struct dsl_field_expr *x = &b->node->exprs[i];
		json_t *v = NULL;
		int r = expr_eval(x->value.x, &s.scope, &v, e);
		if (r < 0)
			return err_wrap(e, r, "node %s: expr %s", b->node->name.s, x->key.s);
		json_put(output, x->key.s, v);
	}
	*ret = TAKE_PTR(output);
	return 0;
}

static void emit_started(struct engine *en, const struct branch *b)
{
	json_t *d = json_object();

	json_put_str(d, "kind", dsl_node_kind_name(b->node->kind));
	engine_emit(en, "node_started", b->id, b->node->name.s, d);
}

/* Whether what it runs in is up: 1, 0 when it must wait, or -errno. */
static int need_place(const struct engine *en, const struct branch *b, struct err *e)
{
	const struct node_state *s = &en->nodes[b->node->index];

	return s->ops ? place_need(s->place, b->node, e) : 1;
}

static void step(struct engine *en, struct branch *b)
{
	struct err e = ERR_INIT;
	struct node_result result = {.tokens = -1, .cost_usd = -1};
	bool instant = is_instant(b->node);

	if (!instant)
		checkpoint_soon(en);
	int r = en->phase == PHASE_RUNNING ? need_place(en, b, &e) : 0;
	if (r == 0 || en->phase != PHASE_RUNNING || budget_enter(en, b) < 0)
		return;
	b->state = BRANCH_ACTIVE;
	if (!b->interaction && !b->answers)
		emit_started(en, b);
	/* Whoever heard of it may have ended the run. */
	if (en->phase != PHASE_RUNNING)
		return;
	if (r < 0)
		result.resumable = true;
	else if (en->nodes[b->node->index].ops)
		r = human_resume_for(en, b) ? 0 : activity_start(en, b, &e);
	else if (b->node->kind == DSL_ROUTER)
		result.output = json_incref(b->input);
	else if (b->node->kind == DSL_COMPUTE)
		r = compute(en, b, &result.output, &e);
	else
		r = human_start(en, b, &e);
	/* A human node whose answers were there has gone on already, and b may be gone with it. */
	if (r < 0 || instant)
		step_finished(en, b, &result, 0, r < 0 ? &e : NULL);
	json_decref(result.output);
}

static void emit_failed(struct engine *en, const struct branch *b, const struct node_result *r, const struct err *e)
{
	json_t *d = json_object();
	json_t *output = json_object_get(r->details, "output");

	if (output) {
		json_t *shown = checkpoint_show(en, b->node->name.s, output);
		(void)json_object_update(d, shown);
		json_decref(shown);
	}
	if (r->details)
		(void)json_object_update_missing(d, r->details);
	json_put_str(d, "error", e->msg);
	json_put_str(d, "hint", e->hint[0] ? e->hint : NULL);
	engine_emit(en, b->node->kind == DSL_TOOL ? "tool_error" : "node_error", b->id, b->node->name.s, d);
}

/* Makes the output known: to templates, to the checkpoint, to who watches. */
static void record(struct engine *en, struct branch *b, const struct node_result *r, uint64_t duration_ms)
{
	const char *name = b->node->name.s;
	json_t *history = en->nodes[b->node->index].history;
	json_t *before = json_object_get(en->outputs, name);

	if (history && before)
		(void)json_array_append(history, before);
	json_put(en->outputs, name, json_incref(r->output));
	json_t *d = checkpoint_show(en, name, r->output);
	(void)json_object_del(en->stored, name);
	(void)json_object_del(en->stored_refs, name);
	const char *ref = large_ref(en, r->output);
	if (ref)
		json_put_str(en->stored_refs, name, ref);
	else
		json_put(en->stored, name, json_incref(r->output));
	if (r->details)
		(void)json_object_update_missing(d, r->details);
	json_put_int(d, "duration_ms", (long long)duration_ms);
	if (r->tokens >= 0)
		json_put_int(d, "_tokens", r->tokens);
	if (r->cost_usd >= 0)
		json_put(d, "_cost_usd", json_real(r->cost_usd));
	engine_emit(en, "node_finished", b->id, name, d);
	conversation_note(b, en->nodes[b->node->index].ops, r->details);
	if (b->node->publish.s)
		artifact_publish(en, b->id, b->node, r->output);
	en->last_node = name;
}

int step_check(const struct engine *en, const struct dsl_node *n, json_t *output, struct err *e)
{
	const struct dsl_schema *s = n->output.s ? dsl_find_schema(en->p.file, n->output.s) : NULL;

	if (route_is_llm(n))
		return route_check(n, output, e);
	/* A person's answers were checked when they came; not all need be there. */
	return s && !human_is_asked(en->p.file, n) ? value_check(output, s, e) : 0;
}

/* A tool whose words were not taken for fields has them in "output": why they were not. */
static int why_no_fields(const struct dsl_node *n, const json_t *output, int r, struct err *e)
{
	const char *text = json_get_str(output, "output");
	struct err why = ERR_INIT;

	if (n->kind != DSL_TOOL || !text || !json_get_str(output, "stderr") || json_object_get(output, "output_ref"))
		return r;
	auto_json j = json_parse_value(text, strlen(text), &why);
	if (json_is_object(j))
		return r;
	return err_wrap(e, r, "what it printed is no JSON object (%s)", j ? "it is another value" : why.msg);
}

static int check_output(const struct engine *en, const struct branch *b, json_t *output, struct err *e)
{
	int r = step_check(en, b->node, output, e);

	if (r == 0)
		return 0;
	const json_t *ref = json_object_get(output, "output_ref");
	err_hint(e,
		 b->node->kind == DSL_TOOL && ref
			 ? "the program printed more than 1 MiB, which is not read as JSON: print less, or write a file"
		 : b->node->kind == DSL_TOOL
			 ? "print one JSON object with exactly the schema's fields, or change the schema"
			 : "change the schema, or say in the prompt what the fields are");
	return err_wrap(e, why_no_fields(b->node, output, r, e), "node %s", b->node->name.s);
}

static void to_fail(struct engine *en, const struct branch *b)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_NODE, ECANCELED, "node %s: the workflow went on to fail", b->node->name.s);
	err_hint(&e, "the event edge_selected of that node says which condition led there");
	engine_end(en, RUN_FAILED, &e, b->node->name.s);
}

static void go_on(struct engine *en, struct branch *b, json_t *output)
{
	struct err e = ERR_INIT;
	const struct dsl_edge *edge = NULL;
	json_t *input = NULL;

	bool llm = route_is_llm(b->node);
	if ((b->node->kind == DSL_ROUTER && b->node->mode.v == DSL_FAN_OUT_ALL) || (llm && b->node->multi.v)) {
		if (group_fork(en, b, output, &e) < 0)
			engine_end(en, RUN_FAILED_RESUMABLE, &e, b->node->name.s);
		return;
	}
	int r = edge_choose(en, b, output, &edge, &e);
	if (r == 0 && edge && edge->dst)
		r = edge_input(en, b, edge, llm ? b->input : output, &input, &e);
	if (r < 0)
		branch_failed(en, b, &e, true);
	else if (!edge || edge->target == DSL_TO_DONE)
		branch_done(en, b);
	else if (edge->target == DSL_TO_FAIL)
		to_fail(en, b);
	else
		branch_go(en, b, edge->dst, input);
}

void step_finished(struct engine *en, struct branch *b, const struct node_result *r, uint64_t duration_ms,
		   const struct err *e)
{
	struct err bad = ERR_INIT;

	/* The run is ending: what a node that was told to end comes to is nobody's business any more. */
	if (en->phase != PHASE_RUNNING)
		return;
	if (!e && check_output(en, b, r->output, &bad) < 0)
		e = &bad;
	if (e) {
		emit_failed(en, b, r, e);
		recovery_close(en, b, "failed", e);
		branch_failed(en, b, e, r->resumable || en->last_node);
		en->unsaved = true;
		return;
	}
	json_decref(TAKE_PTR(b->answers));
	/* Its branch, and with it everything borrowed from there, may be gone when the way on is found. */
	json_t *output = json_incref(r->output);
	record(en, b, r, duration_ms);
	recovery_close(en, b, "finished", NULL);
	if (en->phase == PHASE_RUNNING)
		go_on(en, b, output);
	json_decref(output);
	en->unsaved = true;
}

void engine_pump(struct engine *en)
{
	struct branch *b;

	if (en->pumping || en->phase != PHASE_RUNNING)
		return;
	en->pumping = true;
	for (unsigned i = 0; i < STEPS_IN_A_TURN && en->phase == PHASE_RUNNING && (b = next_ready(en)); i++)
		step(en, b);
	en->pumping = false;
	checkpoint_soon(en);
	if (en->phase != PHASE_RUNNING)
		return;
	if (!en->branches)
		engine_end(en, RUN_FINISHED, NULL, NULL);
	else if (human_pause(en))
		return;
	else if (next_ready(en))
		engine_wake(en);
}
