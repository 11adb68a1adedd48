/* What the run's folder keeps about its worktree (worktree.json), so that a later process can go on in it or clean up.
 * The run's folder is shown in no sandbox: what stands there is ours. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_MAX = 4 * 1024 * 1024 };

static const char record_name[] = "worktree.json";

/* X(member): strings that are kept */
#define STRINGS(X)                                                                                                     \
	X(common)                                                                                                      \
	X(admin)                                                                                                       \
	X(top)                                                                                                         \
	X(top_git)                                                                                                     \
	X(prefix)                                                                                                      \
	X(branch)                                                                                                      \
	X(target)                                                                                                      \
	X(excludes)                                                                                                    \
	X(autocrlf)                                                                                                    \
	X(eol)                                                                                                         \
	X(format)                                                                                                      \
	X(who.name)                                                                                                    \
	X(who.email)

const char *const worktree_strategies[] = {"merge", "squash", "rebase", "ff-only", NULL};

/* Where git would find the repository's top: the nearest folder with a .git that is more than an empty folder. */
static bool is_top(const char *dir)
{
	auto_free char *dot_git = path_join(dir, ".git");
	auto_free char *head = path_join(dot_git, "HEAD");
	struct stat st;

	return lstat(head, &st) == 0 || (lstat(dot_git, &st) == 0 && S_ISREG(st.st_mode));
}

char *worktree_place(const char *store_dir, const char *run_id, const char *workspace)
{
	auto_free char *tree = xasprintf("%s/worktrees/%s", store_dir, run_id);
	auto_free char *top = xstrdup(workspace);

	while (!is_top(top)) {
		if (str_eq(top, "/"))
			return TAKE_PTR(tree);
		char *parent = path_parent(top);
		free(top);
		top = parent;
	}
	const char *below = workspace + strlen(top);
	below += *below == '/';
	return *below ? path_join(tree, below) : TAKE_PTR(tree);
}

struct worktree *worktree_new(const struct worktree_params *p)
{
	struct worktree *w = xcalloc(1, sizeof *w);
	auto_free char *trees = path_join(p->store_dir, "worktrees");
	auto_free char *runs = path_join(p->store_dir, "runs");

	*w = (struct worktree){
		.p = *p,
		.git = git_find(p->host_env),
		.tree = path_join(trees, p->run_id),
		.run_dir = path_join(runs, p->run_id),
		.changed = BUF_INIT(GIT_OUTPUT_MAX),
		.gone = BUF_INIT(GIT_OUTPUT_MAX),
		.lock_fd = -1,
	};
	w->room = path_join(w->run_dir, "git");
	return w;
}

void worktree_free(struct worktree *w)
{
	if (!w)
		return;
	target_unlock(w); /* while its path is known */
#define FREE_MEMBER(m) free(w->m);
	STRINGS(FREE_MEMBER)
	free(w->git);
	free(w->run_dir);
	free(w->room);
	free(w->tree);
	free(w->workspace);
	free(w->reason);
	free(w->advice);
	buf_done(&w->changed);
	buf_done(&w->gone);
	strv_done(&w->nested);
	rebase_clear(&w->rebase);
	json_decref(w->marks);
	json_decref(w->marks_now);
	free(w);
}

int record_save(const struct worktree *w, struct err *e)
{
	auto_json o = json_object();

#define PUT_MEMBER(m) json_put_str(o, #m, w->m);
	STRINGS(PUT_MEMBER)
	json_put_str(o, "base", w->base);
	json_put_str(o, "strategy", worktree_strategies[w->strategy]);
	json_put_bool(o, "local_identity", w->who.local);
	if (w->marks)
		json_put(o, "marks", json_incref(w->marks));
	auto_free char *text = json_compact(o);
	auto_fd fd = dir_open(AT_FDCWD, w->run_dir, e);
	return fd < 0 ? fd : file_replace(fd, record_name, text, strlen(text), 0600, FILE_SYNC, e);
}

static char *copy_member(const json_t *o, const char *key)
{
	const char *s = json_get_str(o, key);

	return s ? xstrdup(s) : NULL;
}

static int find_word(const char *word)
{
	for (int i = 0; worktree_strategies[i]; i++)
		if (word && str_eq(worktree_strategies[i], word))
			return i;
	return MERGE_MERGE;
}

int record_load(struct worktree *w, struct err *e)
{
	auto_free char *path = path_join(w->run_dir, record_name);
	auto_free char *text = NULL;
	size_t len;
	int r = file_read(AT_FDCWD, path, RECORD_MAX, &text, &len, e);

	if (r < 0)
		return r;
	auto_json o = json_parse(text, len, e);
	if (!o)
		return -EINVAL;
#define GET_MEMBER(m)                                                                                                  \
	free(w->m);                                                                                                    \
	w->m = copy_member(o, #m);
	STRINGS(GET_MEMBER)
	const char *base = json_get_str(o, "base");
	if (!w->common || !w->branch || !w->format || !w->top || !w->top_git || !w->prefix || !w->who.name ||
	    !w->who.email || !base || strlen(base) >= OID_SIZE) {
		r = err_set(e, ERR_INPUT, EINVAL, "%s: it is damaged", path);
		err_hint(e, "`git worktree list` in the repository shows the tree; `git worktree remove` removes it");
		return r;
	}
	(void)snprintf(w->base, sizeof w->base, "%s", base);
	w->strategy = (enum merge_strategy)find_word(json_get_str(o, "strategy"));
	w->who.local = json_is_true(json_object_get(o, "local_identity"));
	w->marks = json_incref(json_object_get(o, "marks"));
	w->workspace = *w->prefix ? path_join(w->tree, w->prefix) : xstrdup(w->tree);
	return 0;
}
