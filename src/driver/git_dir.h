/* The repository of a workspace that is a git worktree. */
#pragma once

/* The common git folder of the worktree at workspace (absolute, resolved), when that lies outside of it; NULL: the
 * workspace is none, or its folder of the repository does not know it. The caller frees. */
char *git_common_dir(const char *workspace);
