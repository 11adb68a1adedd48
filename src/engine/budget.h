/* What a run may use. */
#pragma once

#include "engine_priv.h"

void budget_init(struct engine *en);
/* Counts one node: 0, or -errno when a limit is reached (the run is being ended then). */
int budget_enter(struct engine *en, const struct branch *b);
/* b's node begins, perhaps again: what an earlier life of it used is counted, and no part of what it will tell. */
void budget_begin(struct branch *b);
/* What b's node has used so far, all of it (< 0: unknown): counted is what is new, if anything is. */
bool budget_count(struct engine *en, struct branch *b, int64_t tokens, double cost_usd);
/* The same at the node's end. */
void budget_settle(struct engine *en, struct branch *b, int64_t tokens, double cost_usd);
/* Lets a kill not take away what was counted while a node is under way, where a limit makes that matter. */
void budget_keep(struct engine *en);
/* A node is about to use more: ends the run when a limit is reached. */
void budget_check(struct engine *en);
void budget_start_timers(struct engine *en);
