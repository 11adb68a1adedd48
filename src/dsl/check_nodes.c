/* What nodes need to run: models and backends (C018, C030), efforts (C027), expressions (C039), memory (C047, C048),
 * and what they say that means nothing to their backend (C049). */
#include "checks.h"

#include <base/mem.h>

#include <string.h>

static const char *const backends[] = {"claude_code", "codex", "claw"};
static const char *const efforts[] = {"low", "medium", "high", "xhigh", "max"};

static bool among(const char *s, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(s, words[i]) == 0)
			return true;
	return false;
}

static void check_backend(struct check *c, const struct dsl_str *s)
{
	if (!s->len)
		return;
	if (!among(s->s, backends, ARRAY_LEN(backends)))
		diag_error(c->f, "C018", s->pos,
			   hint_nearest(c->f, s->s, backends, ARRAY_LEN(backends),
					"backends are claude_code, codex and claw"),
			   "unknown backend \"%.100s\"", s->s);
	else if (strcmp(s->s, "codex") == 0)
		diag_warning(c->f, "C030", s->pos, "prefer claude_code or claw",
			     "codex runs on the host with a sandbox of its own, and less of a run can be controlled");
}

/* C018 for those that ask a model. */
static void check_model(struct check *c, const struct dsl_node *n)
{
	bool given = n->model.len || node_backend(c, n);

	if (is_llm(n) && !given && !c->opts.backend_detected)
		diag_error(c->f, "C018", n->name.pos,
			   "add model: or backend:, or default_backend: to the workflow, or set up credentials",
			   "\"%s\" has neither a model nor a backend", n->name.s);
	if (n->kind == DSL_ROUTER && n->mode.v == DSL_LLM && !given)
		diag_warning(c->f, "C018", n->name.pos, "add model: or backend:",
			     "the llm router \"%s\" has neither a model nor a backend; the default is used", n->name.s);
	bool asks = n->kind == DSL_HUMAN &&
		    (n->interaction.v == DSL_INTERACT_LLM || n->interaction.v == DSL_INTERACT_LLM_OR_HUMAN);
	if (asks && !n->model.len && !n->interaction_model.len)
		diag_error(c->f, "C018", n->interaction.pos,
			   "add model: or interaction_model:", "\"%s\" lets a model answer, but names none", n->name.s);
	if (asks && !n->output.s)
		diag_error(c->f, "C018", n->interaction.pos, "add output: and a schema",
			   "\"%s\" lets a model answer, but has no output schema", n->name.s);
}

static void check_effort(struct check *c, const struct dsl_node *n)
{
	const struct dsl_str *s = &n->reasoning_effort;

	if (s->len && !among(s->s, efforts, ARRAY_LEN(efforts)))
		diag_error(c->f, "C027", s->pos,
			   hint_nearest(c->f, s->s, efforts, ARRAY_LEN(efforts), "use low, medium, high, xhigh or max"),
			   "\"%.100s\" is no reasoning effort", s->s);
}

static void check_memory(struct check *c, const struct dsl_node *n)
{
	if (!n->memory.enabled.v)
		return;
	if (!n->memory.scope.len)
		diag_error(c->f, "C048", n->memory.enabled.pos, "add scope: \"name\"",
			   "the memory of \"%s\" has no scope", n->name.s);
	diag_warning(c->f, "C047", n->memory.pos, "remove the memory block, or let the agent keep files of its own",
		     "no backend has a memory that outlives a run: \"%s\" works without", n->name.s);
}

/* C049. What the agents that are programs of their own know stands in docs/backends.md. */
static void check_known(struct check *c, const struct dsl_node *n)
{
	const char *backend = node_backend(c, n);
	bool codex = backend && strcmp(backend, "codex") == 0;
	bool claude = backend && strcmp(backend, "claude_code") == 0;
	const struct {
		const char *name;
		struct dsl_pos pos; /* line 0: not written */
		bool ignored;
	} rows[] = {
		{"interaction", n->interaction.v > DSL_INTERACT_NONE ? n->interaction.pos : (struct dsl_pos){0},
		 codex || claude},
		{"interaction_prompt", n->interaction_prompt.pos, codex || claude},
		{"compaction", n->compaction.pos, codex || claude},
		{"tools", n->tools.pos, codex},
		{"tool_policy", n->tool_policy.pos, codex},
		{"tool_max_steps", n->tool_max_steps.pos, codex},
		{"max_tokens", n->max_tokens.pos, codex},
		{"mcp", n->mcp.pos, codex},
	};

	for (size_t i = 0; is_llm(n) && i < ARRAY_LEN(rows); i++)
		if (rows[i].ignored && rows[i].pos.line)
			diag_warning(c->f, "C049", rows[i].pos, "use backend: claw, or remove the line",
				     "%s means nothing to the backend %.100s of \"%s\"", rows[i].name, backend,
				     n->name.s);
}

/* C049, too: a text for a moment that does not come. */
static void check_asking(struct check *c, const struct dsl_node *n)
{
	int how = n->interaction.v ? n->interaction.v : c->w->interaction.v;
	bool human = n->kind == DSL_HUMAN;

	if (!n->interaction_prompt.len)
		return;
	if (human ? how == DSL_INTERACT_LLM || how == DSL_INTERACT_LLM_OR_HUMAN
		  : how == DSL_INTERACT_HUMAN || how == DSL_INTERACT_LLM_OR_HUMAN)
		return;
	diag_warning(c->f, "C049", n->interaction_prompt.pos,
		     human ? "write interaction: llm or llm_or_human" : "write interaction: human",
		     human ? "no model answers for \"%s\", so nobody reads its interaction_prompt"
			   : "\"%s\" may ask nobody, so its interaction_prompt means nothing",
		     n->name.s);
}

void check_nodes(struct check *c)
{
	check_backend(c, &c->w->default_backend);
	for (size_t i = 0; i < c->f->n_nodes; i++) {
		const struct dsl_node *n = c->f->nodes[i];
		check_backend(c, &n->backend);
		check_model(c, n);
		check_effort(c, n);
		check_memory(c, n);
		check_known(c, n);
		check_asking(c, n);
		if (n->kind == DSL_COMPUTE && n->n_exprs == 0)
			diag_error(c->f, "C039", n->name.pos,
				   "add expr: with lines such as total: \"input.a + input.b\"",
				   "the compute \"%s\" has no expressions", n->name.s);
	}
}
