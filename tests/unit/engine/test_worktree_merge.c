/* Merging a run's branch: strategies, conflicts, and checkouts of the user that must not lose anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worktree_world.h"

#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <string.h>
#include <unistd.h>

struct merge_case {
	const char *strategy;
	const char *into;      /* NULL: main, which is checked out; "rel" is not */
	const char *node;      /* in the tree */
	const char *meanwhile; /* in the user's checkout */
	const char *reason;    /* why it is not merged; NULL: it is */
	const char *check, *want;
};

static void run_case(const struct merge_case *c)
{
	struct world x;
	bool merged;

	world_new(&x);
	sh(&x, "git branch rel");
	x.p.auto_merge = true;
	x.p.merge_strategy = c->strategy;
	x.p.merge_into = c->into;
	world_create(&x);
	sh(&x, "cd \"$TREE\"; %s", c->node);
	sh(&x, "%s", c->meanwhile);
	char *before = sh_out(&x, "git rev-parse main rel 2>&1; git status --porcelain; git ls-files -s; cat a.txt");
	world_finish(&x, WORKTREE_FINISHED);
	merged = world_event(&x, "worktree_merged") != NULL;
	if (merged == (c->reason != NULL) ||
	    (c->reason && !strstr(world_said(&x, "worktree_kept", "reason"), c->reason)))
		fail_msg("%s, %s, %s: %s", c->strategy, c->node, c->meanwhile,
			 world_said(&x, "worktree_kept", "reason"));
	if (c->reason) {
		char *after =
			sh_out(&x, "git rev-parse main rel 2>&1; git status --porcelain; git ls-files -s; cat a.txt");
		assert_string_equal(before, after);
		free(after);
		assert_true(world_said(&x, "worktree_kept", "hint")[0]);
		assert_int_equal(access(worktree_path(x.w), F_OK), 0);
	} else {
		assert_true(access(worktree_path(x.w), F_OK) < 0);
		assert_true(sh_says(&x, "git for-each-ref --format='%(refname)' refs/heads/iterion | wc -l", "1"));
	}
	free(before);
	if (c->check && !sh_says(&x, c->check, c->want))
		fail_msg("%s, %s, %s", c->strategy, c->node, c->meanwhile);
	assert_true(sh_says(&x, "ls .git/index.lock 2>/dev/null", ""));
	assert_true(sh_says(&x, "git fsck 2>&1 | grep -v dangling", ""));
	world_done(&x);
}

#define TWO "echo n >n; git add n; git commit -qm one; sed -i 's/^20$/twenty/' a.txt; git commit -qam two"
#define OTHER "sed -i 's/^1$/one/' a.txt; git commit -qam other"

