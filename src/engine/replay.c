/* What the events of a run tell beyond its checkpoint.
 *
 * A node's end is written as an event before the checkpoint that holds it can be seen. A kill between the two must not
 * make the node run again, so resume takes such events as the truth: the node's branch gets the output that the event
 * holds, and goes its way through the same code as always. The events which that makes may be there already, in part;
 * those are recognised by type, branch and node, and not written twice.
 *
 * The events up to the checkpoint give nodes their histories back. */
#include "branch.h"
#include "budget.h"
#include "kinds.h"
#include "recovery.h"
#include "state.h"
#include "values.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <store/read.h>

#include <errno.h>
#include <stdlib.h>

static const char finished[] = "node_finished";

/* A node ended before the checkpoint: what it put out last time becomes history. */
static int note_history(struct engine *en, json_t **latest, const json_t *ev, struct err *e)
{
	const char *name = json_get_str(ev, "node_id");
	const struct dsl_node *n = name ? dsl_find_node(en->p.file, name) : NULL;
	json_t *v = NULL;

	if (!n || !en->nodes[n->index].history)
		return 0;
	int r = large_get(en, json_object_get(ev, "data"), "output", &v, e);
	if (r < 0)
		return r;
	if (latest[n->index])
		(void)json_array_append_new(en->nodes[n->index].history, latest[n->index]);
	latest[n->index] = v;
	return 0;
}

static char *begun_key(const char *node, const char *branch)
{
	return xasprintf("%s %s", node ? node : "", branch ? branch : "");
}

/* Keeps who began and has not finished. One that asked a person waits, and does not begin again. */
static void note_begun(struct engine *en, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	const char *type = json_get_str(ev, "type"), *error = json_get_str(data, "error");
	/* That of a tool which an agent called names the tool, and the agent goes on. */
	bool of_tool = str_eq(type, "tool_error") && !json_object_get(data, "tool");
	auto_free char *key = begun_key(json_get_str(ev, "node_id"), json_get_str(ev, "branch_id"));

	if (str_eq(type, "node_started"))
		json_put(en->begun, key, json_null());
	else if ((of_tool || str_eq(type, "node_error")) && error)
		json_put_str(en->begun, key, error);
	else if (str_eq(type, finished) || str_eq(type, "human_input_requested"))
		(void)json_object_del(en->begun, key);
}

void replay_recoveries(struct engine *en)
{
	for (const struct branch *b = en->branches; b && en->phase == PHASE_STARTING; b = b->next) {
		auto_free char *key = begun_key(b->node->name.s, b->id);
		const json_t *why = json_object_get(en->begun, key);
		if (!why || b->state != BRANCH_READY)
			continue;
		json_t *d = json_object();
		json_put_str(d, "reason", json_is_null(why) ? "interrupted" : "failed");
		json_put_str(d, "error", json_string_value(why));
		engine_emit(en, "node_recovery", b->id, b->node->name.s, d);
		recovery_begin(en, b, json_is_null(why) ? "interrupted" : "failed", json_string_value(why));
	}
}

static int read_all(struct engine *en, struct event_reader *reader, uint64_t seq, json_t **latest, struct err *e)
{
	json_t *next = NULL;
	int r;

	while ((r = event_reader_next(reader, &next, NULL, e)) > 0) {
		auto_json ev = next;
		note_begun(en, ev);
		if (json_integer_value(json_object_get(ev, "seq")) >= (json_int_t)seq)
			(void)json_array_append(en->tail, ev);
		else if (str_eq(json_get_str(ev, "type"), finished))
			r = note_history(en, latest, ev, e);
		if (r < 0)
			return r;
	}
	return r;
}

