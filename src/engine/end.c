/* How a run ends, whatever ended it.
 *
 * Whoever knows the outcome calls engine_end; the first one decides. From there it goes in steps, each of which waits
 * for the one before: the nodes under way are told to end and are waited for, the sandboxes are stopped, the one final
 * event is written, run.json gets its final state, the handles are closed, the caller is told. The steps are taken from
 * the loop, never from within the call that found the outcome, so that nobody's events come after the final one. */
#include "branch.h"
#include "worktree_run.h"
#include "kinds.h"
#include "place.h"
#include "recovery.h"
#include <store/run_files.h>
#include "state.h"

#include <backend/run.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <signal.h>

void engine_end(struct engine *en, enum run_status status, const struct err *e, const char *node)
{
	/* The caller's name may be gone before it is told. */
	const struct dsl_node *n = node ? dsl_find_node(en->p.file, node) : NULL;

	if (en->phase >= PHASE_ENDING)
		return;
	en->phase = PHASE_ENDING;
	en->outcome = (struct outcome){.status = status, .err = e ? *e : ERR_INIT, .node = n ? n->name.s : NULL};
	activity_cancel_all(en, NODE_CANCEL_TERM);
	if (en->attach)
		store_attach_stop(en->attach);
	engine_wake(en);
}

static void emit_finished(struct engine *en)
{
	json_t *d = json_object();

	json_put_int(d, "duration_ms", (long long)(clock_ms() - en->started_ms));
	json_put_str(d, "last_node", en->last_node);
	engine_emit(en, "run_finished", NULL, NULL, d);
}

static void emit_stopped(struct engine *en)
{
	const struct outcome *o = &en->outcome;
	bool cancelled = o->status == RUN_CANCELLED;
	json_t *d = json_object();

	json_put_str(d, "error", o->err.msg);
	json_put_str(d, "hint", o->err.hint[0] ? o->err.hint : NULL);
	json_put_str(d, "code", err_kind_name(o->err.kind));
	json_put_bool(d, "resumable", o->status != RUN_FAILED);
	if (en->signal)
		json_put_int(d, "signal", en->signal);
	json_put_int(d, "duration_ms", (long long)(clock_ms() - en->started_ms));
	engine_emit(en, cancelled ? "run_cancelled" : "run_failed", NULL, o->node, d);
	store_run_log(en->run, cancelled ? "info" : "error", o->err.msg);
}

static void emit_paused(struct engine *en)
{
	json_t *d = json_object();

	json_put(d, "waiting", human_waiting(en));
	json_put_int(d, "duration_ms", (long long)(clock_ms() - en->started_ms));
	engine_emit(en, "run_paused", NULL, NULL, d);
}

static void finish(struct engine *en)
{
	const struct outcome *o = &en->outcome;
	bool paused = o->status == RUN_PAUSED;
	bool good = o->status == RUN_FINISHED || paused;
	struct err e = ERR_INIT;

	recovery_stop_all(en);
	if (paused)
		emit_paused(en);
	else if (good)
		emit_finished(en);
	else
		emit_stopped(en);
	/* Of a run whose first node was stopped, what it used must not be forgotten. */
	bool goes_on = en->last_node || paused || (en->branches && !good && o->status != RUN_FAILED);
	auto_json cp = goes_on ? checkpoint_build(en) : NULL;
	const struct store_run_state s = {
		.status = o->status,
		.checkpoint = cp,
		.artifact_index = en->artifact_index,
		.failure = good ? NULL : &o->err,
		.ended = !paused,
		.sync = true,
	};
	if (store_run_save(en->run, &s, &e) < 0 && good) {
		err_hint(&e, "free some space on the file system of the store");
		en->outcome = (struct outcome){.status = RUN_FAILED, .err = e};
	}
	engine_close(en);
}

/* Tool servers have ended: what they ran in may go. */
static void on_shared_stopped(void *arg)
{
	struct engine *en = arg;

	en->shared = NULL;
	places_stop(en);
	engine_check_end(en);
}

void engine_check_end(struct engine *en)
{
	if (en->phase == PHASE_ENDING && en->n_activities == 0) {
		en->phase = PHASE_STOPPING;
		if (en->shared)
			backend_run_stop(en->shared, on_shared_stopped, en);
		else
			on_shared_stopped(en);
		return;
	}
	if (en->phase == PHASE_STOPPING && !en->shared && places_stopped(en) && !en->syncing && !en->attach &&
	    run_tree_settled(en)) {
		en->phase = PHASE_ENDED;
		finish(en);
	}
}

void engine_interrupt(struct engine *en, int sig)
{
	struct err e = ERR_INIT;

	if (en->phase == PHASE_NEW || en->phase == PHASE_ENDED)
		return;
	run_tree_interrupt(en);
	if (en->phase >= PHASE_ENDING) {
		activity_cancel_all(en, NODE_CANCEL_KILL);
		return;
	}
	en->signal = sig;
	(void)err_set(&e, sig == SIGINT ? ERR_CANCELLED : ERR_TERMINATED, EINTR, "the run was interrupted (%s)",
		      sig == SIGINT ? "SIGINT" : "SIGTERM");
	err_hint(&e, "`iterion resume --run-id %s` goes on from the last checkpoint", en->run_id);
	engine_end(en, RUN_CANCELLED, &e, NULL);
}
