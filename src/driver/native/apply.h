/* Carrying out a plan: from an empty tmpfs to the sandbox's file system. */
#pragma once

struct err;
struct plan;

/* Builds it and makes it this process's root; the old root is gone when it returns. For a process that is alone in new
 * mount and process-number namespaces and may mount there. Returns 0 or -errno with the step that failed. */
int plan_apply(const struct plan *p, struct err *e) __attribute__((warn_unused_result));
