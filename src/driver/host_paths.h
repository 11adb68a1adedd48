/* Which of the host's folders a session's sandbox may have. */
#pragma once

struct err;
struct sandbox_spec;
struct session_params;

/* Checks the workspace and every bind of the spec against the places that no sandbox may have, with all symlinks
 * resolved, and puts the resolved paths into the spec: those are mounted, and nothing is looked up again by another
 * name. Returns 0, or -errno with which path, why, and what to do. */
int host_paths_check(const struct session_params *p, struct sandbox_spec *spec, struct err *e)
	__attribute__((warn_unused_result));

/* When the workspace is a git worktree whose repository lies elsewhere: adds a mount of that at its own path, so that
 * git works inside. Where that may not be had the spec gets a warning instead. */
void host_paths_add_git(const struct session_params *p, struct sandbox_spec *spec);

struct host_state_plan;

/* Chooses what of the user's own state is shared; makes nothing. Returns 0 or -errno. */
int host_paths_state(const struct session_params *p, struct host_state_plan *ret, struct err *e)
	__attribute__((warn_unused_result));

/* When the user's own store lies in the workspace, and is not the one that is hidden there: makes its private parts
 * exist, and adds covers for where they are inside. */
int host_paths_cover_own_store(const struct session_params *p, const char *workspace_target, const char *hidden,
			       struct host_state_plan *plan, struct err *e) __attribute__((warn_unused_result));

/* Makes what must be covered exist, only within the run store's own folder: a place is covered before somebody else
 * makes it. */
int host_paths_make_covers(const struct host_state_plan *plan, struct err *e) __attribute__((warn_unused_result));
