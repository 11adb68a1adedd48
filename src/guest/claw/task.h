/* What the launcher asks for: the task envelope. */
#pragma once

#include "jdoc.h"

#include <base/str.h>

struct host_tool {
	char *name;
	char *description;
	char *schema; /* JSON text */
};

struct task {
	char *node_id, *system_prompt, *user_prompt, *model, *reasoning_effort, *work_dir;
	char *session_id; /* never empty: made when the task names none, and anew for a fork */
	struct strv allowed_tools;
	bool all_tools; /* allowed_tools was absent */
	struct strv tool_policy;
	struct host_tool *host_tools;
	size_t n_host_tools;
	char *output_schema; /* JSON text, or NULL */
	long long max_steps, max_tokens, preserve_recent, context_window;
	double compact_ratio;
	bool interaction, readonly;
	/* To go on from: an array of messages as JSON text, or NULL. */
	char *conversation;
	char *pending_tool_use_id, *answer;
};

/* Reads the data of a task envelope; what is absent gets its default. 0, or -EPROTO naming the field that is wrong. */
int task_parse(struct jv data, struct task *ret, struct err *e) __attribute__((warn_unused_result));
void task_done(struct task *t);
