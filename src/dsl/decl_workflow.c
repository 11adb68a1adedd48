/* The workflow: its properties by table, its edges by their arrow. An edge's clauses may stand in any order, each once:
 * src -> dst [when [not] FIELD | when "expression"] [as NAME(N)] [with { key: "template" … }]. */
#include "parser.h"

#include <base/arena.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/expr.h>

#include <string.h>

enum { EDGES_MAX = 1000 * 1000 };

#define FLOW(field) offsetof(struct dsl_workflow, field)

static const struct word worktree_words[] = {{"auto", DSL_WORKTREE_AUTO}, {"none", DSL_WORKTREE_NONE}};

#define BUDGET(field) offsetof(struct dsl_budget, field)
static const struct prop budget_rows[] = {
	{"max_parallel_branches", PROP_INT, BUDGET(max_parallel_branches)},
	{"max_duration", PROP_STRING, BUDGET(max_duration)},
	{"max_cost_usd", PROP_NUM, BUDGET(max_cost_usd)},
	{"max_tokens", PROP_INT, BUDGET(max_tokens)},
	{"max_iterations", PROP_INT, BUDGET(max_iterations)},
};
static const struct props budget_props = {"budget", budget_rows, ARRAY_LEN(budget_rows)};

static const struct prop workflow_rows[] = {
	{"vars", PROP_READ, 0, .read = read_vars},
	{"attachments", PROP_READ, 0, .read = read_attachments},
	{"entry", PROP_NAME, FLOW(entry)},
	{"default_backend", PROP_STRING, FLOW(default_backend)},
	{"tool_policy", PROP_LIST, FLOW(tool_policy)},
	{"capabilities", PROP_LIST, FLOW(capabilities)},
	{"worktree", PROP_WORD, FLOW(worktree), WORDS(worktree_words)},
	{"mcp", PROP_BLOCK, FLOW(mcp), .sub = &mcp_props},
	{"budget", PROP_BLOCK, FLOW(budget), .sub = &budget_props},
	{"compaction", PROP_BLOCK, FLOW(compaction), .sub = &compaction_props},
	{"interaction", PROP_WORD, FLOW(interaction), WORDS(interaction_words)},
	{"sandbox", PROP_READ, FLOW(sandbox), .read = read_sandbox},
};
static const struct props workflow_props = {"a workflow", workflow_rows, ARRAY_LEN(workflow_rows), NULL, parse_edge};

static bool token_word(const struct token *t, const char *word)
{
	return t->type == TOK_IDENT && t->len == strlen(word) && memcmp(t->s, word, t->len) == 0;
}

static bool clause_twice(struct parser *p, const struct token *t, bool twice)
{
	if (twice)
		diag_error(p->f, "P009", t->pos, "keep one of them", "an edge has \"%.*s\" twice", (int)t->len, t->s);
	return !twice;
}

/* when [not] FIELD, when "expression" */
static bool read_when(struct parser *p, struct dsl_edge *e)
{
	struct token t = *lex_peek(&p->lx);
	struct dsl_str src;

	if (t.type == TOK_STRING || t.type == TOK_RAW) {
		if (!read_quoted(p, EXPAND_EMPTY, &src))
			return false;
		make_expr(p, EXPR_BARE_NAMES, &src, &e->expr);
		return true;
	}
	if (!read_name(p, "a field or a quoted expression after \"when\"", &e->when))
		return false;
	/* A field may itself be called "not". */
	const struct token *next = lex_peek(&p->lx);
	if (token_word(&t, "not") && next->type == TOK_IDENT && !token_word(next, "as") && !token_word(next, "with")) {
		e->negated = true;
		return read_name(p, "a field after \"not\"", &e->when);
	}
	return true;
}

/* as NAME(N) */
static bool read_loop(struct parser *p, struct dsl_edge *e)
{
	return read_name(p, "the loop's name after \"as\"", &e->loop) &&
	       expect_punct(p, '(', "the loop's name: as name(5)") && read_int(p, &e->loop_max) &&
	       expect_punct(p, ')', "the number of iterations");
}

