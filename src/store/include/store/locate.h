/* Where the store of a run lies. */
#pragma once

#include <stdbool.h>

struct err;

/* What decides it, in this order; each may be NULL. */
struct store_where {
	const char *store_dir;	     /* --store-dir */
	const char *workspace_store; /* a .iterion folder of the repository (store_find_in_workspace) */
	const char *iterion_home;    /* $ITERION_HOME */
	const char *home;	     /* $HOME */
	const char *cwd;	     /* what a relative store_dir or iterion_home is relative to */
};

/* The absolute, clean path of the store, which need not exist; the caller frees. Touches nothing. Returns 0, or
 * -EINVAL when nothing names a place. */
int store_locate(const struct store_where *w, char **ret, struct err *e) __attribute__((warn_unused_result));

/* The .iterion folder of the repository that holds workspace (absolute): looked for in the workspace and its parents,
 * up to the first that holds .git; outside of a repository in the workspace alone. It must be a folder (no link) that
 * belongs to this user and that take accepts. NULL when there is none; the caller frees. home's own .iterion is not
 * one.
 */
char *store_find_in_workspace(const char *workspace, const char *home, bool (*take)(void *arg, const char *store),
			      void *arg);

/* Whether a store in a workspace was marked as this user's own, by the key of the user's own store (home_store). */
bool store_is_known(const char *store, const char *home_store);
/* Marks it. 0 or -errno. */
int store_keep_known(const char *store, const char *home_store, struct err *e) __attribute__((warn_unused_result));
bool store_has_runs(const char *store);
