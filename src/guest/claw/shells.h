/* Commands that run in the background. */
#pragma once

#include "tool.h"

struct shells *shells_new(struct tools *t);
/* Kills those that run. */
void shells_free(struct shells *s);

/* The arguments of a shell that runs a command. keep_cwd: a file that receives where the command ended
 * up, NULL for nowhere. */
struct strv;
void shell_argv(struct strv *argv, const char *command, const char *keep_cwd);

/* Starts one; its number is told in the result. */
bool shells_start(struct shells *s, const char *command, struct tool_result *r);
