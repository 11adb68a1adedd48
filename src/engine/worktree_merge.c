/* Merging the run's branch: which commit the target is to become.
 *
 * All of it is made of objects alone (merge-tree, commit-tree): no checkout takes part, so a conflict leaves nothing
 * half done, and nothing has to be aborted. Only when the new commit exists is the target moved to it
 * (worktree_target.c). */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

static int check_places(struct worktree *w, const struct git_answer *a, struct err *e)
{
	(void)a;
	if (room_check_layout(w, w->target, e) < 0)
		return keep_because(w, e->hint, "%s", e->msg);
	return 0;
}

static void ask_target(struct worktree *w, struct git_command *c)
{
	auto_free char *ref = xasprintf("refs/heads/%s^{commit}", w->target);

	room_real(w, c);
	GIT_ARGS(c, "rev-parse", "--verify", "--quiet", ref);
}

static int hear_target(struct worktree *w, const struct git_answer *a, struct err *e)
{
	(void)e;
	if (read_oid(a, w->old, NULL, "") == 0)
		return 0;
	return keep_because(w, "make it again, and merge the run's branch into it", "the branch %s is gone", w->target);
}

static void ask_contained(struct worktree *w, struct git_command *c)
{
	room_clean(w, c, NULL, NULL);
	GIT_ARGS(c, "merge-base", "--is-ancestor", w->tip, w->old);
}

static int hear_contained(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code != 0)
		return a->code == 1 ? 0 : git_failed(a, e, "compare the branches");
	memcpy(w->result, w->old, sizeof w->result);
	w->merged = w->up_to_date = true;
	return CHAIN_END;
}

static void ask_ahead(struct worktree *w, struct git_command *c)
{
	room_clean(w, c, NULL, NULL);
	GIT_ARGS(c, "merge-base", "--is-ancestor", w->old, w->tip);
}

/* Only ff-only and rebase end here when nothing happened on the target meanwhile; merge and squash make a commit in any
 * case, which names the run. */
static int hear_ahead(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code != 0 && a->code != 1)
		return git_failed(a, e, "compare the branches");
	bool ahead = a->code == 0;
	if (!ahead && w->strategy == MERGE_FF_ONLY)
		return keep_because(w, "merge it yourself, or use --merge-strategy merge, squash or rebase",
				    "%s has commits that the run's branch does not have, and the strategy is ff-only",
				    w->target);
	if (ahead && (w->strategy == MERGE_FF_ONLY || w->strategy == MERGE_REBASE))
		memcpy(w->result, w->tip, sizeof w->result);
	return 0;
}

static const struct step common_steps[] = {
	{.answer = check_places},
	{.ask = ask_target, .answer = hear_target},
	{.ask = ask_contained, .answer = hear_contained},
	{.ask = ask_ahead, .answer = hear_ahead},
};

static void ask_merge(struct worktree *w, struct git_command *c)
{
	room_clean(w, c, NULL, NULL);
	GIT_ARGS(c, "merge-tree", "--write-tree", "--name-only", "--no-messages", w->old, w->tip);
}

int merge_conflict(struct worktree *w, const struct git_answer *a)
{
	const char *file = strchr(a->out, '\n');
	auto_free char *first = xstrndup(file ? file + 1 : "", file ? strcspn(file + 1, "\n") : 0);
	auto_free char *advice = xasprintf("in a checkout of %s: `git merge %s`, and resolve it", w->target, w->branch);

	return keep_because(w, advice, "the branch conflicts with %s in %.200s", w->target,
			    *first ? first : "some files");
}

static int hear_merge(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code == 1)
		return merge_conflict(w, a);
	return read_oid(a, w->oid, e, "merge the branch");
}

static void ask_commit(struct worktree *w, struct git_command *c)
{
	const char *run = w->p.run_name && *w->p.run_name ? w->p.run_name : w->p.run_id;

	room_clean(w, c, NULL, NULL);
	room_identity(w, c);
	GIT_ARGS(c, "commit-tree", w->oid, "-p", w->old);
	if (w->strategy == MERGE_MERGE) {
		GIT_ARGS(c, "-p", w->tip);
		(void)buf_printf(&c->input, "Merge branch '%s' into %s\n\nIterion-Run: %s\n", w->branch, w->target,
				 w->p.run_id);
	} else {
		(void)buf_printf(&c->input,
				 "iterion: run %s\n\nAll commits of the branch %s as one.\n\nIterion-Run: %s\n", run,
				 w->branch, w->p.run_id);
	}
}

static int hear_commit(struct worktree *w, const struct git_answer *a, struct err *e)
{
	return read_oid(a, w->result, e, "commit the merge");
}

static const struct step merge_steps[] = {
	{.ask = ask_merge, .answer = hear_merge},
	{.ask = ask_commit, .answer = hear_commit},
};

static void on_end(struct worktree *w, int r, const struct err *e)
{
	w->merge_done(w, r, e);
}

static void on_result(struct worktree *w, int r, const struct err *e)
{
	if (r < 0 || w->reason)
		on_end(w, r, e);
	else
		chain_run(w, worktree_target_steps, worktree_target_n, on_end);
}

static void on_common(struct worktree *w, int r, const struct err *e)
{
	if (r < 0 || w->reason || w->merged)
		on_end(w, r, e);
	else if (*w->result)
		on_result(w, 0, NULL);
	else if (w->strategy == MERGE_REBASE)
		chain_run(w, worktree_rebase_steps, worktree_rebase_n, on_result);
	else
		chain_run(w, merge_steps, ARRAY_LEN(merge_steps), on_result);
}

void merge_run(struct worktree *w, chain_done_cb done)
{
	w->merge_done = done;
	chain_run(w, common_steps, ARRAY_LEN(common_steps), on_common);
}
