/* What nodes need to run: models and backends (C018, C030), efforts (C027), expressions (C039) and memory (C047,
 * C048). */
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
	const char *backend = node_backend(c, n);

	if (!n->memory.enabled.v)
		return;
	if (!n->memory.scope.len)
		diag_error(c->f, "C048", n->memory.enabled.pos, "add scope: \"name\"",
			   "the memory of \"%s\" has no scope", n->name.s);
	if (backend && strcmp(backend, "claw") != 0)
		diag_warning(c->f, "C047", n->memory.pos, "use backend: claw, or remove the memory block",
			     "the backend %.100s of \"%s\" has no memory", backend, n->name.s);
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
		if (n->kind == DSL_COMPUTE && n->n_exprs == 0)
			diag_error(c->f, "C039", n->name.pos,
				   "add expr: with lines such as total: \"input.a + input.b\"",
				   "the compute \"%s\" has no expressions", n->name.s);
	}
}
