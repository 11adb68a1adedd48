/* What is kept of a run so that it can go on: after every node, in run.json.
 *
 * Large values stand in files of their own (large.c), so the checkpoint is small, and writing it after every node stays
 * cheap in a long run. "seq" says which events it knows of: what resume finds behind that happened after it.
 *
 * It is written before the next node starts, unless the latest one is only a moment old: nodes that take less than that
 * share one, since one for each would cost a third of such a node (a file made, and a thread woken for the disk). A
 * kill loses nothing by that: the node's end is an event already, and what a killed run has as events behind its
 * checkpoint is taken as done (replay.c). Against a loss of power the file is synced at once, beside the nodes that
 * start next.
 *
 * The only thing that is done outside the loop's thread is what waits for the disk (store_sync_work). */
#include "branch.h"
#include "kinds.h"
#include "state.h"
#include "values.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PREVIEW = 2048 };

/* The shortest and the longest time from one checkpoint to the next while nodes are quicker than that, and which part
 * of a run's time may go into writing them: they grow with the number of nodes that have an output. */
enum { SAVE_AFTER_MS = 20, SAVE_BY_MS = 1000, SAVE_PART = 20 };

json_t *checkpoint_show(struct engine *en, const char *node, json_t *value)
{
	json_t *shown = json_object();

	large_keep(en, node, value);
	large_put(en, shown, "output", value);
	if (!large_ref(en, value))
		return shown;
	auto_free char *text = json_compact(value);
	json_put_int(shown, "output_bytes", (long long)strlen(text));
	json_put(shown, "preview", json_text(text, MIN(strlen(text), (size_t)PREVIEW)));
	return shown;
}

static long long position(const struct engine *en, const struct branch *of)
{
	long long i = 0;

	for (const struct branch *b = en->branches; b != of; b = b->next)
		i++;
	return i;
}

static json_t *branches(const struct engine *en, long long *ret_active)
{
	json_t *list = json_array();

	for (const struct branch *b = en->branches; b; b = b->next) {
		json_t *o = json_object();
		json_put_str(o, "branch_id", b->id);
		json_put_str(o, "node_id", b->node->name.s);
		if (b->group)
			json_put_int(o, "group", group_number(b->group));
		json_put_bool(o, "forked", b->state == BRANCH_FORKED);
		json_put_str(o, "interaction", b->interaction);
		if (b->answers)
			json_put(o, "answers", json_incref(b->answers));
		if (b->conversation)
			json_put(o, "conversation", json_incref(b->conversation));
		if (b->spent_tokens)
			json_put_int(o, "spent_tokens", b->spent_tokens);
		if (b->spent_usd > 0)
			json_put(o, "spent_usd", json_real(b->spent_usd));
		large_put(en, o, "input", b->input);
		(void)json_array_append_new(list, o);
		*ret_active += (b->state == BRANCH_ACTIVE || b->state == BRANCH_WAITING) && b->node->kind != DSL_ROUTER;
	}
	return list;
}

static json_t *loops(const struct engine *en)
{
	json_t *all = json_object();

	for (size_t i = 0; i < en->n_loops; i++) {
		json_t *l = json_object();
		json_put_int(l, "iteration", en->loops[i].count);
		json_put_int(l, "max", en->loops[i].max);
		large_put(en, l, "previous_output", en->loops[i].previous_output);
		json_put(all, en->loops[i].name, l);
	}
	return all;
}

/* What a node that is under way has counted already will be counted again when it is repeated. */
static json_t *used(const struct engine *en, long long active)
{
	json_t *o = json_object();
	const uint64_t duration = clock_ms() - en->started_ms + en->earlier_ms;

	json_put_int(o, "iterations", (long long)en->budgets[BUDGET_ITERATIONS].used - active);
	json_put_int(o, "tokens", (long long)en->budgets[BUDGET_TOKENS].used);
	json_put(o, "cost_usd", json_real(en->budgets[BUDGET_COST].used));
	json_put_int(o, "duration_ms", (long long)duration);
	return o;
}

