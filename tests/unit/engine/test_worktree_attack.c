/* What a hostile run writes into the repository must not run on the host, nor lead git's hand elsewhere.
 *
 * Each attack is first shown to work against the git that the user would use; then the run is finished, with a commit
 * and a merge into the user's checkout, and nothing may have run. */
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

/* $E notes its call and passes its input on. */
#define EVIL                                                                                                           \
	"E=\"$TOP/evil\"; printf '#!/bin/sh\\necho \"$0 $*\" >>\"%%s\"\\ncat\\n' \"$TOP/ran\" >\"$E\"; chmod +x "      \
	"\"$E\"; "                                                                                                     \
	"G=\"$REPO/.git\"; C=\"git config --file $G/config\"; "

struct attack {
	const char *name;
	const char *plant; /* as a node, in the tree */
	const char *works; /* a command of the user that falls for it; NULL: none is needed */
	bool before;	   /* it was planted by an earlier run */
	const char *heal;  /* what the user does before he goes on; NULL: nothing */
};

static const char ordinary_use[] =
	"(git status; git add -A; git commit -m x; git diff HEAD~1; git checkout -q -b y; git "
	"merge iterion/run/nightly) >/dev/null 2>&1 </dev/null; test -s \"$TOP/ran\"";

static const struct attack attacks[] = {
	{"hooks",
	 "mkdir -p $G/hooks; for h in applypatch-msg pre-commit prepare-commit-msg commit-msg post-commit "
	 "pre-merge-commit "
	 "post-merge pre-rebase post-checkout post-rewrite post-index-change reference-transaction pre-push "
	 "fsmonitor-watchman pre-auto-gc update pre-receive post-receive post-update sendemail-validate; do cp $E "
	 "$G/hooks/$h; done",
	 ordinary_use, false, NULL},
	{"hooksPath",
	 "mkdir $TOP/h; for h in post-checkout post-index-change reference-transaction; do cp $E $TOP/h/$h; "
	 "done; $C core.hooksPath $TOP/h",
	 ordinary_use, false, NULL},
	{"fsmonitor", "$C core.fsmonitor $E", ordinary_use, false, NULL},
	{"filter",
	 "$C filter.f.clean $E; $C filter.f.smudge $E; $C filter.f.process $E; $C filter.f.required true; echo "
	 "'* filter=f' >$G/info/attributes",
	 ordinary_use, false, NULL},
	{"merge driver", "$C merge.m.driver \"$E %O %A %B\"; echo '* merge=m' >$G/info/attributes; $C merge.default m",
	 "(cd $TREE; sed -i 's/^20$/w/' a.txt; git commit -qam w); git checkout -q b.txt; git checkout -q -b z; sed -i "
	 "'s/^20$/z/' a.txt; git commit -qam z; git merge iterion/run/nightly >/dev/null "
	 "2>&1; test -s \"$TOP/ran\"",
	 false, NULL},
	{"diff drivers",
	 "$C diff.external $E; $C diff.d.textconv $E; $C diff.d.command $E; echo '* diff=d' "
	 ">$G/info/attributes",
	 ordinary_use, false, NULL},
	{"aliases and helpers",
	 "for a in status read-tree update-index diff-files ls-files write-tree commit-tree update-ref merge-tree; do "
	 "$C "
	 "alias.$a \"!$E\"; done; $C gpg.program $E; $C commit.gpgSign true; $C core.editor $E; $C sequence.editor $E; "
	 "$C "
	 "core.pager $E; for p in status diff log ls-files; do $C pager.$p $E; done; $C core.sshCommand $E; $C "
	 "core.gitProxy $E; $C core.askPass $E; $C credential.helper \"!$E\"; $C core.alternateRefsCommand $E; $C "
	 "trailer.x.command $E; $C trailer.x.cmd $E; $C uploadpack.packObjectsHook $E; $C interactive.diffFilter $E; "
	 "$C "
	 "browser.x.cmd $E; $C gc.auto 1; $C core.commentChar '#'",
	 "git commit -q --allow-empty -m x >/dev/null 2>&1; test -s \"$TOP/ran\"", false, NULL},
	{"include", "printf '[core]\\n\\tfsmonitor = %%s\\n' $E >$G/more; $C include.path more", ordinary_use, false,
	 NULL},
	{"worktree configuration",
	 "$C extensions.worktreeConfig true; printf '[core]\\n\\tfsmonitor = %%s\\n' $E | tee "
	 "$G/config.worktree >$G/worktrees/run1/config.worktree",
	 ordinary_use, false, NULL},
	{"promisor",
	 "$C extensions.partialClone o; $C core.repositoryFormatVersion 1; $C remote.o.url ext::$E; $C "
	 "remote.o.promisor true; $C protocol.ext.allow always; $C protocol.allow always; $C "
	 "remote.o.uploadpack $E; rm -f $G/objects/$(git rev-parse HEAD:b.txt | sed 's,^..,&/,')",
	 "timeout 2 git cat-file -p HEAD:b.txt >/dev/null 2>&1; test -s \"$TOP/ran\"", false, NULL},
	{"another common folder",
	 "mkdir $G/x; cp -r $G/objects $G/refs $G/HEAD $G/x/; git config --file $G/x/config "
	 "core.fsmonitor $E; echo x >$G/commondir",
	 ordinary_use, false, NULL},
	{"the tree's own .git",
	 "cp -r $G \"$TREE/new\"; rm \"$TREE/.git\"; mv \"$TREE/new\" \"$TREE/.git\"; git config "
	 "--file \"$TREE/.git/config\" core.fsmonitor $E",
	 "cd \"$TREE\"; git status >/dev/null 2>&1; test -s \"$TOP/ran\"", false, NULL},
	{"a repository in the tree",
	 "git init -q \"$TREE/in\"; git -C \"$TREE/in\" commit -q --allow-empty -m x; git "
	 "config --file \"$TREE/in/.git/config\" core.fsmonitor $E; cd \"$TREE\"; git "
	 "update-index --add --cacheinfo 160000,$(git -C in rev-parse HEAD),in; git commit -qm "
	 "in",
	 "git -C \"$TREE\" status >/dev/null 2>&1; test -s \"$TOP/ran\"", false, NULL},
	{"a core.worktree", "$C core.worktree $TOP/elsewhere; mkdir $TOP/elsewhere", NULL, false,
	 "git config --file .git/config --unset core.worktree"},
	{"filters of an earlier run",
	 "$C filter.f.smudge $E; $C filter.f.clean $E; echo '* filter=f' >$G/info/attributes; "
	 "$C core.fsmonitor $E; mkdir -p $G/hooks; for h in post-checkout "
	 "reference-transaction post-index-change; do cp $E $G/hooks/$h; done",
	 ordinary_use, true, NULL},
};

