/* Limits without a cgroup: what a process can be given and its children inherit. */
#pragma once

#include <driver/limits.h>
#include <sandbox/spec.h>
#include <stdbool.h>

struct err;

/* Gives this process, and so all of the sandbox, the limits in which. In a user namespace of its own when it has one.
 */
int process_limit(const struct sandbox_limits *l, unsigned which, bool user_namespace, struct err *e)
	__attribute__((warn_unused_result));

/* What holds one limit then; static. */
const char *process_holder(enum sandbox_limit which, bool user_namespace);

/* How that is weaker than what was asked for, as a warning that ends with why; NULL: it is not. The caller frees. */
char *process_weaker(enum sandbox_limit which, const struct sandbox_limits *l, bool user_namespace, const char *why);
