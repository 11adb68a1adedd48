/* An agent's program where its nodes run. */
#pragma once

struct backend_ops;
struct sandbox_spec;

/* What a backend starts where its nodes run. */
struct backend_program {
	const char *name;	/* looked for on the PATH … */
	const char *below_home; /* … and at this path below HOME; NULL: nowhere else */
};

/* Where the program really is on the host, links followed; NULL when it is not there. The caller frees. */
char *backend_program_path(const struct backend_program *p, const char *const *host_env);

/* Adds to a sandbox that shows the host's programs a read-only mount of the backend's, when nothing shows it there
 * already. workspace is the host's. Looks, and creates nothing. */
void backend_share_program(const struct backend_ops *ops, const char *const *host_env, const char *workspace,
			   struct sandbox_spec *spec);
