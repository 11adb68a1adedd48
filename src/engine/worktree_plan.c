/* Before the run: can a worktree be made, and how?
 *
 * Everything is asked of the user's own repository, and nothing is changed, so that a workspace where it cannot work is
 * an error before the run exists. The answers are few and short; they are waited for on a loop of this file's own. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BRANCH_MAX = 200 };

static int refuse(struct err *e, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int refuse(struct err *e, const char *hint, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	auto_free char *msg = xvasprintf(fmt, ap);
	va_end(ap);
	int r = err_set(e, ERR_PREFLIGHT, EINVAL, "worktree: auto: %s", msg);
	err_hint(e, "%s", hint);
	return r;
}

/* The next line of an answer, cut off; NULL at the end. */
static char *next_line(char **rest)
{
	char *line = *rest;
	char *end = line ? strchr(line, '\n') : NULL;

	*rest = end ? end + 1 : NULL;
	if (!end)
		return NULL;
	*end = '\0';
	return line;
}

static void ask_where(struct worktree *w, struct git_command *c)
{
	room_ask_env(w, c);
	GIT_ARGS(c, "rev-parse", "--path-format=absolute", "--is-bare-repository", "--is-inside-work-tree",
		 "--show-object-format", "--absolute-git-dir", "--git-common-dir");
}

static int hear_where(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code != 0 && strstr(a->said, "dubious ownership"))
		return refuse(e,
			      "the repository belongs to somebody else; `git config --global --add safe.directory "
			      "DIR` says that you trust it",
			      "git refuses the repository of %s: its owner is another user", w->p.workspace);
	if (a->code != 0 && strstr(a->said, "not a git repository"))
		return refuse(e, "run it in a repository (`git init`, and a first commit), or write `worktree: none`",
			      "the workspace %s is not in a git repository", w->p.workspace);
	if (a->code != 0)
		return refuse(e, "`git status` in the workspace may say more; git 2.31 or newer is needed",
			      "git cannot work in %s: %s", w->p.workspace, a->said);
	auto_free char *text = xstrdup(a->out);
	char *rest = text;
	const char *bare = next_line(&rest), *inside = next_line(&rest), *format = next_line(&rest);
	const char *git_dir = next_line(&rest), *common = next_line(&rest);
	if (!common || *common != '/' || *git_dir != '/' || (rest && *rest))
		return refuse(e, "move the repository to a path without line breaks", "its path cannot be read");
	if (str_eq(bare, "true"))
		return refuse(e, "run it in a checkout of it (`git clone`), or write `worktree: none`",
			      "the repository of %s is bare", w->p.workspace);
	if (!str_eq(inside, "true"))
		return refuse(e, "run it in the files of the repository", "the workspace %s lies in the .git folder",
			      w->p.workspace);
	w->format = xstrdup(format);
	w->top_git = xstrdup(git_dir);
	w->common = path_clean(common);
	return 0;
}

static void ask_prefix(struct worktree *w, struct git_command *c)
{
	room_ask_env(w, c);
	GIT_ARGS(c, "rev-parse", "--show-prefix");
}

/* Whether the checkout's .git is, or names, its git folder: a core.worktree in the repository's configuration could
 * make any folder its checkout, and a merge would write there. */
static bool is_own_checkout(const struct worktree *w)
{
	auto_free char *dot_git = path_join(w->top, ".git");
	auto_free char *real = realpath(dot_git, NULL);
	auto_free char *git_dir = realpath(w->top_git, NULL);
	auto_free char *text = NULL;

	if (real && git_dir && str_eq(real, git_dir))
		return true;
	if (!git_dir || file_read(AT_FDCWD, dot_git, PATH_MAX, &text, NULL, NULL) < 0 || !str_starts(text, "gitdir: "))
		return false;
	text[strcspn(text, "\n")] = '\0';
	auto_free char *named = path_join(w->top, text + 8);
	auto_free char *there = realpath(named, NULL);
	return there && str_eq(there, git_dir);
}

static int hear_prefix(struct worktree *w, const struct git_answer *a, struct err *e)
{
	size_t whole = strlen(w->p.workspace);

	if (a->code != 0)
		return git_failed(a, e, "ask for the workspace's place in the repository");
	w->prefix = xstrdup(a->out);
	w->prefix[strcspn(w->prefix, "\n")] = '\0';
	size_t n = strlen(w->prefix);
	if (n > 0 && w->prefix[n - 1] == '/')
		w->prefix[--n] = '\0';
	bool below = n == 0 ||
		     (n + 1 < whole && str_ends(w->p.workspace, w->prefix) && w->p.workspace[whole - n - 1] == '/');
	w->top = below ? xstrndup(w->p.workspace, n ? whole - n - 1 : whole) : NULL;
	if (!w->top || !is_own_checkout(w))
		return refuse(e, "`git config --unset core.worktree` puts it back; or write `worktree: none`",
			      "the repository's checkout is not the folder that holds its .git (core.worktree)");
	w->workspace = n ? path_join(w->tree, w->prefix) : xstrdup(w->tree);
	return 0;
}