static void plant(const struct world *x, const struct attack *a)
{
	char *script = xasprintf(EVIL "%s", x->w ? "cd \"$TREE\"; " : "");
	/* The macro's and the plant's percent signs are doubled for printf's sake. */
	char *text = xasprintf("%s%s", script, a->plant);
	char *p, *q;

	for (p = q = text; *p; *q++ = *p++)
		if (p[0] == '%' && p[1] == '%')
			p++;
	*q = '\0';
	sh(x, "%s", text);
	free(text);
	free(script);
}

static void attack_once(const struct attack *a, const char *strategy, bool show)
{
	struct world x;

	world_new(&x);
	if (a->before)
		plant(&x, a);
	x.p.auto_merge = !show;
	x.p.merge_strategy = show ? NULL : strategy;
	world_create(&x);
	if (!a->before)
		plant(&x, a);
	if (!show) {
		/* Work that is committed and work that is not; the first two by plain file writes. */
		sh(&x, "rm -f \"$TOP/ran\"; cd \"$TREE\"; echo work >work; sed -i 's/^20$/w/' a.txt");
		world_finish(&x, WORKTREE_FINISHED);
		if (sh_code(&x, "test -e \"$TOP/ran\"") == 0) {
			sh(&x, "cat \"$TOP/ran\"");
			fail_msg("%s, %s: it ran on the host", a->name, strategy);
		}
		if (!world_event(&x, "worktree_merged") && !world_event(&x, "worktree_kept"))
			fail_msg("%s: no end", a->name);
	} else if (a->works) {
		sh(&x, "rm -f \"$TOP/ran\"; echo work >>b.txt");
		if (sh_code(&x, a->works) != 0)
			fail_msg("%s: the attack does not work in the first place", a->name);
	}
	world_done(&x);
}

static void test_nothing_runs(void **state)
{
	(void)state;
	static const char *const strategies[] = {"merge", "rebase", "ff-only"};

	for (size_t i = 0; i < ARRAY_LEN(attacks); i++) {
		attack_once(&attacks[i], NULL, true);
		for (size_t k = 0; k < ARRAY_LEN(strategies); k++)
			attack_once(&attacks[i], strategies[k], false);
	}
}

