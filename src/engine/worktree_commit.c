/* What the run's nodes left in the tree without committing it.
 *
 * The tree is compared with the branch's latest commit by the room's own index: neither the index that programs inside
 * could write nor any configuration has a say. Repositories that stand inside the tree are left out and named: asking
 * for their state would run git in them, with their configuration. A file that a filter should have stored otherwise
 * (git-lfs) is not committed in a form that its repository does not want; then the tree stays. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <unistd.h>

const char *operation_under_way(const char *git_dir)
{
	static const char *const rows[][2] = {
		{"MERGE_HEAD", "a merge"},    {"CHERRY_PICK_HEAD", "a cherry-pick"}, {"REVERT_HEAD", "a revert"},
		{"rebase-merge", "a rebase"}, {"rebase-apply", "a rebase"},	     {"BISECT_LOG", "a bisection"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *path = path_join(git_dir, rows[i][0]);
		if (access(path, F_OK) == 0)
			return rows[i][1];
	}
	return NULL;
}

/* Whether the tree is still the folder that was made, and nothing that leads elsewhere: all of its files are taken in.
 */
static bool tree_stands(const struct worktree *w)
{
	auto_fd store = dir_open(AT_FDCWD, w->p.store_dir, NULL);
	auto_free char *name = xasprintf("worktrees/%s", w->p.run_id);
	auto_fd fd = store < 0 ? -1
			       : file_open_resolve(store, name, O_PATH | O_DIRECTORY | O_NOFOLLOW,
						   RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);

	return fd >= 0;
}

static int check_state(struct worktree *w, const struct git_answer *a, struct err *e)
{
	const char *what = operation_under_way(w->admin);

	(void)a;
	buf_clear(&w->changed);
	buf_clear(&w->gone);
	if (!tree_stands(w))
		return keep_because(w, "look at what is there instead", "the tree %s is no folder any more", w->tree);
	if (what)
		return keep_because(w, "finish or abort it in the tree", "%s is under way in the tree", what);
	if (room_check_layout(w, w->branch, e) < 0)
		return keep_because(w, e->hint, "%s", e->msg);
	return 0;
}

static void ask_head(struct worktree *w, struct git_command *c)
{
	room_real(w, c);
	strv_set_env(&c->env, "GIT_DIR", w->admin);
	strv_set_env(&c->env, "GIT_COMMON_DIR", w->common);
	GIT_ARGS(c, "symbolic-ref", "--quiet", "HEAD");
}

static int hear_head(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *want = xasprintf("refs/heads/%s\n", w->branch);

	(void)e;
	if (a->code == 0 && str_eq(a->out, want))
		return 0;
	return keep_because(w, "look at it with `git log HEAD` in the tree, and put what you want on a branch",
			    "the tree's HEAD is not on the branch %s any more", w->branch);
}

static void ask_tip(struct worktree *w, struct git_command *c)
{
	auto_free char *ref = xasprintf("refs/heads/%s^{commit}", w->branch);

	room_real(w, c);
	GIT_ARGS(c, "rev-parse", "--verify", "--quiet", ref);
}

static int hear_tip(struct worktree *w, const struct git_answer *a, struct err *e)
{
	(void)e;
	if (read_oid(a, w->tip, NULL, "") == 0)
		return 0;
	return keep_because(w, "`git branch NAME COMMIT` makes a branch for it; `git fsck --lost-found` finds commits",
			    "the branch %s is gone", w->branch);
}

static void in_tree(struct worktree *w, struct git_command *c)
{
	auto_free char *index = room_file(w, "index");

	room_clean(w, c, index, w->tree);
}

static void ask_read(struct worktree *w, struct git_command *c)
{
	in_tree(w, c);
	GIT_ARGS(c, "read-tree", "--reset", w->tip);
}

static void ask_refresh(struct worktree *w, struct git_command *c)
{
	in_tree(w, c);
	GIT_ARGS(c, "update-index", "-q", "--refresh", "--ignore-submodules");
}

/* 1: some files differ, which is asked next. */
static int hear_refresh(struct worktree *w, const struct git_answer *a, struct err *e)
{
	(void)w;
	return a->code == 0 || a->code == 1 ? 0 : git_failed(a, e, "look at the tree");
}

static void ask_differ(struct worktree *w, struct git_command *c)
{
	in_tree(w, c);
	GIT_ARGS(c, "diff-files", "--diff-filter=d", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=all");
}

static void ask_gone(struct worktree *w, struct git_command *c)
{
	in_tree(w, c);
	GIT_ARGS(c, "diff-files", "--diff-filter=D", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=all");
}

static int hear_gone(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code != 0)
		return git_failed(a, e, "list what was removed in the tree");
	(void)buf_add(&w->gone, a->out, a->len);
	return 0;
}

static int add_paths(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code != 0)
		return git_failed(a, e, "list what changed in the tree");
	for (const char *p = a->out; p < a->out + a->len; p += strlen(p) + 1) {
		size_t n = strlen(p);
		if (n > 0 && p[n - 1] == '/')
			strv_add(&w->nested, p);
		else if (n > 0 && buf_add(&w->changed, p, n + 1) < 0)
			return keep_because(w, "commit them in the tree", "there are too many changes in the tree");
	}
	return 0;
}

