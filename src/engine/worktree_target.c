/* Moving the target branch to the merged commit.
 *
 * A branch that nobody has checked out is only a reference. When it is checked out where the user started the run, his
 * files are brought along, but only when nothing of his can be lost: git's own lock on the index is taken first; the
 * files are compared with the old commit by an index made afresh, since the one in the repository could claim that a
 * changed file is as it was; and nothing may stand where a file will be new, be it ignored, which git would write over.
 * Then the reference moves, from the
 * old commit or not at all, and the new index takes the place of the old by the lock's rename. A checkout anywhere else
 * is named by files that can be written from inside a sandbox: it is never touched. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INDEX_MAX = 1024 * 1024 * 1024 };

static char *advice(const struct worktree *w)
{
	return xasprintf("in a checkout of %s: `git merge %s`", w->target, w->branch);
}

static void ask_checkouts(struct worktree *w, struct git_command *c)
{
	room_real(w, c);
	GIT_ARGS(c, "worktree", "list", "--porcelain", "-z");
}

static bool same_place(const char *a, const char *b)
{
	auto_free char *real_a = realpath(a, NULL);
	auto_free char *real_b = realpath(b, NULL);

	return real_a && real_b && strcmp(real_a, real_b) == 0;
}

static int hear_checkouts(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *want = xasprintf("branch refs/heads/%s", w->target);
	auto_free char *hint = advice(w);
	const char *path = NULL;

	if (a->code != 0)
		return git_failed(a, e, "list the repository's checkouts");
	/* A record's lines end in NUL, the record in one more. */
	for (const char *p = a->out; p && p < a->out + a->len; p += strlen(p) + 1) {
		if (strncmp(p, "worktree ", 9) == 0)
			path = p + 9;
		if (!path || strcmp(p, want) != 0)
			continue;
		if (!same_place(path, w->top))
			return keep_because(w, hint, "%s is checked out in %.300s, not where the run was started",
					    w->target, path);
		w->target_here = true;
	}
	return 0;
}

void target_unlock(struct worktree *w)
{
	if (w->lock_fd < 0)
		return;
	auto_free char *lock = path_join(w->top_git, "index.lock");
	close_quietly(TAKE_FD(w->lock_fd));
	(void)unlink(lock);
}

static int lock(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *hint = advice(w);
	const char *what = w->target_here ? operation_under_way(w->top_git) : NULL;

	(void)a;
	(void)e;
	if (what)
		return keep_because(w, hint, "%s is under way in %s", what, w->top);
	if (!w->target_here)
		return 0;
	auto_free char *fresh = room_file(w, "target.index");
	(void)unlink(fresh);
	auto_free char *path = path_join(w->top_git, "index.lock");
	w->lock_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (w->lock_fd >= 0)
		return 0;
	if (errno == EEXIST)
		return keep_because(w, hint, "another git is at work in %s (index.lock)", w->top);
	return keep_because(w, hint, "the index of %s cannot be written: %s", w->top, strerror(errno));
}

/* git in the user's checkout, with the fresh index; nothing when the target is not there. */
static bool in_checkout(const struct worktree *w, struct git_command *c)
{
	auto_free char *index = room_file(w, "target.index");

	if (w->target_here)
		room_clean(w, c, index, w->top);
	return w->target_here;
}

static void ask_read(struct worktree *w, struct git_command *c)
{
	if (in_checkout(w, c))
		GIT_ARGS(c, "read-tree", w->old);
}

static void ask_refresh(struct worktree *w, struct git_command *c)
{
	if (in_checkout(w, c))
		GIT_ARGS(c, "update-index", "-q", "--refresh", "--ignore-submodules");
}

static int hear_refresh(struct worktree *w, const struct git_answer *a, struct err *e)
{
	(void)w;
	return !a || a->code == 0 || a->code == 1 ? 0 : git_failed(a, e, "look at the checkout");
}

