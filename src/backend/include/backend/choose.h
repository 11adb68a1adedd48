/* Which backend a node has. */
#pragma once

/* Who says so; NULL where nothing was said. */
struct backend_wish {
	const char *node;	/* its own backend: */
	const char *workflow;	/* default_backend: */
	const char *const *env; /* of the host, NULL-terminated */
};
/* The name of the backend: the node's, the workflow's, ITERION_DEFAULT_BACKEND, the first of ITERION_BACKEND_PREFERENCE
 * whose credentials are found on the host, else claw. *ret_source (static) says who decided. The caller frees. */
char *backend_choose(const struct backend_wish *w, const char **ret_source) __attribute__((returns_nonnull));
