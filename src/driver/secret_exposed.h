/* Whether a sandbox would have a secret's value by another way than the secret. */
#pragma once

struct err;
struct sandbox_secret;
struct sandbox_spec;

/* Looks through what the sandbox is made with (variables, commands, arguments of builds and engines), and where a file
 * of a value lies: workspace and bind mounts can be read inside. 0, or -EEXIST with the place. */
int secret_exposed_check(const struct sandbox_spec *spec, const char *workspace, const struct sandbox_secret *s,
			 const char *value, struct err *e) __attribute__((warn_unused_result));
