/* How a node is carried out: one row of functions a backend, all asynchronous on the run's loop. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct session;
struct store_run;

/* What one node execution is given. Everything is borrowed until done was called. */
struct node_task {
	uv_loop_t *loop;
	struct session *session; /* started */
	struct store_run *run;
	const char *node_id;
	const char *text;	/* tool: the command or the script with its templates filled in */
	const char *language;	/* tool: NULL for a command, else the script's language */
	const char *const *env; /* NULL-terminated; the whole environment */
	const char *cwd;	/* inside; NULL: the workspace */
	bool structured;	/* there is an output schema: standard output that is a JSON object gives the fields */
	bool exit_code_field;	/* the schema has exit_code: a non-zero exit is a result, not a failure */
};

struct node_result {
	json_t *output;	 /* an object; borrowed by the callback (incref to keep); NULL when err is set */
	json_t *details; /* for node_finished: exit_code, output_ref, stderr_ref, truncated…; borrowed, may be NULL */
	bool resumable;	 /* a failure that resume may try again (the sandbox was lost) */
	bool cancelled;	 /* it ended because of cancel */
	int64_t tokens;	 /* -1: the backend does not count */
	double cost_usd; /* < 0: unknown */
};

struct node_callbacks {
	/* An event of the node ("tool_started", …); data is taken. */
	void (*on_event)(void *arg, const char *type, json_t *data);
	/* Called once, never from within start. e is NULL on success. The node_exec is gone when it returns. */
	void (*on_done)(void *arg, const struct node_result *r, const struct err *e);
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
};

extern const struct backend_ops backend_tool;

/* The backend that carries out agents by this name, or NULL when this program has none. */
const struct backend_ops *backend_find(const char *name);