json_t *checkpoint_build(const struct engine *en)
{
	json_t *o = json_object(), *turns = json_object(), *pending = json_null();
	long long active = 0;

	for (size_t i = 0; i < en->p.file->n_nodes; i++)
		if (en->nodes[i].turn)
			json_put_int(turns, en->p.file->nodes[i]->name.s, (long long)en->nodes[i].turn);
	for (const struct branch *b = en->branches; b && json_is_null(pending); b = b->next)
		if (b->interaction)
			pending = json_string(b->interaction);
	json_put_str(o, "node_id", en->last_node);
	json_put_int(o, "seq", (long long)store_run_seq(en->run));
	json_put(o, "branches", branches(en, &active));
	json_put(o, "groups", groups_save(en, position));
	json_put_int(o, "groups_made", en->n_groups);
	json_put(o, "outputs", json_incref(en->stored));
	json_put(o, "output_refs", json_incref(en->stored_refs));
	json_put(o, "loops", loops(en));
	json_put(o, "round_robin", turns);
	json_put(o, "artifact_versions", artifact_versions(en));
	json_put(o, "vars", json_incref(en->vars));
	json_put(o, "used", used(en, active));
	json_put(o, "pending_interaction", pending);
	return o;
}

static void not_written(struct engine *en, struct err *e)
{
	err_hint(e, "free some space on the file system of the store");
	engine_end(en, RUN_FAILED_RESUMABLE, e, NULL);
}

void checkpoint_write(struct engine *en)
{
	uint64_t begin = clock_ns();
	auto_json cp = checkpoint_build(en);
	const struct store_run_state s = {.status = RUN_RUNNING,
					  .checkpoint = cp,
					  .artifact_index = en->artifact_index,
					  .file_sha256 = en->sha256};
	struct err e = ERR_INIT;

	en->unsaved = en->save_now = false;
	if (store_run_save(en->run, &s, &e) < 0)
		not_written(en, &e);
	en->saved_ms = clock_ms();
	uint64_t pause = (clock_ns() - begin) / 1000000 * SAVE_PART;
	en->save_after_ms = MIN(MAX(pause, (uint64_t)SAVE_AFTER_MS), (uint64_t)SAVE_BY_MS);
}

static void sync_work(uv_work_t *w)
{
	struct engine *en = w->data;

	en->sync_errnum = store_sync_work(&en->sync);
}

static void sync_done(uv_work_t *w, int status);

static void sync_record(struct engine *en)
{
	if (en->syncing || !store_run_sync_begin(en->run, &en->sync))
		return;
	en->syncing = true;
	en->sync_work.data = en;
	(void)uv_queue_work(en->p.loop, &en->sync_work, sync_work, sync_done);
}

static void sync_done(uv_work_t *w, int status)
{
	struct engine *en = w->data;
	struct err e = ERR_INIT;

	(void)status;
	en->syncing = false;
	if (store_run_sync_end(en->run, en->sync_errnum, &e) < 0)
		not_written(en, &e);
	else if (en->phase == PHASE_RUNNING)
		sync_record(en);
	engine_check_end(en);
}

static void on_soon(uv_timer_t *t)
{
	struct engine *en = t->data;

	if (en->phase != PHASE_RUNNING)
		return;
	if (en->unsaved)
		checkpoint_write(en);
	if (en->phase == PHASE_RUNNING)
		sync_record(en);
}

void checkpoint_soon(struct engine *en)
{
	if (en->phase != PHASE_RUNNING || !en->branches)
		return;
	uint64_t age = clock_ms() - en->saved_ms;
	if (en->save_now || (en->unsaved && age >= en->save_after_ms))
		checkpoint_write(en);
	if (en->phase != PHASE_RUNNING)
		return;
	/* What was written is synced when the nodes that come next have been started: they need not wait for it. */
	(void)uv_timer_start(&en->save_soon, on_soon, en->unsaved ? en->save_after_ms - age : 0, 0);
}
