/* What `claude --output-format stream-json` prints. */
#pragma once

#include "../agent/turn.h"

/* Takes one line into the turn. What is not known is passed over, whatever it is. */
void claude_line(struct agent_turn *t, const struct agent_sink *sink, const json_t *line);

/* The end, with what it wrote to its standard error: only there does it say that a conversation is missing in some
 * versions. */
void claude_end(struct agent_turn *t, const char *stderr_text);