static void ask_head(struct worktree *w, struct git_command *c)
{
	room_ask_env(w, c);
	GIT_ARGS(c, "rev-parse", "--verify", "--quiet", "HEAD^{commit}");
}

static int hear_head(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (read_oid(a, w->base, NULL, "") < 0)
		return refuse(e, "a worktree begins at a commit: `git add` and `git commit` first",
			      "the repository of %s has no commit yet", w->p.workspace);
	return 0;
}

static void ask_submodules(struct worktree *w, struct git_command *c)
{
	auto_free char *name = xasprintf("%s:.gitmodules", w->base);

	room_ask_env(w, c);
	GIT_ARGS(c, "cat-file", "-e", name);
}

static int hear_submodules(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code != 0)
		return 0;
	return refuse(e, "write `worktree: none`; to keep your checkout clean, run it in a clone with its submodules",
		      "the repository of %s has submodules, which a worktree leaves empty", w->top);
}

static void ask_folder(struct worktree *w, struct git_command *c)
{
	auto_free char *name = xasprintf("%s:%s", w->base, w->prefix);

	if (!*w->prefix)
		return;
	room_ask_env(w, c);
	GIT_ARGS(c, "cat-file", "-e", name);
}

static int hear_folder(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (!a || a->code == 0)
		return 0;
	return refuse(e, "commit it, or choose another folder with --workspace",
		      "the workspace's folder %s is not in the latest commit", w->prefix);
}

static void ask_config(struct worktree *w, struct git_command *c)
{
	room_ask_env(w, c);
	GIT_ARGS(c, "config", "-z", "--show-scope", "--get-regexp",
		 "^(user\\.(name|email)|core\\.(excludesfile|autocrlf|eol)|extensions\\.partialclone)$");
}

static void set_value(char **to, const char *value)
{
	free(*to);
	*to = xstrdup(value);
}

/* "~/x" of an ignore file is the user's. */
static void set_excludes(struct worktree *w, const char *value)
{
	const char *home = host_value(w, "HOME");

	free(w->excludes);
	w->excludes = str_starts(value, "~/") && home ? path_join(home, value + 2) : xstrdup(value);
}

static int hear_config(struct worktree *w, const struct git_answer *a, struct err *e)
{
	/* scope NUL key LF value NUL; later ones win. */
	for (const char *p = a->out; a->code == 0 && p < a->out + a->len;) {
		const char *scope = p, *key = p + strlen(p) + 1;
		if (key >= a->out + a->len)
			break;
		const char *value = key + strcspn(key, "\n");
		p = key + strlen(key) + 1;
		value += *value == '\n';
		/* Which file is ignored must not be the repository's word: it would be read on the host. */
		bool own = str_eq(scope, "local") || str_eq(scope, "worktree");
		if (str_starts(key, "user.name\n"))
			set_value(&w->who.name, value);
		else if (str_starts(key, "user.email\n"))
			set_value(&w->who.email, value);
		else if (str_starts(key, "core.excludesfile\n") && !own)
			set_excludes(w, value);
		else if (str_starts(key, "core.autocrlf\n"))
			set_value(&w->autocrlf, value);
		else if (str_starts(key, "core.eol\n"))
			set_value(&w->eol, value);
		else if (str_starts(key, "extensions.partialclone\n"))
			return refuse(e,
				      "make it whole (`git fetch --refetch --no-filter`, and unset "
				      "extensions.partialClone), or write `worktree: none`",
				      "the repository of %s is a partial clone: files may have to be fetched", w->top);
		w->who.local |= own && str_starts(key, "user.email\n");
	}
	if (!w->who.name || !*w->who.name)
		set_value(&w->who.name, "iterion");
	if (!w->who.email || !*w->who.email)
		set_value(&w->who.email, "iterion@localhost");
	const char *xdg = host_value(w, "XDG_CONFIG_HOME"), *home = host_value(w, "HOME");
	if (!w->excludes && xdg && *xdg)
		w->excludes = path_join(xdg, "git/ignore");
	else if (!w->excludes && home)
		w->excludes = path_join(home, ".config/git/ignore");
	return 0;
}

