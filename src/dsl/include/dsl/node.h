/* Nodes, edges and the blocks that nodes and workflows share. */
#pragma once

#include <dsl/text.h>

/* X(enum, keyword) */
#define DSL_NODE_KINDS(X)                                                                                              \
	X(AGENT, "agent")                                                                                              \
	X(JUDGE, "judge")                                                                                              \
	X(ROUTER, "router")                                                                                            \
	X(HUMAN, "human")                                                                                              \
	X(TOOL, "tool")                                                                                                \
	X(COMPUTE, "compute")

enum dsl_node_kind {
#define DSL_NODE_ENUM(name, word) DSL_##name,
	DSL_NODE_KINDS(DSL_NODE_ENUM)
#undef DSL_NODE_ENUM
};
const char *dsl_node_kind_name(enum dsl_node_kind kind);

enum dsl_session { DSL_SESSION_UNSET, DSL_FRESH, DSL_INHERIT, DSL_INHERIT_IF_AVAILABLE, DSL_FORK, DSL_ARTIFACTS_ONLY };
enum dsl_interaction {
	DSL_INTERACTION_UNSET,
	DSL_INTERACT_NONE,
	DSL_INTERACT_HUMAN,
	DSL_INTERACT_LLM,
	DSL_INTERACT_LLM_OR_HUMAN
};
enum dsl_await { DSL_AWAIT_UNSET, DSL_WAIT_ALL, DSL_BEST_EFFORT };
enum dsl_router_mode { DSL_ROUTER_UNSET, DSL_FAN_OUT_ALL, DSL_CONDITION, DSL_ROUND_ROBIN, DSL_LLM };
enum dsl_language { DSL_LANGUAGE_UNSET, DSL_JS, DSL_NODE, DSL_PY, DSL_PYTHON, DSL_PYTHON3, DSL_SH, DSL_BASH };

/* In each block: pos.line 0 means that it was not written. */
struct dsl_mcp {
	struct dsl_pos pos;
	struct dsl_bool autoload_project, inherit;
	struct dsl_list servers, disable;
};
struct dsl_budget {
	struct dsl_pos pos;
	struct dsl_int max_parallel_branches, max_tokens, max_iterations;
	struct dsl_num max_cost_usd;
	struct dsl_str max_duration;	    /* as written */
	unsigned long long max_duration_ms; /* the same; 0: none */
};
struct dsl_compaction {
	struct dsl_pos pos;
	struct dsl_num threshold;
	struct dsl_int preserve_recent;
};
struct dsl_memory {
	struct dsl_pos pos;
	struct dsl_bool enabled, read, write, pre_compact_inject, project_root;
	struct dsl_str scope, visibility;
	struct dsl_list autoload;
};

struct dsl_sandbox;
struct dsl_edge;

/* One struct for every kind; which properties a kind may have is the parser's table (and what it may not have is never
 * set). */
struct dsl_node {
	struct dsl_str name, description;
	enum dsl_node_kind kind;
	struct dsl_str input, output; /* schemas */
	struct dsl_str publish;	      /* artifact */
	struct dsl_word await;	      /* enum dsl_await */
	/* agent, judge; llm routers and humans have some of these */
	struct dsl_str model, backend, provider;
	struct dsl_str system, user; /* prompts */
	struct dsl_word session;     /* enum dsl_session */
	struct dsl_list tools, tool_policy, capabilities;
	struct dsl_int tool_max_steps, max_tokens;
	struct dsl_str reasoning_effort; /* low, medium, high, xhigh, max */
	struct dsl_bool readonly;
	struct dsl_word interaction;	   /* enum dsl_interaction */
	struct dsl_str interaction_prompt; /* prompt */
	struct dsl_str interaction_model;
	struct dsl_mcp mcp;
	struct dsl_compaction compaction;
	struct dsl_memory memory;
	struct dsl_setting *cursors;
	size_t n_cursors;
	struct dsl_sandbox *sandbox; /* agent, judge, tool; NULL: none written */
	/* router */
	struct dsl_word mode; /* enum dsl_router_mode */
	struct dsl_bool multi;
	/* human */
	struct dsl_str instructions; /* prompt */
	struct dsl_int min_answers;
	/* tool: one of the two */
	struct dsl_text command, script;
	struct dsl_word language; /* enum dsl_language */
	/* compute */
	struct dsl_field_expr *exprs;
	size_t n_exprs;
	/* The graph, in the order of the file. */
	struct dsl_edge **out, **in;
	size_t n_out, n_in;
	size_t index; /* in dsl_file.nodes */
};

enum dsl_target { DSL_TO_NODE, DSL_TO_DONE, DSL_TO_FAIL };

struct dsl_edge {
	struct dsl_pos pos;
	struct dsl_str from, to;
	struct dsl_node *src, *dst; /* NULL: not a node (done, fail, or unknown, which was reported) */
	enum dsl_target target;
	struct dsl_str when;  /* a field of the source's output; or … */
	bool negated;	      /* … its opposite (when not) */
	struct dsl_expr expr; /* or a quoted expression */
	struct dsl_str loop;  /* as NAME(N) */
	struct dsl_int loop_max;
	struct dsl_field_text *with;
	size_t n_with;
	struct dsl_pos with_pos; /* line 0: no with */
};