static void ask_new(struct worktree *w, struct git_command *c)
{
	in_tree(w, c);
	GIT_ARGS(c, "ls-files", "--others", "-z", "--exclude-standard");
}

const struct step worktree_look_steps[] = {
	{.answer = check_state},
	{.ask = ask_head, .answer = hear_head},
	{.ask = ask_tip, .answer = hear_tip},
	{.ask = ask_read, .what = "read the branch's files"},
	{.ask = ask_refresh, .answer = hear_refresh},
	{.ask = ask_gone, .answer = hear_gone},
	{.ask = ask_differ, .answer = add_paths},
	{.ask = ask_new, .answer = add_paths},
};
const size_t worktree_look_n = ARRAY_LEN(worktree_look_steps);

static int any_change(struct worktree *w, const struct git_answer *a, struct err *e)
{
	(void)a;
	(void)e;
	return w->changed.len > 0 || w->gone.len > 0 ? 0 : CHAIN_END;
}

static void give_paths(struct worktree *w, struct git_command *c)
{
	in_tree(w, c);
	if (w->changed.len)
		(void)buf_add(&c->input, w->changed.data, w->changed.len);
}

/* First, so that what is a file now, and was a folder, finds its place free. */
static void ask_remove(struct worktree *w, struct git_command *c)
{
	in_tree(w, c);
	if (w->gone.len)
		(void)buf_add(&c->input, w->gone.data, w->gone.len);
	GIT_ARGS(c, "update-index", "-z", "--force-remove", "--stdin");
}

static void ask_filters(struct worktree *w, struct git_command *c)
{
	give_paths(w, c);
	GIT_ARGS(c, "check-attr", "-z", "--stdin", "filter");
}

static int hear_filters(struct worktree *w, const struct git_answer *a, struct err *e)
{
	const char *end = a->out + a->len;

	if (a->code != 0)
		return git_failed(a, e, "ask for the changed files' attributes");
	/* path NUL "filter" NUL value NUL */
	for (const char *path = a->out; path < end;) {
		const char *name = path + strlen(path) + 1;
		const char *value = name < end ? name + strlen(name) + 1 : end;
		if (value >= end)
			break;
		if (!str_eq(value, "unspecified") && !str_eq(value, "unset"))
			return keep_because(w, "commit the changes in the tree yourself, where the filter is at hand",
					    "%.200s changed, and asks for the git filter %.60s, which is not run here",
					    path, value);
		path = value + strlen(value) + 1;
	}
	return 0;
}

static void ask_index(struct worktree *w, struct git_command *c)
{
	give_paths(w, c);
	GIT_ARGS(c, "update-index", "-z", "--add", "--stdin");
}

static void ask_tree(struct worktree *w, struct git_command *c)
{
	in_tree(w, c);
	GIT_ARGS(c, "write-tree");
}

static int hear_tree(struct worktree *w, const struct git_answer *a, struct err *e)
{
	return read_oid(a, w->oid, e, "write the changed files");
}

static void ask_commit(struct worktree *w, struct git_command *c)
{
	in_tree(w, c);
	room_identity(w, c);
	GIT_ARGS(c, "commit-tree", w->oid, "-p", w->tip);
	(void)buf_printf(&c->input,
			 "iterion: changes of run %s\n\nLeft in the run's worktree when it finished, and committed by "
			 "iterion.\n\nIterion-Run: %s\n",
			 w->p.run_name && *w->p.run_name ? w->p.run_name : w->p.run_id, w->p.run_id);
}

static int hear_commit(struct worktree *w, const struct git_answer *a, struct err *e)
{
	return read_oid(a, w->oid, e, "commit the changes");
}

static void ask_move(struct worktree *w, struct git_command *c)
{
	auto_free char *ref = xasprintf("refs/heads/%s", w->branch);

	room_real(w, c);
	GIT_ARGS(c, "update-ref", "-m", "iterion: commit", ref, w->oid, w->tip);
}

static int hear_move(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code != 0)
		return git_failed(a, e, "move the branch to the new commit");
	memcpy(w->tip, w->oid, sizeof w->tip);
	return 0;
}

const struct step worktree_commit_steps[] = {
	{.answer = any_change},
	{.ask = ask_filters, .answer = hear_filters},
	{.ask = ask_remove, .what = "take the removed files out of the index"},
	{.ask = ask_index, .what = "take the changed files into the index"},
	{.ask = ask_tree, .answer = hear_tree},
	{.ask = ask_commit, .answer = hear_commit},
	{.ask = ask_move, .answer = hear_move},
};
const size_t worktree_commit_n = ARRAY_LEN(worktree_commit_steps);
