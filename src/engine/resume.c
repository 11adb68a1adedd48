/* A run that goes on: from its folder back to the engine's state.
 *
 * The store's lock is taken first, so what is read cannot change. A run whose file says running is then one whose
 * process is gone. Statuses that can go on are taken; the file must be the one of before, or the user says that it may
 * differ. Then the checkpoint is put back: values, counters, groups, branches. A node that was under way is ready to
 * run again; a fan-out whose group is gone (all its branches had failed) begins anew. Nothing is written until all of
 * it was understood, so a refusal changes nothing. What the events tell beyond the checkpoint is replay.c's. */
#include "branch.h"
#include "budget.h"
#include "kinds.h"
#include "state.h"
#include "values.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <string.h>

static int refuse(struct err *e, int errnum, const char *id, const char *why, const char *hint)
{
	int r = err_set(e, ERR_INPUT, errnum, "resume run %s: %s", id, why);

	err_hint(e, "%s", hint);
	return r;
}

static int check_status(const struct engine *en, const char *status, struct err *e)
{
	static const enum run_status can[] = {RUN_QUEUED, RUN_RUNNING, RUN_PAUSED, RUN_FAILED_RESUMABLE, RUN_CANCELLED};

	for (size_t i = 0; i < ARRAY_LEN(can); i++)
		if (str_eq(status, run_status_name(can[i])))
			return 0;
	if (str_eq(status, run_status_name(RUN_FINISHED)))
		return refuse(e, EALREADY, en->run_id, "it has finished",
			      "start a new run with `iterion run`; `iterion inspect` shows what this one did");
	if (str_eq(status, run_status_name(RUN_FAILED)))
		return refuse(e, ENOTRECOVERABLE, en->run_id, "it failed before there was anything to go on from",
			      "mend what `iterion inspect` shows as its error, and start a new run with `iterion run`");
	return refuse(e, EPROTO, en->run_id, "its status is not one that this version knows",
		      "resume it with the version of iterion that began it");
}

static int check_file(const struct engine *en, const json_t *record, struct err *e)
{
	if (en->p.force || str_eq(json_get_str(record, "file_sha256"), en->sha256))
		return 0;
	int r = err_set(e, ERR_INPUT, ESTALE, "resume run %s: the file %s has changed since the run began", en->run_id,
			en->p.file_path);
	err_hint(e, "put the file back as it was, or go on with the changed one by --force");
	return r;
}

static void add_defaults(struct engine *en)
{
	const struct dsl_file *f = en->p.file;

	for (size_t i = 0; i < f->n_vars; i++)
		if (f->vars[i]->value.v && !json_object_get(en->vars, f->vars[i]->name.s))
			json_put(en->vars, f->vars[i]->name.s, json_incref(f->vars[i]->value.v));
}

static void load_vars(struct engine *en, const json_t *record, const json_t *cp)
{
	json_t *vars = json_object_get(cp, "vars");

	if (!json_is_object(vars))
		vars = json_object_get(record, "inputs");
	en->vars = json_is_object(vars) ? json_incref(vars) : json_object();
	add_defaults(en);
}

static int load_outputs(struct engine *en, const json_t *cp, struct err *e)
{
	const json_t *values = json_object_get(cp, "outputs"), *refs = json_object_get(cp, "output_refs");

	for (size_t i = 0; i < en->p.file->n_nodes; i++) {
		const char *name = en->p.file->nodes[i]->name.s;
		const char *ref = json_get_str(refs, name);
		json_t *v = json_incref(json_object_get(values, name));
		if (ref) {
			int r = store_run_load(en->run, ref, &v, e);
			if (r < 0)
				return r;
			large_add(en, v, xstrdup(ref));
			json_put_str(en->stored_refs, name, ref);
		} else if (v) {
			json_put(en->stored, name, json_incref(v));
		}
		if (v)
			json_put(en->outputs, name, v);
	}
	return 0;
}

/* What has been counted, from a file that may be damaged: within what can be counted on from. */
static double counted(const json_t *o, const char *key)
{
	double v = json_number_value(json_object_get(o, key));

	return MIN(MAX(v, 0.0), 0x1p53);
}

static int load_counters(struct engine *en, const json_t *cp, struct err *e)
{
	const json_t *turns = json_object_get(cp, "round_robin"), *used = json_object_get(cp, "used");

	for (size_t i = 0; i < en->n_loops; i++) {
		const json_t *l = json_object_get(json_object_get(cp, "loops"), en->loops[i].name);
		en->loops[i].count = (long long)counted(l, "iteration");
		int r = large_get(en, l, "previous_output", &en->loops[i].previous_output, e);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < en->p.file->n_nodes; i++)
		en->nodes[i].turn =
			(unsigned long long)json_integer_value(json_object_get(turns, en->p.file->nodes[i]->name.s));
	en->budgets[BUDGET_ITERATIONS].used = counted(used, "iterations");
	en->budgets[BUDGET_TOKENS].used = counted(used, "tokens");
	en->budgets[BUDGET_COST].used = counted(used, "cost_usd");
	en->earlier_ms = (uint64_t)counted(used, "duration_ms");
	en->n_groups = (unsigned)json_integer_value(json_object_get(cp, "groups_made"));
	return 0;
}