int replay_read(struct engine *en, uint64_t checkpoint_seq, struct err *e)
{
	auto_free json_t **latest = xcalloc(en->p.file->n_nodes + 1, sizeof *latest);
	struct event_reader *reader = NULL;
	int r = event_reader_open(en->p.store_dir, en->run_id, &reader, e);

	if (r < 0)
		return r;
	en->tail = json_array();
	en->begun = json_object();
	r = read_all(en, reader, checkpoint_seq, latest, e);
	event_reader_free(reader);
	for (size_t i = 0; i < en->p.file->n_nodes; i++)
		json_decref(latest[i]);
	return r;
}

bool replay_has(const struct engine *en, const char *type)
{
	size_t i;
	json_t *ev;

	json_array_foreach(en->tail, i, ev) if (str_eq(json_get_str(ev, "type"), type)) return true;
	return false;
}

static bool is_event(const json_t *ev, const char *type, const char *branch, const char *node)
{
	return str_eq(json_get_str(ev, "type"), type) && str_eq(json_get_str(ev, "branch_id"), branch) &&
	       str_eq(json_get_str(ev, "node_id"), node);
}

bool replay_knows(struct engine *en, const char *type, const char *branch, const char *node)
{
	size_t i;
	json_t *ev;

	json_array_foreach(en->tail, i, ev)
	{
		if (!is_event(ev, type, branch, node))
			continue;
		(void)json_array_set_new(en->tail, i, json_null());
		return true;
	}
	return false;
}

static struct branch *branch_of(const struct engine *en, const json_t *ev)
{
	const char *id = json_get_str(ev, "branch_id"), *node = json_get_str(ev, "node_id");

	for (struct branch *b = en->branches; b; b = b->next)
		if (str_eq(b->id, id) && str_eq(b->node->name.s, node) && b->state == BRANCH_READY)
			return b;
	return NULL;
}

static void finish(struct engine *en, struct branch *b, json_t *data)
{
	const json_t *tokens = json_object_get(data, "_tokens"), *cost = json_object_get(data, "_cost_usd");
	const json_t *ms = json_object_get(data, "duration_ms");
	json_t *output = NULL;
	struct err e = ERR_INIT;

	if (large_get(en, data, "output", &output, &e) < 0 || !json_is_object(output)) {
		json_decref(output);
		return; /* it runs again */
	}
	const struct node_result r = {
		.output = output,
		.details = data,
		.tokens = tokens ? json_integer_value(tokens) : -1,
		.cost_usd = cost ? json_number_value(cost) : -1,
	};
	b->state = BRANCH_ACTIVE;
	budget_settle(en, b, r.tokens, r.cost_usd);
	if (b->node->kind != DSL_ROUTER)
		en->budgets[BUDGET_ITERATIONS].used++;
	step_finished(en, b, &r, (uint64_t)json_integer_value(ms), NULL);
	json_decref(output);
}

/* What one event says about a branch that stands at its node. */
static void apply(struct engine *en, const json_t *ev)
{
	const char *type = json_get_str(ev, "type");
	json_t *data = json_object_get(ev, "data");
	struct branch *b = branch_of(en, ev);

	if (!b || !type)
		return;
	if (str_eq(type, finished)) {
		finish(en, b, data);
	} else if (str_eq(type, "human_input_requested")) {
		const char *id = json_get_str(data, "interaction_id");
		free(b->interaction);
		b->interaction = id ? xstrdup(id) : NULL;
	} else if (b->interaction && str_eq(type, "human_answers_recorded")) {
		json_decref(b->answers);
		b->answers = json_incref(json_object_get(data, "answers"));
		if (b->answers)
			human_finish(en, b);
	}
}

void replay_run(struct engine *en)
{
	if (en->phase != PHASE_STARTING)
		return;
	en->phase = PHASE_RUNNING;
	en->replaying = true;
	for (size_t i = 0; i < json_array_size(en->tail) && en->phase == PHASE_RUNNING; i++) {
		auto_json ev = json_incref(json_array_get(en->tail, i));
		apply(en, ev);
	}
	en->replaying = false;
	if (en->phase == PHASE_RUNNING)
		en->phase = PHASE_STARTING;
	json_decref(TAKE_PTR(en->tail));
}
