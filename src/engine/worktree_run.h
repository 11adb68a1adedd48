/* The run's worktree, as the engine goes through it. */
#pragma once

#include <stdbool.h>

struct engine;
struct err;
struct sandbox_spec;

/* Whether the workflow can have the worktree it asks for; for a run that goes on, finds the one it has. Creates
 * nothing. */
int run_tree_plan(struct engine *en, struct err *e) __attribute__((warn_unused_result));

/* Adds what git needs in a sandbox that a driver makes; nothing when there is no tree. */
void run_tree_fill(const struct engine *en, const char *driver, struct sandbox_spec *spec);

/* Makes it, or takes it up again; engine_go follows, or the run's end. Only when en->tree is there. */
void run_tree_begin(struct engine *en);

/* Whether nothing is left to do about it. Else it is being done, and engine_check_end is called after that. */
bool run_tree_settled(struct engine *en);

/* Nobody wants to wait any longer. */
void run_tree_interrupt(struct engine *en);

void run_tree_free(struct engine *en);
