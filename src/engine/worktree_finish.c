/* What becomes of the tree when the run has ended.
 *
 * A run that failed or pauses: nothing is touched. A run that finished: what is left uncommitted is committed, the
 * branch is merged when that was asked for, and the tree is removed; the branch stays. Whatever stands in the way of
 * that ends with the tree kept as it is and an event that says why and what to do; the run stays a success, because its
 * work is done and safe. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/log.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

static void put_nested(const struct worktree *w, json_t *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < w->nested.n && i < 20; i++)
		(void)json_array_append_new(list, json_text(w->nested.v[i], strlen(w->nested.v[i])));
	json_put(d, "left_out", list);
}

static void emit_kept(const struct worktree *w, bool tree, const char *reason, const char *hint)
{
	json_t *d = json_object();

	if (tree)
		json_put_str(d, "path", w->tree);
	json_put_str(d, "branch", w->branch);
	json_put(d, "reason", json_text(reason, strlen(reason)));
	if (hint && *hint)
		json_put(d, "hint", json_text(hint, strlen(hint)));
	json_put_str(d, "commit", *w->tip ? w->tip : NULL);
	json_put_str(d, "merge_into", w->target);
	if (w->nested.n)
		put_nested(w, d);
	worktree_emit(w, "worktree_kept", d);
}

static void emit_merged(const struct worktree *w)
{
	json_t *d = json_object();

	json_put_str(d, "branch", w->branch);
	json_put_str(d, "into", w->target);
	json_put_str(d, "strategy", worktree_strategies[w->strategy]);
	json_put_str(d, "commit", w->result);
	json_put_bool(d, "up_to_date", w->up_to_date);
	worktree_emit(w, "worktree_merged", d);
}

static void answer(struct worktree *w)
{
	w->failure = ERR_INIT;
	w->done(w->done_arg, NULL);
}

/* The tree stays, for w->reason or an error. */
static void keep(struct worktree *w, const struct err *e)
{
	const char *reason = w->reason ? w->reason : e ? e->msg : "it could not be removed";
	const char *hint = w->reason ? w->advice : e ? e->hint : "";

	target_unlock(w);
	emit_kept(w, true, reason, hint);
	log_warn("the worktree %s (branch %s) is kept: %s%s%s", w->tree, w->branch, reason, *hint ? "; " : "", hint);
	answer(w);
}

static void removed(struct worktree *w, int r, const struct err *e)
{
	(void)r;
	(void)e;
	if (w->failure.kind != ERR_NONE) {
		struct err failure = w->failure;
		keep(w, &failure);
		return;
	}
	if (!w->merged)
		emit_kept(w, false, "the run finished; its work is on the branch", NULL);
	answer(w);
}

static const struct step remove_steps[] = {{.work = tree_take_away}};

/* Repositories inside the tree are on no branch: removing the tree would lose them. */
static void end_well(struct worktree *w)
{
	if (w->nested.n) {
		(void)keep_because(w, "move it out of the tree, or take its files into the branch",
				   "there is a repository of its own in the tree: %.200s", w->nested.v[0]);
		keep(w, NULL);
		return;
	}
	chain_run(w, remove_steps, ARRAY_LEN(remove_steps), removed);
}

static void on_merged(struct worktree *w, int r, const struct err *e)
{
	target_unlock(w);
	if (w->merged)
		emit_merged(w);
	if (r < 0 || w->reason)
		keep(w, e);
	else
		end_well(w);
}

static void on_committed(struct worktree *w, int r, const struct err *e)
{
	if (r < 0 || w->reason)
		keep(w, e);
	else if (w->target)
		merge_run(w, on_merged);
	else
		end_well(w);
}

static void on_looked(struct worktree *w, int r, const struct err *e)
{
	if (r < 0 || w->reason)
		keep(w, e);
	else
		chain_run(w, worktree_commit_steps, worktree_commit_n, on_committed);
}

static void take_marks(struct worktree *w)
{
	w->marks_now = marks_take(w);
}

static const struct step marks_steps[] = {{.work = take_marks}};

static void on_marks(struct worktree *w, int r, const struct err *e)
{
	(void)r;
	(void)e;
	marks_compare(w);
	if (w->end == WORKTREE_FINISHED) {
		chain_run(w, worktree_look_steps, worktree_look_n, on_looked);
		return;
	}
	emit_kept(w, true, w->end == WORKTREE_PAUSED ? "the run is paused" : "the run did not finish", NULL);
	answer(w);
}

void worktree_finish(struct worktree *w, enum worktree_end how, uv_loop_t *loop, worktree_done_cb done, void *arg)
{
	w->loop = loop;
	w->end = how;
	w->done = done;
	w->done_arg = arg;
	chain_run(w, marks_steps, ARRAY_LEN(marks_steps), on_marks);
}