static void ask_changed(struct worktree *w, struct git_command *c)
{
	if (in_checkout(w, c))
		GIT_ARGS(c, "diff-files", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=all");
}

static int hear_changed(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *hint = xasprintf("commit or stash it, and then `git merge %s`", w->branch);

	if (!a)
		return 0;
	if (a->code != 0)
		return git_failed(a, e, "look at the checkout");
	if (a->len == 0)
		return 0;
	return keep_because(w, hint, "%s is checked out in %s, and %.200s there has changes that are not committed",
			    w->target, w->top, a->out);
}

static void ask_staged(struct worktree *w, struct git_command *c)
{
	auto_free char *index = path_join(w->top_git, "index");

	if (!w->target_here)
		return;
	room_clean(w, c, index, w->top);
	GIT_ARGS(c, "diff-index", "--cached", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=all", w->old);
}

static void ask_added(struct worktree *w, struct git_command *c)
{
	if (!w->target_here)
		return;
	room_clean(w, c, NULL, NULL);
	GIT_ARGS(c, "diff-tree", "-r", "--no-renames", "--diff-filter=A", "--name-only", "-z", w->old, w->result);
}

/* Also what stands on the way to it: a file, or a symlink. */
static int hear_added(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *hint = xasprintf("move it away, and then `git merge %s`", w->branch);

	if (!a)
		return 0;
	if (a->code != 0)
		return git_failed(a, e, "list the new files");
	auto_fd top = dir_open(AT_FDCWD, w->top, e);
	if (top < 0)
		return top;
	for (const char *p = a->out; p < a->out + a->len; p += strlen(p) + 1) {
		auto_fd fd = file_open_resolve(top, p, O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
		if (fd != -ENOENT)
			return keep_because(w, hint,
					    "the files of %s cannot be brought along: %.200s stands in the way", w->top,
					    p);
	}
	return 0;
}

static void ask_files(struct worktree *w, struct git_command *c)
{
	if (in_checkout(w, c))
		GIT_ARGS(c, "read-tree", "-m", "-u", w->old, w->result);
}

static int hear_files(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *hint = xasprintf("move it away, and then `git merge %s`", w->branch);

	(void)e;
	if (!a || a->code == 0)
		return 0;
	return keep_because(w, hint, "the files of %s cannot be brought along: git says: %s", w->top, a->said);
}

static void ask_move(struct worktree *w, struct git_command *c)
{
	auto_free char *ref = xasprintf("refs/heads/%s", w->target);
	auto_free char *message = xasprintf("iterion: merge %s", w->branch);

	room_real(w, c);
	GIT_ARGS(c, "update-ref", "-m", message, ref, w->result, w->old);
}

static int hear_move(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *hint = advice(w);

	(void)e;
	if (a->code == 0) {
		w->merged = true;
		return 0;
	}
	w->roll_back = w->target_here;
	(void)keep_because(w, hint, "%s was moved by somebody else meanwhile: git says: %s", w->target, a->said);
	return w->roll_back ? 0 : CHAIN_END;
}

static void ask_back(struct worktree *w, struct git_command *c)
{
	if (w->roll_back && in_checkout(w, c))
		GIT_ARGS(c, "read-tree", "-m", "-u", w->result, w->old);
}

static int put_index(struct worktree *w, struct err *e)
{
	auto_free char *from = room_file(w, "target.index");
	auto_free char *lock = path_join(w->top_git, "index.lock");
	auto_free char *index = path_join(w->top_git, "index");
	auto_free char *data = NULL;
	size_t len;
	int r = file_read(AT_FDCWD, from, INDEX_MAX, &data, &len, e);

	if (r < 0)
		return r;
	r = fd_write_all(w->lock_fd, data, len);
	if (r == 0 && rename(lock, index) < 0)
		r = -errno;
	if (r < 0)
		return err_sys(e, -r, "write %s", index);
	close_quietly(TAKE_FD(w->lock_fd));
	return 0;
}

static int bring_index(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *hint = xasprintf("`git reset` in %s makes the index anew", w->top);

	(void)a;
	if (!w->target_here || w->roll_back)
		return 0;
	if (put_index(w, e) < 0)
		return keep_because(w, hint, "the branch is merged, but the index of %s could not be written: %s",
				    w->top, e ? e->msg : "");
	return 0;
}

const struct step worktree_target_steps[] = {
	{.ask = ask_checkouts, .answer = hear_checkouts},
	{.answer = lock},
	{.ask = ask_read, .what = "read the target's files"},
	{.ask = ask_refresh, .answer = hear_refresh},
	{.ask = ask_changed, .answer = hear_changed},
	{.ask = ask_staged, .answer = hear_changed},
	{.ask = ask_added, .answer = hear_added},
	{.ask = ask_files, .answer = hear_files},
	{.ask = ask_move, .answer = hear_move},
	{.ask = ask_back, .what = "put the checkout's files back"},
	{.answer = bring_index},
};
const size_t worktree_target_n = ARRAY_LEN(worktree_target_steps);
