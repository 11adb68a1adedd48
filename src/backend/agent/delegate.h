/* Agents that are whole programs (claude, codex): one node's execution by such a program. What differs between them is
 * a struct delegate_ops; the rest is delegate.c. */
#pragma once

#include "room.h"
#include "turn.h"

#include <backend/backend.h>
#include <backend/share.h>
#include <base/buf.h>
#include <base/err.h>
#include <base/str.h>
#include <stdint.h>

struct agent_child;

enum { DELEGATE_LINE_MAX = 16 * 1024 * 1024, DELEGATE_INPUT_MAX = 16 * 1024 * 1024 };

enum {
	IGNORES_INTERACTION = 1 << 0, /* and interaction_prompt */
	IGNORES_COMPACTION = 1 << 1,
	IGNORES_MEMORY = 1 << 2,
	IGNORES_TOOLS = 1 << 3, /* and tool_policy, tool_max_steps, max_tokens, mcp */
};

struct delegate_ops {
	const char *backend; /* its name */
	const struct backend_program *program;
	const char *words;     /* "claude", in errors */
	unsigned ignores;      /* IGNORES_…: what a node may say and means nothing to it */
	const char *get_hint;  /* how to install it */
	const char *auth_hint; /* what to do when the provider refuses the key */
	/* Once, before anything runs: the files (room_add), the words to hide (x->secrets), the environment (x->env,
	 * which is complete else). 0 or -errno. */
	int (*prepare)(struct node_exec *x, struct err *e);
	/* Before each start: x->argv behind the program, and x->input from x->say. 0 or -errno. */
	int (*arguments)(struct node_exec *x, struct err *e);
	/* A line that is JSON, an object. */
	void (*on_line)(struct node_exec *x, const json_t *line);
	/* The program ended, with this much of its standard error: the last touch on x->turn. */
	void (*on_end)(struct node_exec *x, const char *stderr_text);
	/* For node_finished, beside what all have. */
	void (*add_details)(const struct node_exec *x, json_t *details);
};

struct node_exec {
	const struct delegate_ops *ops;
	struct node_task task;
	struct node_callbacks cb;
	struct agent_sink sink;
	bool isolated;	/* the program runs in a sandbox */
	json_t *schema; /* JSON Schema of the output; NULL: free text */
	struct strv secrets, env, argv, mcp_tools;
	char *permission_mode; /* for the event */
	struct agent_room room;
	char *files[ROOM_FILES_MAX]; /* paths of what prepare planned, its own use */
	char *file_text;	     /* of one of them */
	struct agent_usage seen;     /* of the conversation so far, its own use */
	struct buf input;
	struct strv places; /* of the program: tried in turn */
	size_t place;
	struct agent_child *child;
	uv_timer_t timer;
	/* The next start. */
	char *say;	 /* the words of the user */
	char *resume;	 /* the conversation to go on with; NULL: a new one */
	bool fork;	 /* as a new one */
	const char *why; /* for the event: "fresh", "inherit", "fork", "repair", "retry" */
	/* So far. */
	struct agent_turn turn;
	struct agent_usage usage;
	double cost_usd; /* < 0: unknown */
	unsigned attempt, starts, steps;
	bool announced, repaired, cancelled, leaving, fallback;
	struct err broken; /* a line that is none */
	/* The end. */
	struct err err;
	json_t *output;
	bool resumable;
	uint64_t started_ms;
};

/* As backend_ops.start and .cancel. */
int delegate_start(const struct delegate_ops *ops, const struct node_task *t, const struct node_callbacks *cb,
		   struct node_exec **ret, struct err *e) __attribute__((warn_unused_result));
void delegate_cancel(struct node_exec *x, enum node_cancel how);

/* The value of a name in an environment, or NULL when it is not set or empty. */
const char *agent_env(const char *const *env, const char *name);

/* Gives the agent's own program variables of the host that its environment does not have yet; those that are secret are
 * hidden from all that it prints. Of those that are secrets of the sandbox it gets the placeholder. */
struct agent_key {
	const char *name;
	bool secret;
};
void delegate_pass(struct node_exec *x, const struct agent_key *keys, size_t n);