/* The usual ones do not even keep the run from ending well, and the user is told what changed. */
static void test_still_merged(void **state)
{
	(void)state;
	static const char *const merged[] = {"hooks",	     "hooksPath", "fsmonitor",		"merge driver",
					     "diff drivers", "include",	  "aliases and helpers"};

	for (size_t i = 0; i < ARRAY_LEN(merged); i++) {
		struct world x;
		const struct attack *a = attacks;
		while (!str_eq(a->name, merged[i]))
			a++;
		world_new(&x);
		x.p.auto_merge = true;
		world_create(&x);
		plant(&x, a);
		sh(&x, "echo work >\"$TREE/work\"");
		world_finish(&x, WORKTREE_FINISHED);
		if (!world_event(&x, "worktree_merged"))
			fail_msg("%s: %s", a->name, world_said(&x, "worktree_kept", "reason"));
		const json_t *files = json_object_get(world_event(&x, "worktree_warning"), "files");
		assert_true(json_array_size(files) > 0);
		world_done(&x);
	}
}

/* Where the host's git would write through a link. $OUT must stay as it is. */
static void test_links(void **state)
{
	(void)state;
	static const char *const plants[] = {
		"mv .git/refs/heads .git/h; ln -s ../../out .git/refs/heads; cp -r .git/h/. ../out/",
		"mv .git/refs/heads/iterion/run ../r; ln -s ../../../../../out .git/refs/heads/iterion/run; cp ../r/* "
		"../out/",
		"rm .git/logs/HEAD; ln -s ../../../out/rc .git/logs/HEAD",
		"rm .git/logs/HEAD; ln ../out/rc .git/logs/HEAD",
		"rm .git/logs/refs/heads/main; ln -s ../../../../../out/rc .git/logs/refs/heads/main",
		"mv .git/objects ../o; ln -s ../../o .git/objects",
		"rm -rf .git/objects/pack; ln -s ../../../out .git/objects/pack",
		"rm .git/index; ln -s ../../out/rc .git/index",
		"for i in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do for j in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do test -e "
		".git/objects/$i$j || ln -s ../../../out .git/objects/$i$j; done; done",
	};

	for (size_t i = 0; i < ARRAY_LEN(plants); i++) {
		struct world x;
		world_new(&x);
		sh(&x, "mkdir \"$TOP/out\"; echo mine >\"$TOP/out/rc\"");
		x.p.auto_merge = true;
		world_create(&x);
		sh(&x, "echo work >\"$TREE/work\"");
		sh(&x, "%s", plants[i]);
		char *before = sh_out(&x, "cd \"$TOP/out\"; find . -type f | sort | xargs sha256sum");
		world_finish(&x, WORKTREE_FINISHED);
		char *after = sh_out(&x, "cd \"$TOP/out\"; find . -type f | sort | xargs sha256sum");
		if (!str_eq(before, after))
			fail_msg("%s:\n%s\n%s", plants[i], before, after);
		free(before);
		free(after);
		world_done(&x);
	}
}

/* Entries of checkouts that are none: nothing is written where they point. */
static void test_forged_checkout(void **state)
{
	(void)state;
	struct world x;

	world_new(&x);
	sh(&x, "git branch rel; mkdir \"$TOP/out\"; echo mine >\"$TOP/out/a.txt\"");
	x.p.auto_merge = true;
	x.p.merge_into = "rel";
	world_create(&x);
	sh(&x,
	   "echo work >\"$TREE/work\"; mkdir .git/worktrees/f; echo \"$TOP/out/.git\" >.git/worktrees/f/gitdir; echo "
	   "../.. >.git/worktrees/f/commondir; echo ref: refs/heads/rel >.git/worktrees/f/HEAD; echo gitdir: "
	   "\"$REPO/.git/worktrees/f\" >\"$TOP/out/.git\"");
	world_finish(&x, WORKTREE_FINISHED);
	assert_non_null(strstr(world_said(&x, "worktree_kept", "reason"), "not where the run was started"));
	assert_true(sh_says(&x, "cd \"$TOP/out\"; ls; cat a.txt", "a.txt\nmine"));
	world_done(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_runs),
		cmocka_unit_test(test_still_merged),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_forged_checkout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
