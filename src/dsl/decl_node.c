/* Nodes: agents, judges, routers, humans, tools and computes. All fill one struct; the tables say which properties a
 * kind may have, in the order in which the language's description lists them. */
#include "parser.h"

#include <base/arena.h>
#include <base/mem.h>
#include <dsl/expr.h>

#include <string.h>

enum { NODES_MAX = 100 * 1000 };

#define NODE(field) offsetof(struct dsl_node, field)

static const struct word session_words[] = {
	{"fresh", DSL_FRESH},
	{"inherit", DSL_INHERIT},
	{"inherit_if_available", DSL_INHERIT_IF_AVAILABLE},
	{"fork", DSL_FORK},
	{"artifacts_only", DSL_ARTIFACTS_ONLY},
};
const struct word interaction_words[4] = {
	{"none", DSL_INTERACT_NONE},
	{"human", DSL_INTERACT_HUMAN},
	{"llm", DSL_INTERACT_LLM},
	{"llm_or_human", DSL_INTERACT_LLM_OR_HUMAN},
};
static const struct word await_words[] = {{"wait_all", DSL_WAIT_ALL}, {"best_effort", DSL_BEST_EFFORT}};
static const struct word mode_words[] = {
	{"fan_out_all", DSL_FAN_OUT_ALL},
	{"condition", DSL_CONDITION},
	{"round_robin", DSL_ROUND_ROBIN},
	{"llm", DSL_LLM},
};
static const struct word language_words[] = {
	{"js", DSL_JS},		  {"node", DSL_NODE}, {"py", DSL_PY},	  {"python", DSL_PYTHON},
	{"python3", DSL_PYTHON3}, {"sh", DSL_SH},     {"bash", DSL_BASH},
};

#define MCP(field) offsetof(struct dsl_mcp, field)
static const struct prop mcp_rows[] = {
	{"autoload_project", PROP_BOOL, MCP(autoload_project)},
	{"inherit", PROP_BOOL, MCP(inherit)},
	{"servers", PROP_LIST, MCP(servers)},
	{"disable", PROP_LIST, MCP(disable)},
};
const struct props mcp_props = {"mcp", mcp_rows, ARRAY_LEN(mcp_rows)};

static const struct prop compaction_rows[] = {
	{"threshold", PROP_NUM, offsetof(struct dsl_compaction, threshold)},
	{"preserve_recent", PROP_INT, offsetof(struct dsl_compaction, preserve_recent)},
};
const struct props compaction_props = {"compaction", compaction_rows, ARRAY_LEN(compaction_rows)};

#define MEMORY(field) offsetof(struct dsl_memory, field)
static const struct prop memory_rows[] = {
	{"enabled", PROP_BOOL, MEMORY(enabled)},
	{"scope", PROP_STRING, MEMORY(scope)},
	{"autoload", PROP_LIST, MEMORY(autoload)},
	{"read", PROP_BOOL, MEMORY(read)},
	{"write", PROP_BOOL, MEMORY(write)},
	{"pre_compact_inject", PROP_BOOL, MEMORY(pre_compact_inject)},
	{"project_root", PROP_BOOL, MEMORY(project_root)},
	{"visibility", PROP_STRING, MEMORY(visibility)},
};
static const struct props memory_props = {"memory", memory_rows, ARRAY_LEN(memory_rows)};

/* cursors: a block of NAME: literal; field is the node's cursors, its count stands behind it. */
static void read_cursors(struct parser *p, const struct token *key, void *field)
{
	struct dsl_node *n = (struct dsl_node *)(void *)((char *)field - NODE(cursors));
	struct block b = BLOCK_BELOW(p->lx.indent);

	(void)key;
	if (!expect_block(p, "cursors"))
		return;
	while (block_next(p, &b)) {
		struct dsl_setting s;
		if (!read_key(p, &s.key) || !read_literal(p, &s.value)) {
			skip_property(p);
			continue;
		}
		ARENA_PUSH(p->f->state->arena, n->cursors, n->n_cursors, s);
		end_line(p);
	}
}

