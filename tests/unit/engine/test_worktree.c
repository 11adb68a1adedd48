/* Worktrees of runs, with the real git: refusals, making, committing what is left, keeping, and what gc does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worktree_world.h"

#include "../store/tmp.h"

#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <errno.h>
#include <sandbox/spec.h>
#include <store/run.h>
#include <unistd.h>

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* Each with what is wrong, and a word of the error and of the hint. */
static void test_refused(void **state)
{
	(void)state;
	static const struct {
		const char *prepare;
		struct worktree_params p; /* members that are set come over the usual ones */
		const char *error, *hint;
	} cases[] = {
		{"rm -rf .git", {0}, "is not in a git repository", "git init"},
		{"rm -rf .git; git init -q", {0}, "has no commit yet", "git commit"},
		{"mv .git x; rm -f a.txt; cp -r x/. .; git config core.bare true", {0}, "is bare", "git clone"},
		{"git config core.worktree \"$TOP\"", {0}, "is not the folder that holds its .git", "core.worktree"},
		{"true", {.branch = "main"}, "there is a branch main already", "--branch-name"},
		{"true", {.branch = "main/x"}, "cannot be made, because there is a branch main", "--branch-name"},
		{"git branch iterion", {0}, "because there is a branch iterion", "--branch-name"},
		{"true", {.branch = "a..b"}, "cannot be a branch's name", "letters"},
		{"true", {.branch = "-x"}, "cannot be a branch's name", "letters"},
		{"true", {.auto_merge = true, .merge_into = "nope"}, "there is no branch nope", "git branch"},
		{"git checkout -q --detach", {.auto_merge = true}, "no branch is checked out", "--merge-into"},
		{"true", {.merge_strategy = "octopus"}, "\"octopus\" is none", "squash"},
		{"git init -q s; git -C s commit -q --allow-empty -m s; git -c protocol.file.allow=always submodule "
		 "--quiet add ./s t 2>/dev/null; git commit -qam m",
		 {0},
		 "has submodules",
		 "worktree: none"},
		{"git config extensions.partialClone origin; git config core.repositoryFormatVersion 1",
		 {0},
		 "is a partial clone",
		 "worktree: none"},
		{"mkdir \"$STORE/worktrees\" && mkdir \"$STORE/worktrees/run1\"", {0}, "exists already", "sandbox gc"},
		{"mv .git/refs/heads ../h; ln -s ../../../h .git/refs/heads",
		 {0},
		 "lies behind, a link",
		 "git would write"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world x;
		world_new(&x);
		sh(&x, "%s", cases[i].prepare);
		x.p.branch = cases[i].p.branch;
		x.p.auto_merge = cases[i].p.auto_merge;
		x.p.merge_into = cases[i].p.merge_into;
		x.p.merge_strategy = cases[i].p.merge_strategy;
		int r = worktree_plan(&x.p, &x.w, &x.err);
		if (r >= 0 || !strstr(x.err.msg, cases[i].error) || !strstr(x.err.hint, cases[i].hint) ||
		    x.err.kind != ERR_PREFLIGHT)
			fail_msg("%s: %d %s (%s)", cases[i].prepare, r, x.err.msg, x.err.hint);
		world_done(&x);
	}
}

static void test_refused_places(void **state)
{
	(void)state;
	struct world x;

	world_new(&x);
	const char *const no_path[] = {"PATH=/nonexistent", NULL};
	x.p.host_env = no_path;
	assert_true(worktree_plan(&x.p, &x.w, &x.err) < 0);
	assert_non_null(strstr(x.err.msg, "no git program"));
	/* A git in the workspace is not the user's. */
	const char *const relative[] = {"PATH=.::bin", NULL};
	sh(&x, "printf '#!/bin/sh\\ntouch \"%s/ran\"\\n' >git; chmod +x git", x.top);
	x.p.host_env = relative;
	assert_true(worktree_plan(&x.p, &x.w, &x.err) < 0);
	assert_int_equal(sh_code(&x, "test -e \"$TOP/ran\""), 1);
	x.p.host_env = x.env;
	char *dot_git = xasprintf("%s/.git", x.repo);
	x.p.workspace = dot_git;
	assert_true(worktree_plan(&x.p, &x.w, &x.err) < 0);
	assert_non_null(strstr(x.err.msg, "lies in the .git folder"));
	free(dot_git);
	sh(&x, "mkdir new");
	char *folder = xasprintf("%s/new", x.repo);
	x.p.workspace = folder;
	assert_true(worktree_plan(&x.p, &x.w, &x.err) < 0);
	assert_non_null(strstr(x.err.msg, "is not in the latest commit"));
	free(folder);
	x.p.workspace = x.repo;
	world_create(&x);
	struct worktree *inner = NULL;
	const struct worktree_params p = {
		.workspace = worktree_path(x.w), .store_dir = x.store, .run_id = "run2", .host_env = x.env};
	assert_true(worktree_plan(&p, &inner, &x.err) < 0);
	assert_non_null(strstr(x.err.msg, "is itself the worktree of a run"));
	world_done(&x);
}

static void test_flags(void **state)
{
	(void)state;
	static const struct {
		struct worktree_params p;
		bool wanted;
		const char *error; /* NULL: fine */
	} cases[] = {
		{{0}, false, NULL},
		{{.branch = "b"}, true, NULL},
		{{.branch = "b"}, false, "--branch-name: the workflow has no worktree"},
		{{.auto_merge = true}, false, "--auto-merge: the workflow has no worktree"},
		{{.merge_into = "m"}, true, "--merge-into: without --auto-merge nothing is merged"},
		{{.merge_strategy = "squash"}, true, "--merge-strategy: without --auto-merge"},
		{{.auto_merge = true, .merge_into = "m", .merge_strategy = "squash"}, true, NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		int r = worktree_check_flags(&cases[i].p, cases[i].wanted, &e);
		assert_int_equal(r < 0, cases[i].error != NULL);
		if (r < 0 && (!strstr(e.msg, cases[i].error) || !e.hint[0]))
			fail_msg("%s (%s)", e.msg, e.hint);
	}
}

static void test_create(void **state)
{
	(void)state;
	struct world x;

	world_new(&x);
	world_create(&x);
	assert_string_equal(worktree_branch(x.w), "iterion/run/nightly");
	assert_string_equal(worktree_workspace(x.w), worktree_path(x.w));
	assert_true(sh_says(&x, "git -C \"$TREE\" status --porcelain", ""));
	assert_true(sh_says(&x, "git -C \"$TREE\" symbolic-ref HEAD", "refs/heads/iterion/run/nightly"));
	assert_true(sh_says(&x, "cat \"$TREE/sub/c.txt\"", "c"));
	assert_string_equal(world_said(&x, "worktree_created", "path"), worktree_path(x.w));
	assert_true(sh_says(&x, "git status --porcelain", ""));
	struct sandbox_spec spec = {0};
	worktree_fill_spec(x.w, &spec);
	assert_int_equal(spec.n_mounts, 1);
	assert_true(str_ends(spec.mounts[0].source, "/repo/.git") && !spec.mounts[0].readonly);
	assert_string_equal(spec.mounts[0].target, spec.mounts[0].source);
	assert_string_equal(strv_get_env(&spec.env, "GIT_AUTHOR_NAME"), "Ann");
	sandbox_spec_done(&spec);
	world_finish(&x, WORKTREE_FINISHED);
	assert_false(exists(worktree_path(x.w)));
	assert_true(sh_says(&x, "git rev-parse iterion/run/nightly main | uniq | wc -l", "1"));
	assert_true(sh_says(&x, "git worktree list | wc -l", "1"));
	world_done(&x);
}

/* A folder of a repository that is itself a linked checkout; a name that was used before. */
static void test_folder_and_name(void **state)
{
	(void)state;
	struct world x;

	world_new(&x);
	sh(&x, "git branch iterion/run/nightly; git worktree add -q ../linked -b side");
	char *folder = xasprintf("%s/linked/sub", x.top);
	x.p.workspace = folder;
	world_create(&x);
	assert_true(str_ends(worktree_workspace(x.w), "/run1/sub"));
	assert_string_equal(worktree_branch(x.w), "iterion/run/nightly-run1");
	struct sandbox_spec spec = {0};
	worktree_fill_spec(x.w, &spec);
	assert_int_equal(spec.n_mounts, 2);
	sandbox_spec_done(&spec);
	sh(&x, "cd \"$TREE/sub\"; git log -1 --format=%%s | grep -qx first");
	world_finish(&x, WORKTREE_FINISHED);
	assert_false(exists(worktree_path(x.w)));
	free(folder);
	world_done(&x);
}

/* What nodes leave: changed, new, removed, ignored, a file that became a folder and the reverse, odd names. */
static void test_commit(void **state)
{
	(void)state;
	struct world x;

	world_new(&x);
	world_create(&x);
	sh(&x, "cd \"$TREE\"; echo more >>a.txt; rm -r sub; ln -s b.txt sub; rm b.txt; mkdir b.txt; echo x >b.txt/x; "
	       "echo n >\"$(printf 'n\\nl \\303\\251')\"; echo o >o.o; chmod +x a.txt; echo -x >-x");
	world_finish(&x, WORKTREE_FINISHED);
	assert_false(exists(worktree_path(x.w)));
	assert_true(sh_says(&x, "git ls-tree -r --name-only -z iterion/run/nightly | tr '\\0\\n' ' _'",
			    "-x .gitignore a.txt b.txt/x n_l \303\251 sub "));
	assert_true(sh_says(&x, "git log -1 --format='%an %ae %cn %s' iterion/run/nightly",
			    "Ann ann@example.org Ann iterion: changes of run nightly"));
	assert_true(
		sh_says(&x, "git ls-tree iterion/run/nightly a.txt sub | cut -c1-6 | tr '\\n' ' '", "100755 120000 "));
	assert_true(sh_says(&x, "git rev-list --count main..iterion/run/nightly", "1"));
	assert_true(sh_says(&x, "git fsck 2>&1 | grep -v dangling", ""));
	assert_string_equal(world_said(&x, "worktree_kept", "branch"), "iterion/run/nightly");
	assert_string_equal(world_said(&x, "worktree_kept", "path"), "");
	world_done(&x);
}

/* What the tree is kept for. */
static void test_kept(void **state)
{
	(void)state;
	static const struct {
		const char *node;
		enum worktree_end how;
		const char *reason;
	} cases[] = {
		{"echo x >x", WORKTREE_FAILED, "did not finish"},
		{"echo x >x", WORKTREE_PAUSED, "paused"},
		{"git checkout -q --detach", WORKTREE_FINISHED, "HEAD is not on the branch"},
		{"git checkout -q -b other", WORKTREE_FINISHED, "HEAD is not on the branch"},
		{"git update-ref -d refs/heads/iterion/run/nightly", WORKTREE_FINISHED, "is gone"},
		{"git init -q in; echo x >in/x", WORKTREE_FINISHED, "a repository of its own in the tree: in/"},
		{"echo '*.bin filter=lfs' >.gitattributes; echo x >x.bin", WORKTREE_FINISHED,
		 "x.bin changed, and asks for the git filter lfs"},
		{"touch \"$(git rev-parse --git-dir)/MERGE_HEAD\"", WORKTREE_FINISHED, "a merge is under way"},
		{"mkdir ../../else; cp -r . ../../else; rm -rf \"$TREE\"; ln -s ../else \"$TREE\"", WORKTREE_FINISHED,
		 "is no folder any more"},
		{"mv \"$REPO/.git/logs\" ../l; ln -s ../../store/worktrees/l \"$REPO/.git/logs\"", WORKTREE_FINISHED,
		 "lies behind, a link"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world x;
		world_new(&x);
		world_create(&x);
		sh(&x, "cd \"$TREE\"; %s", cases[i].node);
		world_finish(&x, cases[i].how);
		if (!exists(worktree_path(x.w)) || !strstr(world_said(&x, "worktree_kept", "reason"), cases[i].reason))
			fail_msg("%s: %s", cases[i].node, world_said(&x, "worktree_kept", "reason"));
		assert_string_equal(world_said(&x, "worktree_kept", "path"), worktree_path(x.w));
		world_done(&x);
	}
}

/* A creation that fails leaves neither branch nor tree, and says why. */
static void on_done(void *arg, const struct err *e)
{
	struct world *x = arg;

	x->result = e ? -1 : 0;
	x->err = e ? *e : ERR_INIT;
}

static void test_create_fails(void **state)
{
	(void)state;
	struct world x;
	uv_loop_t loop;

	world_new(&x);
	assert_int_equal(worktree_plan(&x.p, &x.w, &x.err), 0);
	/* The commit's files are gone meanwhile. */
	sh(&x, "rm -f .git/objects/$(git rev-parse HEAD:a.txt | sed 's,^..,&/,')");
	assert_return_code(uv_loop_init(&loop), 0);
	worktree_create(x.w, &loop, on_done, &x);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_return_code(uv_loop_close(&loop), 0);
	assert_int_equal(x.result, -1);
	assert_non_null(strstr(x.err.msg, "worktree: auto: check out the worktree's files: git says:"));
	assert_true(x.err.hint[0]);
	assert_false(exists(worktree_path(x.w)));
	assert_true(sh_says(&x, "git branch --list 'iterion/*'; git worktree list | wc -l", "1"));
	world_done(&x);
}

struct left {
	unsigned n, removed;
	char reason[200];
};

static void on_left(void *arg, const struct worktree_left *l)
{
	struct left *s = arg;

	s->n++;
	s->removed += l->removed;
	(void)snprintf(s->reason, sizeof s->reason, "%s", l->reason);
}

static void test_gc(void **state)
{
	(void)state;
	static const struct {
		const char *node;
		bool force, removed;
		const char *reason;
	} cases[] = {
		{"true", false, true, "its run is over"},
		{"git commit -q --allow-empty -m x", false, true, "its run is over"},
		{"echo o >x.o", false, true, "its run is over"},
		{"echo x >x", false, false, "not committed"},
		{"rm a.txt", false, false, "not committed"},
		{"echo x >x", true, true, "not committed"},
		{"git checkout -q --detach; git commit -q --allow-empty -m x", false, false, "not on the branch"},
		{"rm \"$STORE/runs/run1/worktree.json\"", false, false, "no run's record"},
		{"rm \"$STORE/runs/run1/worktree.json\"", true, true, "no run's record"},
		{"mkdir -p ro/d; echo x >ro/d/x.o; chmod 0 ro/d; chmod 0500 ro", true, true, ""},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world x;
		struct left left = {0};
		size_t n = 99;
		world_new(&x);
		world_create(&x);
		sh(&x, "cd \"$TREE\"; %s", cases[i].node);
		assert_int_equal(worktree_gc(x.store, x.env, cases[i].force, on_left, &left, &n, &x.err), 0);
		if (left.n != 1 || left.removed != cases[i].removed || n != cases[i].removed ||
		    exists(worktree_path(x.w)) == cases[i].removed || !strstr(left.reason, cases[i].reason))
			fail_msg("%s: %s", cases[i].node, left.reason);
		assert_true(sh_says(&x, "git for-each-ref --format='%(refname)' refs/heads/iterion",
				    "refs/heads/iterion/run/nightly"));
		if (cases[i].removed && !strstr(cases[i].node, "worktree.json"))
			assert_true(sh_says(&x, "git worktree list | wc -l", "1"));
		world_done(&x);
	}
}

/* A run that lives keeps its tree, whatever is in it; one that was killed while its tree was made leaves nothing. */
static void test_gc_alive(void **state)
{
	(void)state;
	struct world x;
	struct left left = {0};
	struct store_run *run;
	size_t n;

	world_new(&x);
	const struct store_run_params rp = {.store_dir = x.store,
					    .run_id = "run2",
					    .workflow = "w",
					    .file = "f",
					    .file_sha256 = "0",
					    .workspace = x.repo,
					    .inputs = json_object()};
	assert_int_equal(store_run_create(&rp, &run, &x.err), 0);
	x.p.run_id = "run2";
	world_create(&x);
	assert_int_equal(worktree_gc(x.store, x.env, true, on_left, &left, &n, &x.err), 0);
	assert_int_equal(n, 0);
	assert_non_null(strstr(left.reason, "going on"));
	store_run_free(run);
	sh(&x,
	   "sed -i 's/\"admin\":\"[^\"]*\",//' \"$STORE/runs/run2/worktree.json\"; rm -r \"$TREE\"; mkdir \"$TREE\"");
	assert_int_equal(worktree_gc(x.store, x.env, false, on_left, &left, &n, &x.err), 0);
	assert_int_equal(n, 1);
	assert_true(sh_says(&x, "git worktree list | wc -l", "1"));
	json_decref(rp.inputs);
	world_done(&x);
}

/* Another process goes on in it, and finishes. */
static void test_reopen(void **state)
{
	(void)state;
	struct world x;

	world_new(&x);
	x.p.auto_merge = true;
	x.p.merge_strategy = "squash";
	world_create(&x);
	sh(&x, "echo x >\"$TREE/x\"");
	world_finish(&x, WORKTREE_PAUSED);
	worktree_free(x.w);
	x.p.auto_merge = false;
	x.p.merge_strategy = NULL;
	assert_int_equal(worktree_reopen(&x.p, &x.w, &x.err), 0);
	world_finish(&x, WORKTREE_FINISHED);
	assert_string_equal(world_said(&x, "worktree_merged", "strategy"), "squash");
	assert_true(sh_says(&x, "cat x", "x"));
	worktree_free(x.w);
	x.w = NULL;
	assert_int_equal(worktree_reopen(&x.p, &x.w, &x.err), -ENOENT);
	assert_true(x.err.hint[0]);
	world_done(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),	 cmocka_unit_test(test_refused_places),	 cmocka_unit_test(test_flags),
		cmocka_unit_test(test_create),	 cmocka_unit_test(test_folder_and_name), cmocka_unit_test(test_commit),
		cmocka_unit_test(test_kept),	 cmocka_unit_test(test_create_fails),	 cmocka_unit_test(test_gc),
		cmocka_unit_test(test_gc_alive), cmocka_unit_test(test_reopen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
