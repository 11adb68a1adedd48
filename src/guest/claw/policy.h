/* Which calls a node may make: tool_policy, readonly, allowed_tools. */
#pragma once

#include "task.h"
#include "tool.h"

struct policy;

/* Reads the task's lists. 0, or -EPROTO naming the malformed pattern. */
int policy_new(const struct task *t, struct policy **ret, struct err *e) __attribute__((warn_unused_result));
void policy_free(struct policy *p);

/* Whether the tool is offered at all: some call of it may be allowed. builtin: NULL for a tool of the launcher. */
bool policy_offers(const struct policy *p, const char *name, const struct tool *builtin);

/* Whether this call is allowed; fails the result with the reason otherwise. */
bool policy_allows(const struct policy *p, const char *name, const struct tool *builtin, struct jv input,
		   struct tool_result *r);