/* expr: a block of FIELD: "expression". */
static void read_exprs(struct parser *p, const struct token *key, void *field)
{
	struct dsl_node *n = (struct dsl_node *)(void *)((char *)field - NODE(exprs));
	struct block b = BLOCK_BELOW(p->lx.indent);
	struct names fields = {0};

	(void)key;
	if (!expect_block(p, "expr"))
		return;
	while (block_next(p, &b)) {
		struct dsl_field_expr x = {0};
		struct dsl_str src;
		if (!read_key(p, &x.key) || !read_string(p, EXPAND_EMPTY, &src)) {
			skip_property(p);
			continue;
		}
		if (names_add(&fields, p->f->state->arena, x.key.s, n))
			diag_error(p->f, "P009", x.key.pos, "keep one of them", "expr gives \"%s\" twice", x.key.s);
		make_expr(p, 0, &src, &x.value);
		ARENA_PUSH(p->f->state->arena, n->exprs, n->n_exprs, x);
		end_line(p);
	}
}

static const struct prop llm_rows[] = {
	{"description", PROP_STRING, NODE(description)},
	{"model", PROP_STRING, NODE(model)},
	{"backend", PROP_STRING, NODE(backend)},
	{"provider", PROP_STRING, NODE(provider)},
	{"input", PROP_NAME, NODE(input)},
	{"output", PROP_NAME, NODE(output)},
	{"publish", PROP_NAME, NODE(publish)},
	{"system", PROP_NAME, NODE(system)},
	{"user", PROP_NAME, NODE(user)},
	{"session", PROP_WORD, NODE(session), WORDS(session_words)},
	{"tools", PROP_LIST, NODE(tools)},
	{"tool_policy", PROP_LIST, NODE(tool_policy)},
	{"capabilities", PROP_LIST, NODE(capabilities)},
	{"tool_max_steps", PROP_INT, NODE(tool_max_steps)},
	{"max_tokens", PROP_INT, NODE(max_tokens)},
	{"reasoning_effort", PROP_STRING, NODE(reasoning_effort)},
	{"readonly", PROP_BOOL, NODE(readonly)},
	{"interaction", PROP_WORD, NODE(interaction), WORDS(interaction_words)},
	{"interaction_prompt", PROP_NAME, NODE(interaction_prompt)},
	{"interaction_model", PROP_STRING, NODE(interaction_model)},
	{"await", PROP_WORD, NODE(await), WORDS(await_words)},
	{"mcp", PROP_BLOCK, NODE(mcp), .sub = &mcp_props},
	{"compaction", PROP_BLOCK, NODE(compaction), .sub = &compaction_props},
	{"memory", PROP_BLOCK, NODE(memory), .sub = &memory_props},
	{"cursors", PROP_READ, NODE(cursors), .read = read_cursors},
	{"sandbox", PROP_READ, NODE(sandbox), .read = read_sandbox},
};

static const struct prop router_rows[] = {
	{"description", PROP_STRING, NODE(description)},
	{"mode", PROP_WORD, NODE(mode), WORDS(mode_words)},
	{"model", PROP_STRING, NODE(model)},
	{"backend", PROP_STRING, NODE(backend)},
	{"provider", PROP_STRING, NODE(provider)},
	{"system", PROP_NAME, NODE(system)},
	{"user", PROP_NAME, NODE(user)},
	{"multi", PROP_BOOL, NODE(multi)},
	{"reasoning_effort", PROP_STRING, NODE(reasoning_effort)},
};

static const struct prop human_rows[] = {
	{"description", PROP_STRING, NODE(description)},
	{"input", PROP_NAME, NODE(input)},
	{"output", PROP_NAME, NODE(output)},
	{"publish", PROP_NAME, NODE(publish)},
	{"instructions", PROP_NAME, NODE(instructions)},
	{"interaction", PROP_WORD, NODE(interaction), WORDS(interaction_words)},
	{"interaction_prompt", PROP_NAME, NODE(interaction_prompt)},
	{"interaction_model", PROP_STRING, NODE(interaction_model)},
	{"model", PROP_STRING, NODE(model)},
	{"system", PROP_NAME, NODE(system)},
	{"min_answers", PROP_INT, NODE(min_answers)},
	{"await", PROP_WORD, NODE(await), WORDS(await_words)},
};

