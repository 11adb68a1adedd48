/* What `codex exec --json` prints. */
#pragma once

#include "../agent/turn.h"

/* Takes one line into the turn. What is not known is passed over, whatever it is. The counts of a turn are those of the
 * whole conversation so far: *ret_total, when the line has them. */
void codex_line(struct agent_turn *t, const struct agent_sink *sink, const json_t *line, struct agent_usage *ret_total);

/* The end, with what it wrote to its standard error. */
void codex_end(struct agent_turn *t, const char *stderr_text);
