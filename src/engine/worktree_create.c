/* Making the tree.
 *
 * git makes the branch and the tree's entry in the repository, but no file: those are put there from the room
 * (worktree_room.c), so that no filter of the repository runs. The index that comes of it stays in the room as the
 * state that is known to be ours; the tree gets a copy. What fails is undone, so that the same command works again once
 * the reason is mended. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/log.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sandbox/spec.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INDEX_MAX = 1024 * 1024 * 1024 };

static void prepare(struct worktree *w)
{
	auto_free char *trees = path_parent(w->tree);
	int r = room_check_layout(w, w->branch, &w->failure);

	if (r == 0)
		r = dir_make(AT_FDCWD, trees, 0700, &w->failure);
	if (r == 0)
		r = room_make(w, &w->failure);
	/* From here on there may be something to clean up, also after a kill. */
	if (r == 0 && record_save(w, &w->failure) < 0)
		err_hint(&w->failure, "free some space on the file system of the store");
}

static int hear_work(struct worktree *w, const struct git_answer *a, struct err *e)
{
	(void)a;
	if (w->failure.kind == ERR_NONE)
		return 0;
	err_copy(e, &w->failure);
	return -EIO;
}

static void ask_add(struct worktree *w, struct git_command *c)
{
	room_real(w, c);
	GIT_ARGS(c, "worktree", "add", "--quiet", "--no-checkout", "-b", w->branch, w->tree, w->base);
}

/* The tree's entry in the repository, which git named in the tree's .git file. */
static int hear_add(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *dot_git = path_join(w->tree, ".git");
	auto_free char *entries = path_join(w->common, "worktrees");
	auto_free char *text = NULL;

	if (a->code != 0)
		return git_failed(a, e, "make the worktree");
	int r = file_read(AT_FDCWD, dot_git, PATH_MAX, &text, NULL, e);
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	auto_free char *joined = str_starts(text, "gitdir: ") ? path_join(w->tree, text + 8) : NULL;
	auto_free char *admin = joined ? path_clean(joined) : NULL;
	auto_free char *parent = admin ? path_parent(admin) : NULL;
	if (!parent || !str_eq(parent, entries))
		return err_set(e, ERR_SYSTEM, EPROTO, "make the worktree: %s does not name its entry in %s", dot_git,
			       entries);
	w->admin = TAKE_PTR(admin);
	return 0;
}

static void ask_files(struct worktree *w, struct git_command *c)
{
	auto_free char *index = room_file(w, "index");

	room_clean(w, c, index, w->tree);
	GIT_ARGS(c, "read-tree", "--reset", "-u", w->base);
}

static void ask_filtered(struct worktree *w, struct git_command *c)
{
	auto_free char *index = room_file(w, "index");

	room_clean(w, c, index, w->tree);
	GIT_ARGS(c, "ls-files", "-z", "--", ".", ":(exclude,attr:!filter)");
}

static int hear_filtered(struct worktree *w, const struct git_answer *a, struct err *e)
{
	size_t n = 0;

	(void)e;
	for (size_t i = 0; a->code == 0 && i < a->len; i++)
		n += a->out[i] == '\0';
	if (n == 0)
		return 0;
	json_t *d = json_object();
	auto_free char *message = xasprintf("%zu file%s of the worktree, such as %.200s, ask%s for a git filter (as "
					    "git-lfs is); they stand there as git stores them, because no program of "
					    "the repository runs on the host",
					    n, n == 1 ? "" : "s", a->out, n == 1 ? "s" : "");
	json_put_str(d, "code", "git_filters_off");
	json_put(d, "message", json_text(message, strlen(message)));
	worktree_emit(w, "worktree_warning", d);
	log_warn("%s", message);
	return 0;
}