static const struct prop tool_rows[] = {
	{"description", PROP_STRING, NODE(description)},
	{"command", PROP_COMMAND, NODE(command)},
	{"script", PROP_COMMAND, NODE(script)},
	{"language", PROP_WORD, NODE(language), WORDS(language_words)},
	{"input", PROP_NAME, NODE(input)},
	{"output", PROP_NAME, NODE(output)},
	{"publish", PROP_NAME, NODE(publish)},
	{"await", PROP_WORD, NODE(await), WORDS(await_words)},
	{"sandbox", PROP_READ, NODE(sandbox), .read = read_sandbox},
};

static const struct prop compute_rows[] = {
	{"description", PROP_STRING, NODE(description)},
	{"input", PROP_NAME, NODE(input)},
	{"output", PROP_NAME, NODE(output)},
	{"publish", PROP_NAME, NODE(publish)},
	{"await", PROP_WORD, NODE(await), WORDS(await_words)},
	{"expr", PROP_READ, NODE(exprs), .read = read_exprs},
};

#define ROWS(rows) rows, ARRAY_LEN(rows)
static const struct props node_props[] = {
	[DSL_AGENT] = {"an agent", ROWS(llm_rows)},	[DSL_JUDGE] = {"a judge", ROWS(llm_rows)},
	[DSL_ROUTER] = {"a router", ROWS(router_rows)}, [DSL_HUMAN] = {"a human", ROWS(human_rows)},
	[DSL_TOOL] = {"a tool", ROWS(tool_rows)},	[DSL_COMPUTE] = {"a compute", ROWS(compute_rows)},
};

static const char *const kind_names[] = {
#define KIND_NAME(name, word) word,
	DSL_NODE_KINDS(KIND_NAME)
#undef KIND_NAME
};

const char *dsl_node_kind_name(enum dsl_node_kind kind)
{
	return kind_names[kind];
}

/* How values are put into a tool's text. */
static enum template_lang script_lang(const struct dsl_node *n)
{
	switch ((enum dsl_language)n->language.v) {
	case DSL_JS:
	case DSL_NODE:
		return TEMPLATE_JS;
	case DSL_PY:
	case DSL_PYTHON:
	case DSL_PYTHON3:
		return TEMPLATE_PYTHON;
	case DSL_LANGUAGE_UNSET:
	case DSL_SH:
	case DSL_BASH:
		break;
	}
	return TEMPLATE_SHELL;
}

/* A tool has one text, and a language only for a script. */
static void finish_tool(struct parser *p, struct dsl_node *n)
{
	struct dsl_str command = n->command.src, script = n->script.src;

	if (command.s && script.s)
		diag_error(p->f, "P016", script.pos, "keep one of them", "the tool \"%s\" has a command and a script",
			   n->name.s);
	else if (!command.pos.line && !script.pos.line)
		diag_error(p->f, "P016", n->name.pos, "add command: \"…\" or script: |",
			   "the tool \"%s\" has neither a command nor a script", n->name.s);
	if (command.s && n->language.pos.line)
		diag_error(p->f, "P016", n->language.pos, "a command is for sh; use script: for another language",
			   "a language goes with a script, not with a command");
	make_text(p, TEMPLATE_SHELL, &command, &n->command);
	make_text(p, script_lang(n), &script, &n->script);
}

void parse_node(struct parser *p, const struct token *key, void *unused)
{
	struct dsl_state *st = p->f->state;
	struct dsl_node *n = arena_alloc(st->arena, sizeof *n);

	(void)unused;
	while (strlen(kind_names[n->kind]) != key->len || memcmp(kind_names[n->kind], key->s, key->len) != 0)
		n->kind++;
	if (!read_declared(p, kind_names[n->kind], &n->name) || !expect_block(p, node_props[n->kind].what))
		return;
	if (p->f->n_nodes == NODES_MAX) {
		diag_error(p->f, "P011", n->name.pos, "split the workflow", "more than %d nodes", NODES_MAX);
		skip_property(p);
		return;
	}
	n->index = p->f->n_nodes;
	ARENA_PUSH(st->arena, p->f->nodes, p->f->n_nodes, n);
	if (strcmp(n->name.s, "done") == 0 || strcmp(n->name.s, "fail") == 0)
		diag_error(p->f, "C042", n->name.pos, "choose another name", "\"%s\" is built in", n->name.s);
	else
		add_name(p, &st->nodes, &n->name, n, "node", "C041");
	read_props(p, &node_props[n->kind], n, NULL);
	if (n->kind == DSL_TOOL)
		finish_tool(p, n);
}