static int load_branch(struct engine *en, const json_t *o, struct err *e)
{
	const char *name = json_get_str(o, "node_id"), *id = json_get_str(o, "branch_id");
	const char *interaction = json_get_str(o, "interaction");
	const struct dsl_node *node = name ? dsl_find_node(en->p.file, name) : NULL;
	const json_t *number = json_object_get(o, "group");
	json_t *input = NULL;

	if (!node)
		return err_set(e, ERR_INPUT, ENOENT, "the node %s, where it stands, is not in the file",
			       name ? name : "(none)");
	int r = large_get(en, o, "input", &input, e);
	if (r < 0)
		return r;
	struct branch *b = branch_add(en, id ? xstrdup(id) : NULL, node, input ? input : json_object());
	b->group = number ? group_by_number(en, json_integer_value(number)) : NULL;
	b->interaction = interaction ? xstrdup(interaction) : NULL;
	b->state = json_is_true(json_object_get(o, "forked")) ? BRANCH_FORKED : BRANCH_READY;
	b->spent_tokens = (int64_t)counted(o, "spent_tokens");
	b->spent_usd = counted(o, "spent_usd");
	b->conversation = json_incref(json_object_get(o, "conversation"));
	if (json_is_object(json_object_get(o, "answers")))
		b->answers = json_incref(json_object_get(o, "answers"));
	if (number && !b->group)
		return err_set(e, ERR_INPUT, EPROTO, "the checkpoint's branches: a group is missing");
	return 0;
}

static bool is_parent(const struct engine *en, const struct branch *b)
{
	return group_of_parent(en, b) != NULL;
}

static int load_branches(struct engine *en, const json_t *cp, struct err *e)
{
	const json_t *groups = json_object_get(cp, "groups");
	size_t i;
	json_t *o;

	int r = groups_load(en, groups, e);
	json_array_foreach(json_object_get(cp, "branches"), i, o) if (r == 0) r = load_branch(en, o, e);
	if (r == 0)
		r = groups_tie(en, groups, e);
	for (struct branch *b = en->branches; r == 0 && b; b = b->next)
		if (b->state == BRANCH_FORKED && !is_parent(en, b))
			b->state = BRANCH_READY;
	return r;
}

static int load_checkpoint(struct engine *en, const json_t *cp, struct err *e)
{
	const char *last = json_get_str(cp, "node_id");
	int r = load_outputs(en, cp, e);

	if (r == 0)
		r = load_counters(en, cp, e);
	if (r == 0)
		r = artifact_load(en, json_object_get(store_run_record(en->run), "artifact_index"),
				  json_object_get(cp, "artifact_versions"), e);
	if (r == 0)
		r = load_branches(en, cp, e);
	if (r < 0)
		return r;
	const struct dsl_node *node = last ? dsl_find_node(en->p.file, last) : NULL;
	/* The node may be gone from the file; that some node finished is what matters. */
	en->last_node = node ? node->name.s : last ? en->workflow->entry.s : NULL;
	return 0;
}

/* Its last event was written, and then its process was killed. */
static int already_finished(struct engine *en, struct err *e)
{
	const struct store_run_state s = {.status = RUN_FINISHED, .ended = true, .sync = true};
	int r = store_run_save(en->run, &s, e);

	return r < 0 ? r : check_status(en, run_status_name(RUN_FINISHED), e);
}

int resume_load(struct engine *en, struct err *e)
{
	int r = store_run_reopen(en->p.store_dir, en->run_id, &en->run, e);
	if (r < 0)
		return r;
	const json_t *record = store_run_record(en->run);
	const char *status = json_get_str(record, "status");
	const json_t *cp = json_object_get(record, "checkpoint");
	r = check_status(en, status, e);
	if (r == 0)
		r = check_file(en, record, e);
	if (r < 0)
		return r;
	en->was = xstrdup(str_eq(status, run_status_name(RUN_RUNNING)) ? "interrupted" : status);
	en->p.run_name = json_get_str(record, "name");
	load_vars(en, record, cp);
	r = attachments_resume(en, e);
	if (r == 0 && json_is_object(cp))
		r = load_checkpoint(en, cp, e);
	if (r == 0)
		r = replay_read(en, (uint64_t)json_integer_value(json_object_get(cp, "seq")), e);
	if (r < 0) {
		err_hint(e, "`iterion inspect %s` shows what is there", en->run_id);
		return err_wrap(e, r, "resume run %s", en->run_id);
	}
	if (replay_has(en, "run_finished"))
		return already_finished(en, e);
	if (!json_is_object(cp))
		branch_begin(en);
	return human_take_answers(en, e);
}

void resume_begin(struct engine *en)
{
	const json_t *record = store_run_record(en->run);
	bool changed = !str_eq(json_get_str(record, "file_sha256"), en->sha256);
	json_t *d = json_object();

	if (str_eq(en->was, "interrupted")) {
		json_t *i = json_object();
		json_put_str(i, "last_node", en->last_node);
		engine_emit(en, "run_interrupted", NULL, NULL, i);
	}
	json_put_str(d, "status", en->was);
	json_put_str(d, "last_node", en->last_node);
	if (changed)
		json_put_bool(d, "file_changed", true);
	engine_emit(en, "run_resumed", NULL, NULL, d);
	replay_run(en);
	/* Whoever did not end begins anew, and what it uses then comes on top. */
	for (struct branch *b = en->branches; b; b = b->next)
		budget_begin(b);
	replay_recoveries(en);
	if (en->phase == PHASE_STARTING)
		checkpoint_write(en);
}
