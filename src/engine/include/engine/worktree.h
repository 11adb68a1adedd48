/* A run's own git worktree, on a branch of its own (workflow `worktree: auto`; docs/worktree.md). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct err;
struct sandbox_spec;
struct worktree;

/* Everything is borrowed for as long as the worktree object lives. */
struct worktree_params {
	const char *workspace; /* absolute, resolved: in the repository that the tree is made from */
	const char *store_dir; /* absolute */
	const char *run_id;
	const char *run_name;	     /* NULL: none */
	const char *const *host_env; /* NULL-terminated: PATH, HOME, and the names that git knows for identities */
	const char *branch;	     /* --branch-name; NULL: iterion/run/<name, or id> */
	bool auto_merge;	     /* --auto-merge: merge when the run finished */
	const char *merge_into;	     /* --merge-into; NULL: the branch that is checked out in the workspace */
	const char *merge_strategy;  /* --merge-strategy: merge, squash, rebase or ff-only; NULL: merge */
	/* worktree_created, worktree_merged, worktree_kept, worktree_warning; data is taken. */
	void (*on_event)(void *arg, const char *type, json_t *data);
	void *arg;
};

/* The words of --merge-strategy, NULL-terminated. */
extern const char *const worktree_strategies[];

/* Whether the flags go together, and with a workflow that has, or has not, worktree: auto. Looks at nothing else. */
int worktree_check_flags(const struct worktree_params *p, bool wanted, struct err *e)
	__attribute__((warn_unused_result));

/* The folder in a run's tree that will stand for the workspace: what the run's file means by it, which is read before
 * the tree is planned. workspace is absolute; in no repository it is the tree itself. The caller frees. */
char *worktree_place(const char *store_dir, const char *run_id, const char *workspace) __attribute__((returns_nonnull));

/* Finds out, without changing anything, whether a worktree can be made, and how: git, repository, commit, branch,
 * target. Waits for a few short runs of git, so it is for the time before the loop runs. Returns 0, or -errno with a
 * message of kind PREFLIGHT. */
int worktree_plan(const struct worktree_params *p, struct worktree **ret, struct err *e)
	__attribute__((warn_unused_result));

/* Takes up the worktree that an earlier process made for this run, to go on in it. -ENOENT when the run has none or the
 * tree is gone. Flags of p that are NULL or false are as they were then. */
int worktree_reopen(const struct worktree_params *p, struct worktree **ret, struct err *e)
	__attribute__((warn_unused_result));

typedef void (*worktree_done_cb)(void *arg, const struct err *e);

/* Makes branch and tree; done comes later, from the loop, once. On failure nothing stays behind. */
void worktree_create(struct worktree *w, uv_loop_t *loop, worktree_done_cb done, void *arg);

/* How the run ended, for its worktree. */
enum worktree_end {
	WORKTREE_FINISHED, /* commits what is left, merges if asked, removes the tree; the branch stays */
	WORKTREE_FAILED,   /* the tree stays as it is, to be looked at */
	WORKTREE_PAUSED,   /* the same; the run goes on later */
};

/* Only after every program in the tree has ended. done comes later, from the loop, once; e is NULL also when the merge
 * was not possible: the work is safe on its branch, and an event says what to do. */
void worktree_finish(struct worktree *w, enum worktree_end how, uv_loop_t *loop, worktree_done_cb done, void *arg);

/* Ends the git that is at work; its step then fails. */
void worktree_interrupt(struct worktree *w);

/* Absolute: the folder in the tree that stands for the workspace; the tree; its branch. */
const char *worktree_workspace(const struct worktree *w);
const char *worktree_path(const struct worktree *w);
const char *worktree_branch(const struct worktree *w);

/* Adds what git needs inside a sandbox: the common git folder at its own path, and who commits. */
void worktree_fill_spec(const struct worktree *w, struct sandbox_spec *spec);

/* Not between a call and its done. NULL is accepted. */
void worktree_free(struct worktree *w);

/* --- what dead runs left (`sandbox gc`) --- */

struct worktree_left {
	const char *run_id;
	const char *path;
	bool removed;
	const char *reason; /* why it was kept, or removed */
};

/* Removes the trees of runs that have ended or whose process is gone. Kept are: trees of runs that live or are paused,
 * and, unless force, those with work that is on no branch. Branches are never removed. Calls each for every tree;
 * *ret_removed counts. Runs a loop of its own. */
int worktree_gc(const char *store_dir, const char *const *host_env, bool force,
		void (*each)(void *arg, const struct worktree_left *left), void *arg, size_t *ret_removed,
		struct err *e) __attribute__((warn_unused_result));
