/* The hidden `__claw-runner`. */
#pragma once

struct err;

/* Becomes the guest program, which holds the agent loop; words start with the command's own name. Returns only on
 * error, with -errno. */
int claw_runner_exec(const char *const *words, struct err *e) __attribute__((warn_unused_result));
