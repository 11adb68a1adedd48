/* The run's worktree in the life of a run.
 *
 * It is planned with everything else that is checked before the run exists, made between run_started and the sandbox,
 * which is to show it, and settled after the sandbox has stopped, when nobody can write in it any more, and before the
 * run's last event. The workspace that the user named stays in the run's record; nodes work in the tree. */
#include "worktree_run.h"
#include "engine_priv.h"

#include <base/mem.h>
#include <driver/driver.h>
#include <engine/worktree.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tree_state { TREE_PLANNED, TREE_MAKING, TREE_READY, TREE_ENDING, TREE_SETTLED };

struct run_tree {
	struct worktree *w;
	enum tree_state state;
	bool reopened;
};

static void on_event(void *arg, const char *type, json_t *data)
{
	engine_emit(arg, type, NULL, NULL, data);
}

static int plan(struct engine *en, const struct worktree_params *p, struct run_tree *t, struct err *e)
{
	if (!en->p.resume)
		return worktree_plan(p, &t->w, e);
	int r = worktree_reopen(p, &t->w, e);
	t->reopened = r == 0;
	/* It was stopped before the tree was made. */
	return r == -ENOENT && !en->last_node ? worktree_plan(p, &t->w, e) : r;
}

int run_tree_plan(struct engine *en, struct err *e)
{
	bool wanted = en->workflow->worktree.v == DSL_WORKTREE_AUTO;
	const struct worktree_params p = {
		.workspace = en->p.workspace,
		.store_dir = en->p.store_dir,
		.run_id = en->run_id,
		.run_name = en->p.run_name,
		.host_env = en->p.host_env,
		.branch = en->p.branch_name,
		.auto_merge = en->p.auto_merge,
		.merge_into = en->p.merge_into,
		.merge_strategy = en->p.merge_strategy,
		.on_event = on_event,
		.arg = en,
	};
	int r = worktree_check_flags(&p, wanted, e);

	if (r < 0 || !wanted)
		return r;
	struct run_tree *t = xcalloc(1, sizeof *t);
	r = plan(en, &p, t, e);
	if (r < 0) {
		free(t);
		return r;
	}
	en->tree = t;
	return 0;
}

/* Only a real sandbox hides the git folder; the noop driver has no mounts and needs none, and where nothing of this
 * machine can be mounted it is not there. */
void run_tree_fill(const struct engine *en, const char *driver, struct sandbox_spec *spec)
{
	const struct driver *d;
	const char *reason;

	if (en->tree && driver_choose(driver, false, &d, &reason, NULL) == 0 && driver_caps(d)->mounts &&
	    !driver_caps(d)->remote)
		worktree_fill_spec(en->tree->w, spec);
}

static void use(struct engine *en)
{
	struct run_tree *t = en->tree;

	t->state = TREE_READY;
	en->p.workspace = worktree_workspace(t->w);
	engine_go(en);
}

static void on_made(void *arg, const struct err *e)
{
	struct engine *en = arg;

	if (e) {
		en->tree->state = TREE_SETTLED;
		engine_end(en, RUN_FAILED, e, NULL);
		engine_check_end(en);
	} else if (en->phase == PHASE_STARTING) {
		use(en);
	} else {
		en->tree->state = TREE_READY;
		engine_check_end(en);
	}
}

void run_tree_begin(struct engine *en)
{
	struct run_tree *t = en->tree;

	if (t->reopened) {
		use(en);
		return;
	}
	t->state = TREE_MAKING;
	worktree_create(t->w, en->p.loop, on_made, en);
}

static void on_settled(void *arg, const struct err *e)
{
	struct engine *en = arg;

	(void)e;
	en->tree->state = TREE_SETTLED;
	engine_check_end(en);
}

/* The run's error says where its work stands. */
static void name_tree(struct engine *en)
{
	struct err *e = &en->outcome.err;
	size_t len = strlen(e->hint);

	(void)snprintf(e->hint + len, sizeof e->hint - len, "%sits worktree stays at %s (branch %s)", len ? "; " : "",
		       worktree_path(en->tree->w), worktree_branch(en->tree->w));
}

bool run_tree_settled(struct engine *en)
{
	struct run_tree *t = en->tree;

	if (!t || t->state == TREE_SETTLED || t->state == TREE_PLANNED)
		return true;
	if (t->state != TREE_READY)
		return false;
	t->state = TREE_ENDING;
	if (en->outcome.status != RUN_FINISHED && en->outcome.status != RUN_PAUSED)
		name_tree(en);
	worktree_finish(t->w,
			en->outcome.status == RUN_FINISHED ? WORKTREE_FINISHED
			: en->outcome.status == RUN_PAUSED ? WORKTREE_PAUSED
							   : WORKTREE_FAILED,
			en->p.loop, on_settled, en);
	return false;
}

void run_tree_interrupt(struct engine *en)
{
	if (en->tree && (en->tree->state == TREE_MAKING || en->tree->state == TREE_ENDING))
		worktree_interrupt(en->tree->w);
}

void run_tree_free(struct engine *en)
{
	if (!en->tree)
		return;
	worktree_free(en->tree->w);
	free(en->tree);
}