static void test_strategies(void **state)
{
	(void)state;
	static const char log[] = "git log --format=%s main | tr '\\n' ' '";
	static const char rel_log[] = "git status --porcelain; git log --format=%s rel | tr '\\n' ' '";
	static const struct merge_case cases[] = {
		/* As it was, checked out. */
		{"merge", NULL, TWO, "true", NULL,
		 "git status --porcelain; git log --first-parent --format=%s | head -1",
		 "Merge branch 'iterion/run/nightly' into main"},
		{"squash", NULL, TWO, "true", NULL, log, "iterion: run nightly first "},
		{"rebase", NULL, TWO, "true", NULL, log, "two one first "},
		{"ff-only", NULL, TWO, "true", NULL, log, "two one first "},
		{"ff-only", NULL, TWO, "true", NULL,
		 "git status --porcelain; cat n; tail -1 a.txt | tr '\\n' ' '; "
		 "git rev-parse main iterion/run/nightly | uniq | wc -l",
		 "n\ntwenty 1"},
		{"ff-only", NULL, "echo x >x", "true", NULL, "cat x", "x"},
		{NULL, NULL, "echo x >x", "true", NULL, "git rev-list --parents -1 main | wc -w", "3"},
		/* With a commit of the user meanwhile. */
		{"merge", NULL, TWO, OTHER, NULL, "git status --porcelain; sed -n '1p;20p' a.txt | tr '\\n' ' '",
		 "one twenty "},
		{"squash", NULL, TWO, OTHER, NULL, log, "iterion: run nightly other first "},
		{"rebase", NULL, TWO, OTHER, NULL, log, "two one other first "},
		{"ff-only", NULL, TWO, OTHER, "has commits that the run's branch does not have", log, "other first "},
		/* Into a branch that nobody has checked out. */
		{"merge", "rel", TWO, "true", NULL, "git status --porcelain; git show rel:n", "n"},
		{"rebase", "rel", TWO, OTHER, NULL, rel_log, "two one first "},
		{"squash", "rel", TWO, OTHER, NULL, rel_log, "iterion: run nightly first "},
		/* Nothing to merge; a change that is there already. */
		{"merge", NULL, "true", "true", NULL, log, "first "},
		{"rebase", NULL, TWO, "echo n >n; git add n; git commit -qm same", NULL, log, "two same first "},
		/* Authors stay when rebased. */
		{"rebase", NULL,
		 "echo q >q; git add q; GIT_AUTHOR_DATE='@1000000000 +0130' git commit -q --author='Bob "
		 "<b@x>' -m 'q' -m 'more  text'",
		 OTHER, NULL, "git log -1 --format='%an|%ae|%ad|%cn|%B' --date=raw",
		 "Bob|b@x|1000000000 +0130|Ann|q\n\nmore  text"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		run_case(&cases[i]);
}

/* Nothing of the user's is touched when it cannot be. */
static void test_not_merged(void **state)
{
	(void)state;
	static const char conflict[] = "sed -i 's/^20$/xx/' a.txt; git commit -qam other";
	static const struct merge_case cases[] = {
		{"merge", NULL, TWO, conflict, "conflicts with main in a.txt",
		 "git log -1 --format=%s iterion/run/nightly", "two"},
		{"squash", NULL, TWO, conflict, "conflicts with main in a.txt", NULL, NULL},
		{"rebase", NULL, TWO, conflict, "conflicts with main in a.txt", NULL, NULL},
		{"rebase", NULL,
		 "git checkout -qb s; git commit -q --allow-empty -m s; git checkout -q "
		 "iterion/run/nightly; git commit -q --allow-empty -m t; git merge -q s -m m",
		 OTHER, "merges of its own", NULL, NULL},
		/* Not committed, staged, in the way, at work. */
		{"merge", NULL, TWO, "echo mine >>a.txt", "a.txt there has changes that are not committed",
		 "tail -1 a.txt", "mine"},
		{"merge", NULL, TWO, "rm b.txt", "b.txt there has changes", NULL, NULL},
		{"merge", NULL, TWO, "echo mine >s; git add s", "s there has changes", "git diff --cached --name-only",
		 "s"},
		{"merge", NULL, TWO, "echo mine >n", "cannot be brought along", "cat n", "mine"},
		{"merge", NULL, TWO, "touch .git/MERGE_HEAD", "a merge is under way", "rm .git/MERGE_HEAD", ""},
		{"merge", NULL, TWO, "git worktree add -q ../far rel", NULL, NULL, NULL},
		{"merge", "rel", TWO, "git worktree add -q ../far rel", "not where the run was started",
		 "git -C ../far status --porcelain", ""},
		{"merge", "rel", TWO, "git branch -q -m rel was", "the branch rel is gone", NULL, NULL},
		/* An index that claims that a changed file is as it was. */
		{"merge", NULL, TWO, "git update-index --assume-unchanged a.txt; echo mine >>a.txt",
		 "a.txt there has changes", "tail -1 a.txt", "mine"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		run_case(&cases[i]);
}

/* A git of the user that is at work is waited for by nobody, and its lock stays. */
static void test_locked(void **state)
{
	(void)state;
	struct world x;

	world_new(&x);
	x.p.auto_merge = true;
	world_create(&x);
	sh(&x, "echo x >\"$TREE/x\"; touch .git/index.lock");
	world_finish(&x, WORKTREE_FINISHED);
	assert_non_null(strstr(world_said(&x, "worktree_kept", "reason"), "index.lock"));
	assert_int_equal(sh_code(&x, "test -e .git/index.lock"), 0);
	world_done(&x);
}

/* A file that the user's ignore list hides, and that the merge would bring. */
static void test_ignored_in_the_way(void **state)
{
	(void)state;
	struct world x;

	world_new(&x);
	x.p.auto_merge = true;
	world_create(&x);
	sh(&x, "cd \"$TREE\"; echo theirs >x.o; git add -f x.o; git commit -qm o");
	sh(&x, "echo mine >x.o");
	world_finish(&x, WORKTREE_FINISHED);
	assert_non_null(strstr(world_said(&x, "worktree_kept", "reason"), "cannot be brought along"));
	assert_true(sh_says(&x, "cat x.o", "mine"));
	world_done(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strategies),
		cmocka_unit_test(test_not_merged),
		cmocka_unit_test(test_locked),
		cmocka_unit_test(test_ignored_in_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
