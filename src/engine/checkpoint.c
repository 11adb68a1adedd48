/* What is kept of a run so that it can go on: after every node, in run.json.
 *
 * An output that is large is written once, to a file of its own; events and checkpoints refer to it. The checkpoint
 * itself is then small, and writing it after every node stays cheap in a long run.
 *
 * The only thing that is done outside the loop's thread is the fsync: the worker gets a descriptor, and gives back an
 * errno. */
#include "branch.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { INLINE_MAX = 64 * 1024, PREVIEW = 2048 };

/* Writes text to a file of the run; its reference, or NULL when that failed (the run is ending then). */
static char *write_out(struct engine *en, const char *node, const char *text, size_t len)
{
	auto_free char *name = xasprintf("%s.json", node);
	struct err e = ERR_INIT;
	auto_free char *ref = NULL;
	auto_fd fd = store_run_output(en->run, name, &ref, &e);
	int r = fd < 0 ? fd : fd_write_all(fd, text, len);

	if (r == 0)
		return TAKE_PTR(ref);
	if (fd >= 0)
		(void)err_sys(&e, -r, "write %s/%s", store_run_dir(en->run), ref);
	err_hint(&e, "free some space on the file system of the store");
	engine_end(en, RUN_FAILED_RESUMABLE, &e, node);
	return NULL;
}

json_t *checkpoint_show(struct engine *en, const char *node, json_t *value)
{
	json_t *shown = json_object();

	if (json_dumpb(value, NULL, 0, JSON_REALS | JSON_COMPACT) <= INLINE_MAX) {
		json_put(shown, "output", json_incref(value));
		return shown;
	}
	auto_free char *text = json_compact(value);
	size_t len = strlen(text);
	auto_free char *ref = write_out(en, node, text, len);
	json_put_str(shown, "output_ref", ref);
	json_put_int(shown, "output_bytes", (long long)len);
	json_put(shown, "preview", json_text(text, PREVIEW));
	return shown;
}

static json_t *branches(const struct engine *en)
{
	json_t *list = json_array();

	for (const struct branch *b = en->branches; b; b = b->next) {
		json_t *o = json_object();
		json_put_str(o, "branch_id", b->id);
		json_put_str(o, "node_id", b->node->name.s);
		json_put_str(o, "router", b->group ? group_router(b->group)->name.s : NULL);
		json_put_bool(o, "forked", b->state == BRANCH_FORKED);
		json_put(o, "input", json_incref(b->input));
		(void)json_array_append_new(list, o);
	}
	return list;
}

json_t *checkpoint_build(const struct engine *en)
{
	json_t *o = json_object(), *loops = json_object(), *turns = json_object(), *used = json_object();

	for (size_t i = 0; i < en->n_loops; i++) {
		json_t *l = json_object();
		json_put_int(l, "iteration", en->loops[i].count);
		json_put_int(l, "max", en->loops[i].max);
		json_put(loops, en->loops[i].name, l);
	}
	for (size_t i = 0; i < en->p.file->n_nodes; i++)
		if (en->nodes[i].turn)
			json_put_int(turns, en->p.file->nodes[i]->name.s, (long long)en->nodes[i].turn);
	json_put_int(used, "iterations", (long long)en->budgets[BUDGET_ITERATIONS].used);
	json_put_int(used, "tokens", (long long)en->budgets[BUDGET_TOKENS].used);
	json_put(used, "cost_usd", json_real(en->budgets[BUDGET_COST].used));
	json_put_str(o, "node_id", en->last_node);
	json_put(o, "branches", branches(en));
	json_put(o, "joins", groups_waiting(en));
	json_put(o, "outputs", json_incref(en->stored));
	json_put(o, "loops", loops);
	json_put(o, "round_robin", turns);
	json_put(o, "artifact_versions", json_object());
	json_put(o, "vars", json_incref(en->vars));
	json_put(o, "used", used);
	json_put(o, "pending_interaction", json_null());
	return o;
}

static void not_written(struct engine *en, struct err *e)
{
	err_hint(e, "free some space on the file system of the store");
	engine_end(en, RUN_FAILED_RESUMABLE, e, NULL);
}

void checkpoint_write(struct engine *en)
{
	auto_json cp = checkpoint_build(en);
	const struct store_run_state s = {.status = RUN_RUNNING, .checkpoint = cp};
	struct err e = ERR_INIT;

	if (store_run_save(en->run, &s, &e) < 0)
		not_written(en, &e);
}

static void sync_work(uv_work_t *w)
{
	struct engine *en = w->data;

	en->sync_errnum = fdatasync(en->sync_fd) < 0 ? errno : 0;
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
		checkpoint_sync(en);
	engine_check_end(en);
}

void checkpoint_sync(struct engine *en)
{
	if (en->syncing)
		return;
	en->sync_fd = store_run_sync_begin(en->run);
	if (en->sync_fd < 0)
		return;
	en->syncing = true;
	en->sync_work.data = en;
	(void)uv_queue_work(en->p.loop, &en->sync_work, sync_work, sync_done);
}
