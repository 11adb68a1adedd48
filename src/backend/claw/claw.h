/* One node under claw, shared by its life (claw.c) and what serves its runner. */
#pragma once

#include "agent/room.h"
#include "fetch.h"
#include "runner.h"
#include "llm/call.h"
#include "mcp/mcp.h"

#include <backend/backend.h>
#include <base/err.h>

struct claw_saved;

enum {
	CLAW_SERVING_MAX = 64,	 /* requests of a runner under way at once */
	CLAW_EVENTS_MAX = 10000, /* events of one node that its runner may cause */
	CLAW_END_MS = 5000,	 /* a runner that has said its last word may take so long to end */
	CLAW_PREVIEW = 200,	 /* characters of a text in an event */
};

/* One request of the runner that is being answered. */
struct claw_serving {
	struct node_exec *x;
	struct claw_serving *next;
	char *id;
	char *name; /* of the tool, or the purpose of the question */
	struct llm_call *call;
	struct mcp_op *op;
	struct fetch *fetch;
	uint64_t started_ms;
	bool thought; /* the model's first words were told */
};

struct node_exec {
	struct node_task task;
	struct node_callbacks cb;
	struct llm_target target;
	char *guest;
	json_t *schema; /* JSON Schema of the output; NULL: free text */
	json_t *tools;	/* those that are served here, as the runner is told of them */
	struct mcp_op *listing;
	struct runner *runner; /* NULL: no runner */
	struct claw_serving *serving;
	unsigned n_serving, n_events, n_starts, n_asked, n_called;
	struct agent_room room; /* its mark is in all that the runner starts */
	bool sweeping;		/* what a killed runner left is being ended */
	struct runner_end end;	/* of the latest runner; its words are end_words */
	char *end_words;
	struct claw_saved *saved; /* its conversation in the run's folder */
	uv_timer_t timer;
	uint64_t runner_ns; /* when the runner was started; then how long its first line took */
	bool greeted;	    /* the runner's first line came */
	/* What was used. */
	struct agent_usage usage;
	double cost_usd; /* < 0: unknown */
	unsigned steps;
	/* The end. */
	bool cancelled, over, repaired;
	bool asks;	      /* it ends for the moment: question is for a person */
	bool provider_failed; /* an answer was refused for good */
	struct err provider_err;
	struct err err;	  /* of this side: the node fails with it */
	json_t *question; /* what the runner wants to ask a person; the data of its envelope */
	json_t *result;	  /* the data of the result that counts */
	json_t *output;
};

/* --- claw.c --- */

/* Nothing of the node is at work any more: tells what it came to, and frees it. */
void claw_answer(struct node_exec *x);

/* --- launch.c --- */

/* Whether a runner was started; else x->err says why not. */
bool claw_start_runner(struct node_exec *x);
/* The runner does not end although everything was said. */
void claw_on_late(uv_timer_t *timer);

/* --- result.c --- */

/* What the node comes to, once its runner has ended: 0 with x->output or, when a person is to be asked, x->asks, or
 * -errno. */
int claw_outcome(struct node_exec *x, const struct runner_end *end, struct err *e);
/* For the node's event; a new object. */
json_t *claw_details(const struct node_exec *x) __attribute__((returns_nonnull));

/* --- serve.c --- */

/* One line of the runner. */
void claw_on_line(void *arg, const char *line, size_t len);
/* The node is to fail so, unless it did already: its runner is ended. */
void claw_fail(struct node_exec *x, const struct err *e);
/* Sends an envelope; data is taken. What cannot be sent is a failure of the node. */
void claw_send(struct node_exec *x, const char *type, const char *id, json_t *data);
/* A request is answered. */
void claw_served(struct claw_serving *s);
/* Ends all requests without an answer. */
void claw_serve_none(struct node_exec *x);

/* --- model.c, tool.c --- */

void claw_ask_model(struct claw_serving *s, const json_t *data);
void claw_call_tool(struct claw_serving *s, const json_t *data);

/* --- task.c --- */

/* The steps that the node has at most. */
long long claw_max_steps(const struct node_exec *x);
/* The data of the task envelope. */
json_t *claw_task(const struct node_exec *x) __attribute__((returns_nonnull));
/* The tools that are served here: MCP's (borrowed), and WebFetch unless the node does without. A new array. */
json_t *claw_host_tools(const struct node_exec *x, json_t *mcp) __attribute__((returns_nonnull));
/* Whether the node works at all: llm routers, and humans that a model answers for, only answer. */
bool claw_has_tools(const struct node_exec *x);
/* Whether the node's tool_policy forbids every call of a tool. */
bool claw_forbids(const struct node_exec *x, const char *tool);

/* --- event.c --- */

/* An event that the runner reports, as far as it is one that runners may. */
void claw_on_event(struct node_exec *x, const json_t *data);
void claw_emit(struct node_exec *x, const char *type, json_t *data);

/* --- saved.c --- */

/* Opens the place of this node's conversation; one that a killed run left is found there. Never NULL. */
struct claw_saved *claw_saved_open(const struct node_exec *x) __attribute__((returns_nonnull));
/* What to go on from: {"session_id", "step", "conversation", "pending_tool_use_id"?: of a question to a person}, or
 * NULL; borrowed. */
const json_t *claw_saved_replay(const struct claw_saved *s);
/* A step ended; data is the runner's. 0, or -errno when it cannot be kept. */
int claw_saved_take(struct claw_saved *s, const json_t *data, struct err *e);
/* The runner waits for a person; result is its last word. 0, or -errno when it cannot be kept. */
int claw_saved_ask(struct claw_saved *s, const json_t *result, struct err *e);
/* The id of the conversation that the runner names at its end, when it may be this node's: borrowed, or NULL. */
const char *claw_session_id(const struct node_exec *x);
/* The node ended: keep is the id under which a later node finds the conversation; NULL: nobody will. Frees it. */
void claw_saved_close(struct claw_saved *s, const char *keep, bool forget);
/* The messages of an earlier node's conversation; a new array, or NULL with why not. */
json_t *claw_saved_load(const struct node_exec *x, struct err *e);