/* with { key: "template" … }, separated by newlines or commas. */
static bool read_with(struct parser *p, struct dsl_edge *e)
{
	struct names keys = {0};
	struct token open = *lex_peek(&p->lx);

	if (!expect_punct(p, '{', "\"with\""))
		return false;
	e->with_pos = open.pos;
	while (lex_skip_lines(&p->lx)) {
		if (token_is(lex_peek(&p->lx), '}')) {
			(void)lex_take(&p->lx);
			return true;
		}
		struct dsl_field_text item = {0};
		struct dsl_str src;
		if (!read_key(p, &item.key) || !read_quoted(p, EXPAND_EMPTY, &src))
			return false;
		if (names_add(&keys, p->f->state->arena, item.key.s, e))
			diag_error(p->f, "C028", item.key.pos, "keep one of them", "\"with\" gives \"%s\" twice",
				   item.key.s);
		make_text(p, TEMPLATE_TEXT, &src, &item.value);
		ARENA_PUSH(p->f->state->arena, e->with, e->n_with, item);
		if (token_is(lex_peek(&p->lx), ','))
			(void)lex_take(&p->lx);
		else if (lex_peek(&p->lx)->type != TOK_EOL && !token_is(lex_peek(&p->lx), '}')) {
			unexpected(p, lex_peek(&p->lx), "\",\", a new line or \"}\"");
			return false;
		}
	}
	diag_error(p->f, "P005", open.pos, "close it with }", "\"with\" does not end");
	return false;
}

/* One clause; false after an error. */
static bool read_clause(struct parser *p, struct dsl_edge *e)
{
	struct token t = lex_take(&p->lx);

	if (token_word(&t, "when"))
		return clause_twice(p, &t, e->when.s || e->expr.src.s) && read_when(p, e);
	if (token_word(&t, "as"))
		return clause_twice(p, &t, e->loop.s != NULL) && read_loop(p, e);
	if (token_word(&t, "with"))
		return clause_twice(p, &t, e->with_pos.line != 0) && read_with(p, e);
	unexpected(p, &t, "\"when\", \"as\", \"with\" or the end of the line");
	return false;
}

/* Whether the line that begins here is an edge: its second token is an arrow. Nothing is taken. */
static bool is_edge(struct parser *p)
{
	struct lexer saved = p->lx;
	bool edge = lex_take(&p->lx).type == TOK_IDENT && lex_peek(&p->lx)->type == TOK_ARROW;

	p->lx = saved;
	return edge;
}

bool parse_edge(struct parser *p, void *workflow)
{
	struct dsl_workflow *w = workflow;

	if (lex_peek(&p->lx)->type != TOK_IDENT || !is_edge(p))
		return false;
	struct dsl_edge *e = arena_alloc(p->f->state->arena, sizeof *e);
	e->pos = lex_peek(&p->lx)->pos;
	bool ok = read_name(p, "a node", &e->from);
	(void)lex_take(&p->lx);
	ok = ok && read_name(p, "a node after \"->\"", &e->to);
	if (ok && w->n_edges == EDGES_MAX) {
		diag_error(p->f, "P011", e->pos, "split the workflow", "more than %d edges", EDGES_MAX);
		ok = false;
	}
	if (ok)
		ARENA_PUSH(p->f->state->arena, w->edges, w->n_edges, e);
	while (ok && lex_peek(&p->lx)->type != TOK_EOL)
		ok = read_clause(p, e);
	if (ok)
		end_line(p);
	else
		skip_property(p);
	return true;
}

static void finish_budget(struct parser *p, struct dsl_budget *b)
{
	if (b->max_duration.s &&
	    (str_parse_duration(b->max_duration.s, &b->max_duration_ms) < 0 || b->max_duration_ms == 0))
		diag_error(p->f, "P007", b->max_duration.pos, "write a duration such as \"30m\" or \"1h30m\"",
			   "\"%.100s\" is no duration", b->max_duration.s);
}

void parse_workflow(struct parser *p, const struct token *key, void *unused)
{
	struct dsl_state *st = p->f->state;
	struct dsl_workflow *w = arena_alloc(st->arena, sizeof *w);

	(void)key;
	(void)unused;
	if (!read_declared(p, "workflow", &w->name) || !expect_block(p, "a workflow"))
		return;
	if (!p->f->workflow)
		p->f->workflow = w;
	else
		diag_error(p->f, "C007", w->name.pos, "one file holds one workflow; move it to a file of its own",
			   "a second workflow (the first is \"%s\" in line %u)", p->f->workflow->name.s,
			   p->f->workflow->name.pos.line);
	read_props(p, &workflow_props, w, NULL);
	finish_budget(p, &w->budget);
}