static void ask_current(struct worktree *w, struct git_command *c)
{
	if (!w->p.auto_merge || w->p.merge_into)
		return;
	room_ask_env(w, c);
	GIT_ARGS(c, "symbolic-ref", "--quiet", "HEAD");
}

static int hear_current(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (!w->p.auto_merge)
		return 0;
	if (a && (a->code != 0 || !str_starts(a->out, "refs/heads/")))
		return refuse(e, "name a branch with --merge-into", "--auto-merge: no branch is checked out in %s",
			      w->top);
	w->target = xstrdup(a ? a->out + strlen("refs/heads/") : w->p.merge_into);
	w->target[strcspn(w->target, "\n")] = '\0';
	return 0;
}

static void ask_target(struct worktree *w, struct git_command *c)
{
	auto_free char *name = w->target ? xasprintf("refs/heads/%s^{commit}", w->target) : NULL;

	if (!name)
		return;
	room_ask_env(w, c);
	GIT_ARGS(c, "rev-parse", "--verify", "--quiet", name);
}

static int hear_target(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (!a || a->code == 0)
		return 0;
	auto_free char *hint =
		xasprintf("`git branch %s` makes it; `git branch` lists those that there are", w->target);
	return refuse(e, hint, "--merge-into: there is no branch %s", w->target);
}

static void ask_version(struct worktree *w, struct git_command *c)
{
	if (!w->target || w->strategy == MERGE_FF_ONLY)
		return;
	room_ask_env(w, c);
	GIT_ARGS(c, "version");
}

static int hear_version(struct worktree *w, const struct git_answer *a, struct err *e)
{
	int major = 0, minor = 0;

	(void)w;
	if (!a ||
	    (sscanf(a->out, "git version %d.%d", &major, &minor) == 2 && (major > 2 || (major == 2 && minor >= 38))))
		return 0;
	return refuse(e, "use --merge-strategy ff-only, or leave --auto-merge out and merge the branch yourself",
		      "--auto-merge needs git 2.38 or newer, and this is %d.%d", major, minor);
}

/* A run's name as part of a branch's. */
static char *branch_word(const char *name)
{
	char *s = xstrndup(name, 100);

	for (char *p = s; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_' ||
		      *p == '-'))
			*p = '-';
	return s;
}

static void choose_branch(struct worktree *w)
{
	const char *name = w->p.run_name && *w->p.run_name ? w->p.run_name : w->p.run_id;
	auto_free char *word = branch_word(name);

	w->branch = w->p.branch ? xstrdup(w->p.branch) : xasprintf("iterion/run/%s", word);
}

static void ask_name(struct worktree *w, struct git_command *c)
{
	choose_branch(w);
	auto_free char *ref = xasprintf("refs/heads/%s", w->branch);
	room_ask_env(w, c);
	GIT_ARGS(c, "check-ref-format", ref);
}

static int hear_name(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code == 0 && w->branch[0] != '-' && strlen(w->branch) <= BRANCH_MAX && !str_eq(w->branch, "HEAD"))
		return 0;
	return refuse(e, "such as fix/login: letters, digits, '-', '_', '.' and '/' between",
		      "--branch-name: \"%.60s\" cannot be a branch's name", w->branch);
}

static void ask_taken(struct worktree *w, struct git_command *c)
{
	auto_free char *first = xstrndup(w->branch, strcspn(w->branch, "/"));
	auto_free char *pattern = xasprintf("refs/heads/%s", first);

	room_ask_env(w, c);
	GIT_ARGS(c, "for-each-ref", "--format=%(refname)", pattern);
}

/* Whether a branch and the wanted one cannot both be: equal, or one the other's folder. */
static bool is_in_the_way(const char *there, const char *wanted)
{
	return path_within(there, wanted) || path_within(wanted, there);
}

static const char *find_in_the_way(char *list, const char *wanted)
{
	for (const char *line; (line = next_line(&list));)
		if (str_starts(line, "refs/heads/") && is_in_the_way(line + 11, wanted))
			return line + 11;
	return NULL;
}

