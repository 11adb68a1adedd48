/* A repository, a store, and a worktree object to try things with. */
#pragma once

#include <base/err.h>
#include <engine/worktree.h>
#include <jansson.h>
#include <stdbool.h>

struct world {
	char *top;  /* everything lies below it */
	char *repo; /* a checkout of main with a.txt, b.txt and sub/c.txt */
	char *store;
	char *run_dir;
	const char *env[8];
	struct worktree_params p;
	struct worktree *w;
	json_t *events;
	struct err err; /* of the latest step */
	int result;
};

void world_new(struct world *x);
void world_done(struct world *x);

/* A shell command with $REPO, $STORE, $TREE, $TOP set, the way the user or a node would run it; fails the test when it
 * fails. */
void sh(const struct world *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Its exit code. */
int sh_code(const struct world *x, const char *script);
/* What it prints, without the last newline; the caller frees. */
char *sh_out(const struct world *x, const char *script);
bool sh_says(const struct world *x, const char *script, const char *want);

/* worktree_plan and worktree_create; asserts that both work. */
void world_create(struct world *x);
void world_finish(struct world *x, enum worktree_end how);
/* The first event of a type, its data; NULL. */
json_t *world_event(const struct world *x, const char *type);
/* A member of it that is a string, or "". */
const char *world_said(const struct world *x, const char *type, const char *key);