static int copy_index(const struct worktree *w, struct err *e)
{
	auto_free char *from = room_file(w, "index");
	auto_free char *data = NULL;
	size_t len;
	int r = file_read(AT_FDCWD, from, INDEX_MAX, &data, &len, e);

	if (r < 0)
		return r;
	auto_fd common = dir_open(AT_FDCWD, w->common, e);
	if (common < 0)
		return common;
	auto_free char *name = xasprintf("worktrees/%s", path_base(w->admin));
	auto_fd fd = file_open_resolve(common, name, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
	if (fd < 0)
		return err_sys(e, -fd, "open %s/%s", w->common, name);
	return file_replace(fd, "index", data, len, 0644, FILE_NO_SYNC, e);
}

static void complete(struct worktree *w)
{
	int r = copy_index(w, &w->failure);

	w->marks = marks_take(w);
	if (r == 0 && record_save(w, &w->failure) < 0)
		err_hint(&w->failure, "free some space on the file system of the store");
}

static int tell(struct worktree *w, const struct git_answer *a, struct err *e)
{
	int r = hear_work(w, a, e);

	if (r < 0)
		return r;
	json_t *d = json_object();
	json_put_str(d, "path", w->tree);
	json_put_str(d, "branch", w->branch);
	json_put_str(d, "base", w->base);
	json_put_str(d, "repository", w->top);
	json_put_str(d, "merge_into", w->target);
	worktree_emit(w, "worktree_created", d);
	return 0;
}

static const struct step create_steps[] = {
	{.work = prepare},
	{.answer = hear_work},
	{.ask = ask_add, .answer = hear_add},
	{.ask = ask_files, .what = "check out the worktree's files"},
	{.ask = ask_filtered, .answer = hear_filtered},
	{.work = complete},
	{.answer = tell},
};

/* Whether an entry of the repository is the tree's. */
static bool is_our_entry(const struct worktree *w, int entries, const char *name)
{
	auto_free char *path = xasprintf("%s/gitdir", name);
	auto_free char *want = path_join(w->tree, ".git");
	auto_free char *text = NULL;

	if (file_read(entries, path, PATH_MAX, &text, NULL, NULL) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return str_eq(text, want);
}

/* The entry in the repository, removed by name below a folder that is no symlink. A run that was killed while it made
 * the tree did not note the name: then it is the usual one or none. */
static int remove_entry(const struct worktree *w, struct err *e)
{
	const char *name = w->admin ? path_base(w->admin) : w->p.run_id;
	auto_fd common = dir_open(AT_FDCWD, w->common, NULL);

	if (common < 0)
		return 0; /* the repository is gone */
	auto_fd fd =
		file_open_resolve(common, "worktrees", O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
	if (fd < 0 || (!w->admin && !is_our_entry(w, fd, name)))
		return 0;
	return tree_remove(fd, name, e);
}

void tree_take_away(struct worktree *w)
{
	auto_free char *trees = path_parent(w->tree);
	auto_fd fd = dir_open(AT_FDCWD, trees, NULL);
	int r = fd < 0 ? 0 : tree_remove(fd, w->p.run_id, &w->failure);

	if (r == 0 && w->common)
		r = remove_entry(w, &w->failure);
	if (r < 0)
		err_hint(&w->failure, "remove %s yourself; then `git worktree prune` in the repository", w->tree);
}

static void ask_no_branch(struct worktree *w, struct git_command *c)
{
	auto_free char *ref = xasprintf("refs/heads/%s", w->branch);

	room_real(w, c);
	GIT_ARGS(c, "update-ref", "-d", ref, w->base);
}

/* There may be no branch yet. */
static int ignore(struct worktree *w, const struct git_answer *a, struct err *e)
{
	(void)w;
	(void)a;
	(void)e;
	return 0;
}

static const struct step undo_steps[] = {
	{.work = tree_take_away},
	{.ask = ask_no_branch, .answer = ignore},
};

static void undone(struct worktree *w, int r, const struct err *e)
{
	struct err first = w->first_failure;

	(void)r;
	(void)e;
	w->failure = ERR_INIT;
	w->done(w->done_arg, &first);
}

static void created(struct worktree *w, int r, const struct err *e)
{
	if (r == 0) {
		w->done(w->done_arg, NULL);
		return;
	}
	w->failure = ERR_INIT;
	w->first_failure = *e;
	(void)err_wrap(&w->first_failure, r, "worktree: auto");
	err_hint(&w->first_failure,
		 "look at the repository with `git worktree list` and `git status`, or write `worktree: none`");
	chain_run(w, undo_steps, ARRAY_LEN(undo_steps), undone);
}

void worktree_create(struct worktree *w, uv_loop_t *loop, worktree_done_cb done, void *arg)
{
	w->loop = loop;
	w->done = done;
	w->done_arg = arg;
	chain_run(w, create_steps, ARRAY_LEN(create_steps), created);
}

int worktree_reopen(const struct worktree_params *p, struct worktree **ret, struct err *e)
{
	struct worktree *w = worktree_new(p);
	int r = record_load(w, e);

	if (r == 0 && (!w->admin || access(w->workspace, F_OK) < 0)) {
		r = err_set(e, ERR_PREFLIGHT, ENOENT, "worktree: auto: the run's tree %s is gone", w->tree);
		err_hint(e, "`git worktree add %s %s` in %s makes it again, if the branch is still there", w->tree,
			 w->branch, w->top);
	}
	if (r < 0) {
		worktree_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

const char *worktree_workspace(const struct worktree *w)
{
	return w->workspace;
}

const char *worktree_path(const struct worktree *w)
{
	return w->tree;
}

const char *worktree_branch(const struct worktree *w)
{
	return w->branch;
}

static void add_mount(struct sandbox_spec *spec, const char *path)
{
	struct sandbox_mount *m = sandbox_spec_add_mount(spec);

	m->type = MOUNT_BIND;
	m->source = xstrdup(path);
	m->target = xstrdup(path);
	m->origin = xstrdup("worktree");
}

void worktree_fill_spec(const struct worktree *w, struct sandbox_spec *spec)
{
	static const char *const names[] = {"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL",
					    "GIT_COMMITTER_EMAIL"};

	add_mount(spec, w->common);
	/* Of a workspace that is a folder of the tree, git looks for the tree's .git above it. */
	if (*w->prefix)
		add_mount(spec, w->tree);
	/* The user's own configuration is not there inside. */
	for (size_t i = 0; !w->who.local && i < ARRAY_LEN(names); i++)
		if (!strv_get_env(&spec->env, names[i]))
			strv_set_env(&spec->env, names[i], i < 2 ? w->who.name : w->who.email);
}
