/* How a node is carried out: one row of functions a backend, all asynchronous on the run's loop. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct backend_run;
struct backend_program;
struct dsl_file;
struct dsl_node;
struct dsl_schema;
struct err;
struct session;
struct store_run;

/* What agents, judges, llm routers and humans that a model answers for are given beside that. */
struct agent_task {
	const struct dsl_file *file;
	const struct dsl_node *node;
	const char *model;  /* as the node names it; NULL: the backend's own default */
	const char *system; /* prompts with their templates filled in; NULL: none */
	const char *user;
	const json_t *input;
	const struct dsl_schema *schema; /* the output's fields; NULL: {"output": text} */
	/* An llm router: the targets to choose from, NULL-terminated, else NULL. Its output is {"target": NAME}, or
	 * with multi {"targets": [NAME, …]}, at least one. */
	const char *const *choices;
	bool multi;
	/* The conversation to go on with, as the details of an earlier node of this backend gave it by _session_id and
	 * _session_state (an opaque value); NULL: a new one. An id may also come from the workflow, so it is hostile.
	 */
	const char *session_id;
	const json_t *session_state;
	bool fork_session;     /* leave the earlier one as it is */
	bool session_optional; /* begin a new one when it is gone */
	const char *answer;    /* to the question that the last execution of this very node ended with; NULL: none */
};

/* What one node execution is given. Everything is borrowed until done was called. */
struct node_task {
	uv_loop_t *loop;
	struct session *session;     /* started */
	struct backend_run *shared;  /* what the run's nodes share (backend/run.h); NULL: a tool that needs none */
	const char *const *host_env; /* of the user, NULL-terminated: where keys are; never handed on */
	struct store_run *run;
	const char *node_id;
	const char *text;	/* tool: the command or the script with its templates filled in */
	const char *language;	/* tool: NULL for a command, else the script's language */
	const char *const *env; /* NULL-terminated; the whole environment */
	const char *cwd;	/* inside; NULL: the workspace */
	bool structured;	/* there is an output schema: standard output that is a JSON object gives the fields */
	bool exit_code_field;	/* the schema has exit_code: a non-zero exit is a result, not a failure */
	const struct agent_task *agent; /* NULL: a tool */
};

struct node_result {
	json_t *output;	 /* an object; borrowed by the callback (incref to keep); NULL when err is set */
	json_t *details; /* for node_finished: exit_code, output_ref, stderr_ref, truncated…; borrowed, may be NULL */
	bool resumable;	 /* a failure that resume may try again (the sandbox was lost) */
	bool cancelled;	 /* it ended because of cancel */
	/* Without an error: the agent has not ended, but wants to know something from a person: {"question",
	 * "options"?} (hostile). The node is started again with the answer, in this process or another; borrowed, NULL:
	 * it ended. */
	const json_t *question;
	int64_t tokens;	 /* -1: the backend does not count */
	double cost_usd; /* < 0: unknown */
};

struct node_callbacks {
	/* An event of the node ("tool_started", …); data is taken. */
	void (*on_event)(void *arg, const char *type, json_t *data);
	/* Called once, never from within start. e is NULL on success. The node_exec is gone when it returns. */
	void (*on_done)(void *arg, const struct node_result *r, const struct err *e);
	/* What the engine will ask of an output: 0, or -errno with all that is wrong, which a backend may use for its
	 * one repair round. Only while the execution lasts. */
	int (*check)(void *arg, json_t *output, struct err *e);
	/* What this execution has used so far, all of it (cost_usd < 0: unknown). goes_on: the next that it does uses
	 * more, so a limit counts now; the node may be cancelled before this returns. NULL: nobody counts on the way.
	 */
	void (*on_usage)(void *arg, int64_t tokens, double cost_usd, bool goes_on);
	void *arg;
};

struct node_exec;

enum node_cancel {
	NODE_CANCEL_TERM, /* TERM now, KILL after NODE_KILL_AFTER_MS */
	NODE_CANCEL_KILL, /* KILL now */
};
enum { NODE_KILL_AFTER_MS = 10000 };

struct backend_ops {
	const char *name;
	/* Returns 0 and on_done will be called, or -errno and it never is. */
	int (*start)(const struct node_task *t, const struct node_callbacks *cb, struct node_exec **ret, struct err *e);
	/* May be called again with the harder kind; on_done still comes. */
	void (*cancel)(struct node_exec *x, enum node_cancel how);
	/* Whether its nodes run on the host although the run has a sandbox, because the program has one of its own; a
	 * node with a sandbox of its own runs there all the same. NULL: never. */
	bool (*on_host)(const char *const *host_env);
	/* What can be known before anything runs: whether this node, with this model (NULL: none is named), could be
	 * started here. NULL: nothing. */
	int (*check)(const struct dsl_node *n, const char *model, const char *const *host_env, struct err *e);
	bool asks;			       /* its agents can ask a person (node_result.question) */
	const struct backend_program *program; /* that it starts (backend/share.h); NULL: none of its own */
};

extern const struct backend_ops backend_tool, backend_claude_code, backend_codex, backend_claw;

/* The backend that carries out agents by this name, or NULL when this program has none. */
const struct backend_ops *backend_find(const char *name);

/* Adds one (static) to those that are found by name; in place of one that has its name. At most BACKENDS_MAX. */
enum { BACKENDS_MAX = 8 };
void backend_register(const struct backend_ops *ops);