static int hear_taken(struct worktree *w, const struct git_answer *a, struct err *e)
{
	auto_free char *text = xstrdup(a->out);
	const char *there = find_in_the_way(text, w->branch);
	size_t id = strlen(w->p.run_id);

	if (a->code != 0)
		return git_failed(a, e, "list the branches");
	if (there && str_eq(there, w->branch) && !w->p.branch) {
		/* A name that is given to every run, as a job of the night does: the id makes it one of its own. */
		auto_free char *word = branch_word(w->p.run_id + (id > 12 ? id - 12 : 0));
		char *longer = xasprintf("%s-%s", w->branch, word);
		auto_free char *again = xstrdup(a->out);
		free(w->branch);
		w->branch = longer;
		there = find_in_the_way(again, longer) ? longer : NULL;
	}
	if (!there)
		return 0;
	auto_free char *hint =
		xasprintf("choose another with --branch-name; `git branch -D %s` removes it with its work", there);
	if (str_eq(there, w->branch))
		return refuse(e, hint, "there is a branch %s already", there);
	return refuse(e, hint, "the branch %s cannot be made, because there is a branch %s", w->branch, there);
}

static int check_places(struct worktree *w, const struct git_answer *a, struct err *e)
{
	(void)a;
	int r = room_check_layout(w, w->branch, e);
	return r == 0 && w->target ? room_check_layout(w, w->target, e) : r;
}

static const struct step plan_steps[] = {
	{.ask = ask_where, .answer = hear_where},     {.ask = ask_prefix, .answer = hear_prefix},
	{.ask = ask_head, .answer = hear_head},	      {.ask = ask_submodules, .answer = hear_submodules},
	{.ask = ask_folder, .answer = hear_folder},   {.ask = ask_config, .answer = hear_config},
	{.ask = ask_current, .answer = hear_current}, {.ask = ask_target, .answer = hear_target},
	{.ask = ask_version, .answer = hear_version}, {.ask = ask_name, .answer = hear_name},
	{.ask = ask_taken, .answer = hear_taken},     {.answer = check_places},
};

static void planned(struct worktree *w, int r, const struct err *e)
{
	(void)r;
	err_copy(&w->failure, e);
}

int worktree_check_flags(const struct worktree_params *p, bool wanted, struct err *e)
{
	const struct {
		const char *name;
		bool given, needs_merge;
	} rows[] = {
		{"--branch-name", p->branch != NULL, false},
		{"--auto-merge", p->auto_merge, false},
		{"--merge-into", p->merge_into != NULL, true},
		{"--merge-strategy", p->merge_strategy != NULL, true},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!rows[i].given || (wanted && (!rows[i].needs_merge || p->auto_merge)))
			continue;
		int r = err_set(e, ERR_USAGE, EINVAL, "%s: %s", rows[i].name,
				wanted ? "without --auto-merge nothing is merged"
				       : "the workflow has no worktree of its own");
		err_hint(e, "%s",
			 wanted ? "add --auto-merge, or leave it out" : "write `worktree: auto` in the workflow");
		return r;
	}
	return 0;
}

static int find_strategy(const char *word, enum merge_strategy *ret, struct err *e)
{
	for (size_t i = 0; worktree_strategies[i]; i++) {
		if (!word || str_eq(worktree_strategies[i], word)) {
			*ret = (enum merge_strategy)i;
			return 0;
		}
	}
	return refuse(e, "it is merge, squash, rebase or ff-only", "--merge-strategy: \"%.40s\" is none", word);
}

static int ask_all(struct worktree *w, struct err *e)
{
	uv_loop_t loop;
	int r = uv_loop_init(&loop);

	if (r < 0)
		return err_sys(e, -r, "prepare the event loop");
	w->loop = &loop;
	chain_run(w, plan_steps, ARRAY_LEN(plan_steps), planned);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&loop);
	w->loop = NULL;
	if (w->failure.kind == ERR_NONE)
		return 0;
	err_copy(e, &w->failure);
	err_set_kind(e, ERR_PREFLIGHT);
	err_hint(e, "`git status` in the workspace may say more");
	return -EINVAL;
}

static int check_first(struct worktree *w, struct err *e)
{
	auto_free char *trees = path_join(w->p.store_dir, "worktrees");

	if (!w->git)
		return refuse(e, "install git, or write `worktree: none`", "there is no git program in PATH");
	if (path_within(w->p.workspace, trees))
		return refuse(e, "run it in the repository itself, or write `worktree: none`",
			      "the workspace %s is itself the worktree of a run", w->p.workspace);
	if (access(w->tree, F_OK) == 0)
		return refuse(e, "choose another --run-id, or remove what is left: `iterion sandbox gc`",
			      "%s exists already", w->tree);
	return find_strategy(w->p.merge_strategy, &w->strategy, e);
}

int worktree_plan(const struct worktree_params *p, struct worktree **ret, struct err *e)
{
	struct worktree *w = worktree_new(p);
	int r = check_first(w, e);

	if (r == 0)
		r = ask_all(w, e);
	if (r < 0) {
		worktree_free(w);
		return r;
	}
	*ret = w;
	return 0;
}
