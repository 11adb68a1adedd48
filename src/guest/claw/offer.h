/* The tools that the model is told of. */
#pragma once

#include "policy.h"

#define TOOL_ASK "ask_user"
#define TOOL_OUTPUT "structured_output"
#define TOOL_FETCH "WebFetch"

/* Writes the list of the tools that this task offers. */
void offer_write(const struct task *t, const struct policy *p, struct jout *o);
/* Whether the launcher carries it out. */
bool offer_is_host(const struct task *t, const char *name);
