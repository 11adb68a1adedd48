/* Where a command works: the workspace and the store. */
#pragma once

struct err;

/* The workspace: dir (NULL: the current folder), absolute with symlinks resolved; the caller frees. It must be a folder
 * that exists. */
int place_workspace(const char *dir, char **ret, struct err *e) __attribute__((warn_unused_result));

/* The store for that workspace (--store-dir, the repository's .iterion, $ITERION_HOME, ~/.iterion); the caller frees.
 * Creates nothing. */
int place_store(const char *store_dir, const char *workspace, char **ret, struct err *e)
	__attribute__((warn_unused_result));

/* Something is run in this store: one in a workspace is known as the user's own from now on. */
void place_keep_store(const char *store);

/* The store as seen from the current folder, for commands that only read. */
int place_store_here(const char *store_dir, char **ret, struct err *e) __attribute__((warn_unused_result));
