/* What the parts of the worktree module share. */
#pragma once

#include "worktree_git.h"

#include <engine/worktree.h>
#include <sys/stat.h>

enum { OID_SIZE = 65 };

/* One step of a chain: asks git something and hears the answer, or does something by itself. */
struct step {
	/* Fills the command; NULL or an empty command: nothing is run, and answer gets a NULL. */
	void (*ask)(struct worktree *w, struct git_command *c);
	/* 0: go on; CHAIN_END: that was all; -errno: it failed. NULL: the exit code must be 0. */
	int (*answer)(struct worktree *w, const struct git_answer *a, struct err *e);
	const char *what; /* for the message when there is no answer function */
	/* Blocking work of the file system, outside of the loop's thread; instead of ask. */
	void (*work)(struct worktree *w);
};
enum { CHAIN_END = 1 };
typedef void (*chain_done_cb)(struct worktree *w, int r, const struct err *e);

enum merge_strategy { MERGE_MERGE, MERGE_SQUASH, MERGE_REBASE, MERGE_FF_ONLY };

struct identity {
	char *name, *email;
	bool local; /* the repository's own configuration says so: git finds it by itself */
};

/* What rebase has under way. */
struct rebase {
	struct strv commits; /* to do, oldest first: "commit parent" */
	size_t next;
	char commit[OID_SIZE], parent[OID_SIZE]; /* the one at work */
	char before[OID_SIZE];			 /* the files of the latest result, as a child of parent */
	char tree[OID_SIZE];			 /* of the latest result */
	char *author, *email, *date, *message;
};

struct worktree {
	struct worktree_params p;
	/* Found by the plan, and kept in the run's folder. */
	char *git;     /* the program */
	char *run_dir; /* <store>/runs/<id> */
	char *room;    /* the git folder that nobody inside can write (worktree_room.c) */
	char *tree;    /* <store>/worktrees/<id> */
	char *common;  /* the repository's common git folder */
	char *admin;   /* the tree's own folder in it; NULL until it is made */
	char *top;     /* the user's checkout that the workspace lies in */
	char *top_git; /* its git folder */
	char *prefix;  /* the workspace relative to it; "" or "a/b" */
	char *workspace;
	char *branch;	/* without refs/heads/ */
	char *target;	/* the same; NULL: nothing is merged */
	char *excludes; /* the user's ignore file, or NULL */
	char *autocrlf, *eol;
	char *format; /* sha1, sha256 */
	char base[OID_SIZE];
	enum merge_strategy strategy;
	struct identity who;
	json_t *marks, *marks_now; /* the files that decide what git runs, before and after (worktree_marks.c) */

	/* The chain under way. */
	uv_loop_t *loop;
	const struct step *steps;
	size_t n_steps, at;
	chain_done_cb chain_done, merge_done;
	struct git_job *job;
	uv_work_t work;
	worktree_done_cb done;
	void *done_arg;
	struct err failure;	  /* of a step's blocking work */
	struct err first_failure; /* of a creation that is being undone */
	enum worktree_end end;

	/* What a finish has found. */
	char tip[OID_SIZE];	  /* the branch's commit */
	char old[OID_SIZE];	  /* the target's commit */
	char result[OID_SIZE];	  /* what the target becomes */
	char oid[OID_SIZE];	  /* of the latest step */
	struct buf changed, gone; /* paths with changes, and those without a file now, NUL-terminated each */
	struct strv nested;	  /* repositories inside the tree, which are left out */
	bool merged, up_to_date;
	bool target_here;      /* the target is checked out in top */
	bool roll_back;	       /* the checkout was changed, and the target could not be moved */
	int lock_fd;	       /* of top's index; -1: not taken */
	char *reason, *advice; /* why the tree is kept */
	struct rebase rebase;
};

/* --- worktree_chain.c --- */

/* Takes one step after the other; done is called from the loop, or at once when the first fails. */
void chain_run(struct worktree *w, const struct step *steps, size_t n, chain_done_cb done);
/* The words for a git that failed: "what: its words". Returns -errno. */
int git_failed(const struct git_answer *a, struct err *e, const char *what);
void git_args(struct git_command *c, const char *const *words);
#define GIT_ARGS(c, ...) git_args(c, (const char *const[]){__VA_ARGS__, NULL})
/* An answer that is one object id. */
int read_oid(const struct git_answer *a, char ret[OID_SIZE], struct err *e, const char *what);
/* The chain ends well without its goal: the tree is kept for that reason. Returns CHAIN_END. */
int keep_because(struct worktree *w, const char *advice, const char *reason, ...) __attribute__((format(printf, 3, 4)));

/* --- worktree_room.c --- */

/* The environment of a git that reads the user's own configuration: only for questions before the run. */
void room_ask_env(const struct worktree *w, struct git_command *c);
/* git at the repository itself: references only. */
void room_real(const struct worktree *w, struct git_command *c);
/* git in the room, with an index and a work tree (either may be NULL). */
void room_clean(const struct worktree *w, struct git_command *c, const char *index, const char *tree);
/* Makes the room's folder and files. */
int room_make(const struct worktree *w, struct err *e) __attribute__((warn_unused_result));
/* Who author and committer are, in a git command's environment. */
void room_identity(const struct worktree *w, struct git_command *c);
/* <room>/name; the caller frees. */
char *room_file(const struct worktree *w, const char *name);
/* Whether what git will write to in the common folder is what it looks like: no symlink on the way. */
int room_check_layout(const struct worktree *w, const char *branch, struct err *e) __attribute__((warn_unused_result));
/* The value of a name, or NULL. */
const char *host_value(const struct worktree *w, const char *name);

/* --- worktree_record.c --- */

int record_save(const struct worktree *w, struct err *e) __attribute__((warn_unused_result));
/* -ENOENT: the run has no worktree. */
int record_load(struct worktree *w, struct err *e) __attribute__((warn_unused_result));
struct worktree *worktree_new(const struct worktree_params *p);

/* --- worktree_marks.c --- */

/* What decides which programs git runs for this repository; a new object. */
json_t *marks_take(const struct worktree *w);
/* Says by an event what has changed since. */
void marks_compare(const struct worktree *w);

/* --- worktree_commit.c --- */

/* Steps that find what is on no commit: into changed. */
extern const struct step worktree_look_steps[];
extern const size_t worktree_look_n;
/* Steps that commit it. */
extern const struct step worktree_commit_steps[];
extern const size_t worktree_commit_n;

/* --- worktree_merge.c, worktree_rebase.c, worktree_target.c --- */

void merge_run(struct worktree *w, chain_done_cb done);
/* The tree is kept because of conflicts, which merge-tree's answer names. Returns CHAIN_END. */
int merge_conflict(struct worktree *w, const struct git_answer *a);

/* Steps that put the branch's commits on top of old, one by one; result is the last. */
extern const struct step worktree_rebase_steps[];
extern const size_t worktree_rebase_n;
void rebase_clear(struct rebase *r);

/* Steps that move the target from old to result, in the user's checkout too when it is there. */
extern const struct step worktree_target_steps[];
extern const size_t worktree_target_n;
void target_unlock(struct worktree *w);

/* Whether a merge, rebase or the like is under way in a git folder; its name, or NULL. */
const char *operation_under_way(const char *git_dir);
/* Removes the tree and its entry in the repository; a failure goes to w->failure. */
void tree_take_away(struct worktree *w);

void worktree_emit(const struct worktree *w, const char *type, json_t *data);
