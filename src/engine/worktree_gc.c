/* The trees of runs that are over.
 *
 * What a tree holds beyond its branch would be gone with it, so git is asked first, in the way that is safe after a
 * hostile run (worktree_room.c), and a tree with such work is kept unless that is asked for. A tree whose run left no
 * record could be anybody's: it is only removed on demand, and its entry in a repository stays for `git worktree
 * prune`. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <store/read.h>
#include <store/run.h>
#include <string.h>
#include <unistd.h>

struct sweep {
	const char *store_dir;
	const char *const *host_env;
	bool force;
	void (*each)(void *arg, const struct worktree_left *left);
	void *arg;
	size_t removed;
};

static void tell(struct sweep *s, const struct worktree *w, bool removed, const char *reason)
{
	const struct worktree_left left = {
		.run_id = w->p.run_id, .path = w->tree, .removed = removed, .reason = reason};

	s->removed += removed;
	if (s->each)
		s->each(s->arg, &left);
}

static void on_looked(struct worktree *w, int r, const struct err *e)
{
	if (r < 0 && !w->reason)
		(void)keep_because(w, "", "%s", e->msg);
}

/* Why the tree must not be lost: owned by w; NULL: it may go. */
static const char *find_work(struct worktree *w, struct err *e)
{
	uv_loop_t loop;

	if (!w->admin)
		return NULL; /* it was never finished: nothing worked in it */
	if (!w->git)
		return "git is not there to look for work in it";
	int r = uv_loop_init(&loop);
	if (r < 0) {
		(void)err_sys(e, -r, "prepare the event loop");
		return "it could not be looked at";
	}
	w->loop = &loop;
	chain_run(w, worktree_look_steps, worktree_look_n, on_looked);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&loop);
	w->loop = NULL;
	if (w->reason)
		return w->reason;
	return w->changed.len || w->gone.len || w->nested.n ? "it has work that is not committed" : NULL;
}

/* NULL: the run is over. */
static const char *in_use(const struct sweep *s, const char *run_id)
{
	if (store_run_alive(s->store_dir, run_id))
		return "its run is going on";
	auto_json run = store_read_run(s->store_dir, run_id, NULL);
	const char *status = run ? json_get_str(run, "status") : NULL;
	return status && str_eq(status, run_status_name(RUN_PAUSED)) ? "its run is paused" : NULL;
}

static void sweep_one(struct sweep *s, struct worktree *w)
{
	struct err e = ERR_INIT;
	const char *kept = in_use(s, w->p.run_id);

	if (kept) {
		tell(s, w, false, kept);
		return;
	}
	int r = record_load(w, &e);
	if (r < 0)
		kept = r == -ENOENT ? "no run's record tells what it is" : e.msg;
	else
		kept = find_work(w, &e);
	if (kept && !s->force) {
		tell(s, w, false, kept);
		return;
	}
	w->failure = ERR_INIT;
	tree_take_away(w);
	if (w->failure.kind != ERR_NONE)
		tell(s, w, false, w->failure.msg);
	else
		tell(s, w, true, kept ? kept : "its run is over");
}

int worktree_gc(const char *store_dir, const char *const *host_env, bool force,
		void (*each)(void *arg, const struct worktree_left *left), void *arg, size_t *ret_removed,
		struct err *e)
{
	struct sweep s = {.store_dir = store_dir, .host_env = host_env, .force = force, .each = each, .arg = arg};
	auto_free char *trees = path_join(store_dir, "worktrees");
	auto_dir dir = opendir(trees);
	const struct dirent *d;

	*ret_removed = 0;
	if (!dir)
		return errno == ENOENT ? 0 : err_sys(e, errno, "open %s", trees);
	while ((d = readdir(dir))) {
		if (d->d_name[0] == '.' || store_run_id_check(d->d_name, NULL) < 0)
			continue;
		const struct worktree_params p = {
			.workspace = "/", .store_dir = store_dir, .run_id = d->d_name, .host_env = host_env};
		struct worktree *w = worktree_new(&p);
		sweep_one(&s, w);
		worktree_free(w);
	}
	*ret_removed = s.removed;
	return 0;
}
