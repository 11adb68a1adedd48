/* A tool in a process of its own. */
#pragma once

#include "tool.h"

/* Forks, runs the tool's run there with bounded memory and time, and brings its result back; as tool.start. */
bool worker_start(const struct tool *tool, struct tools *t, struct jv input, struct tool_call *call);
