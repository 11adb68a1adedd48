/* ${…} variables in mounts and environment values. */
#pragma once

struct sandbox_vars {
	const char *const *env;		 /* of the host, "NAME=value", NULL-terminated; for ${localEnv:NAME} */
	const char *workspace;		 /* on the host, absolute; for ${localWorkspaceFolder} */
	const char *container_workspace; /* where it stands inside; NULL: at the same path */
};

/* A new string with ${localEnv:NAME}, ${localEnv:NAME:default}, ${localWorkspaceFolder}, ${containerWorkspaceFolder}
 * and the …Basename of both replaced. A variable that is not set is empty; what is no variable of these stays as it is.
 * The caller frees. Source: https://containers.dev/implementors/json_reference/#variables-in-devcontainerjson */
char *sandbox_vars_expand(const struct sandbox_vars *v, const char *text) __attribute__((returns_nonnull));
