/* Expressions: text to tree, by recursive descent in the usual order of operators: || && ! comparison + - * / % unary
 * minus, and behind a value .name and [index]. The tree's depth is limited, by nesting and by chains alike (a chain of
 * a thousand + is a deep tree too), because evaluation walks it by recursion. */
#include "expr_node.h"
#include "state.h"

#include <base/arena.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPR_SOURCE_MAX = 1024 * 1024 };

struct cursor {
	struct arena *a;
	const char *s;
	size_t len, at, start; /* start: of the token just looked at */
	unsigned flags, depth;
	struct expr *x;
	struct err *e;
	size_t error_at;
	bool failed;
};

static struct expr_node *parse_or(struct cursor *c);

__attribute__((format(printf, 4, 5))) static struct expr_node *fail(struct cursor *c, size_t at, const char *hint,
								    const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (c->failed)
		return NULL;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	c->failed = true;
	c->error_at = at;
	(void)err_set(c->e, ERR_INPUT, 0, "expression: %s", text);
	if (hint)
		err_hint(c->e, "%s", hint);
	return NULL;
}

static char peek(struct cursor *c)
{
	while (c->at < c->len &&
	       (c->s[c->at] == ' ' || c->s[c->at] == '\t' || c->s[c->at] == '\n' || c->s[c->at] == '\r'))
		c->at++;
	c->start = c->at;
	return c->at < c->len ? c->s[c->at] : '\0';
}

static bool accept(struct cursor *c, const char *op)
{
	size_t n = strlen(op);

	(void)peek(c);
	if (c->len - c->at < n || memcmp(c->s + c->at, op, n) != 0)
		return false;
	c->at += n;
	return true;
}

static bool is_name_char(char ch, bool first)
{
	return ch == '_' || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (!first && ch >= '0' && ch <= '9');
}

/* The name that begins here, without taking it. */
static size_t name_length(struct cursor *c)
{
	size_t n = 0;

	(void)peek(c);
	while (c->at + n < c->len && is_name_char(c->s[c->at + n], n == 0))
		n++;
	return n;
}

static bool accept_word(struct cursor *c, const char *word)
{
	size_t n = name_length(c);

	if (n != strlen(word) || memcmp(c->s + c->at, word, n) != 0)
		return false;
	c->at += n;
	return true;
}

static struct expr_node *new_node(struct cursor *c, enum expr_kind kind)
{
	struct expr_node *n = arena_alloc(c->a, sizeof *n);

	n->kind = kind;
	n->depth = 1;
	return n;
}

static struct expr_node *too_deep(struct cursor *c)
{
	return fail(c, c->start, "split it over several compute fields", "nested or chained more than %d deep",
		    EXPR_DEPTH_MAX);
}

/* Adds an operand; false when the tree gets too deep. */
static bool add_arg(struct cursor *c, struct expr_node *n, const struct expr_node *arg)
{
	ARENA_PUSH(c->a, n->args, n->n_args, arg);
	n->depth = MAX(n->depth, arg->depth + 1);
	if (n->depth <= EXPR_DEPTH_MAX)
		return true;
	(void)too_deep(c);
	return false;
}

static struct expr_node *binary(struct cursor *c, enum expr_kind kind, const char *op, const struct expr_node *a,
				const struct expr_node *b)
{
	struct expr_node *n = new_node(c, kind);

	memcpy(n->op, op, strlen(op));
	return a && b && add_arg(c, n, a) && add_arg(c, n, b) ? n : NULL;
}

/* A number; the text holds no sign. */
static struct expr_node *parse_number(struct cursor *c)
{
	struct expr_node *n = new_node(c, EXPR_LITERAL);
	char text[64], *end;
	size_t len = 0;

	while (c->at + len < c->len && strchr("0123456789.eE", c->s[c->at + len]) && c->s[c->at + len])
		len++;
	if (len >= sizeof text)
		return fail(c, c->start, NULL, "a number with too many digits");
	memcpy(text, c->s + c->at, len);
	text[len] = '\0';
	errno = 0;
	n->is_number = true;
	n->is_int = strspn(text, "0123456789") == len;
	n->integer = n->is_int ? strtoll(text, &end, 10) : 0;
	if (!n->is_int)
		n->real = strtod(text, &end);
	if (*end)
		return fail(c, c->start, NULL, "\"%s\" is no number", text);
	if (errno == ERANGE || !isfinite(n->real))
		return fail(c, c->start, NULL, "the number %s is too large", text);
	c->at += len;
	return n;
}

static char escape_meaning(char ch)
{
	static const char from[] = "ntr\"'\\", to[] = "\n\t\r\"'\\";
	const char *p = ch ? strchr(from, ch) : NULL;

	return p ? to[p - from] : '\0';
}

/* '…' or "…" with the usual escapes; in files without strict escapes a quote inside "…" arrives as \", which then
 * opens and closes the string. */
static struct expr_node *parse_string(struct cursor *c, bool escaped)
{
	struct expr_node *n = new_node(c, EXPR_LITERAL);
	size_t from = c->at + 1 + escaped, end = from;
	char quote = c->s[from - 1];

	while (end < c->len &&
	       !(escaped ? c->s[end] == '\\' && end + 1 < c->len && c->s[end + 1] == quote : c->s[end] == quote))
		end += !escaped && c->s[end] == '\\' ? 2 : 1;
	if (end >= c->len)
		return fail(c, c->start, NULL, "a string that does not end");
	char *to = arena_alloc(c->a, end - from + 1);
	n->text = to;
	for (size_t i = from; i < end; i++) {
		char meaning = c->s[i] == '\\' && i + 1 < end ? escape_meaning(c->s[i + 1]) : '\0';
		i += meaning != '\0';
		to[n->len++] = meaning ? meaning : c->s[i];
	}
	c->at = end + 1 + escaped;
	return n;
}

/* Steps behind a value: .name and [index]. */
static bool parse_steps(struct cursor *c, struct expr_node *n)
{
	for (;;) {
		struct expr_step step = {0};
		char ch = peek(c);
		if (ch == '.') {
			c->at++;
			size_t len = name_length(c);
			if (!len) {
				(void)fail(c, c->start, NULL, "expected a field after \".\"");
				return false;
			}
			step.name = arena_strndup(c->a, c->s + c->at, len);
			c->at += len;
		} else if (ch == '[') {
			c->at++;
			step.index = parse_or(c);
			if (!step.index)
				return false;
			if (!accept(c, "]")) {
				(void)fail(c, c->start, NULL, "expected \"]\"");
				return false;
			}
			n->depth = MAX(n->depth, step.index->depth + 1);
		} else {
			return true;
		}
		ARENA_PUSH(c->a, n->steps, n->n_steps, step);
	}
}

/* What a step is called in a reference: the field, the number, or * for what is computed. */
static const char *step_text(struct cursor *c, const struct expr_step *step)
{
	if (step->name)
		return step->name;
	if (step->index->kind == EXPR_LITERAL && step->index->is_int)
		return arena_printf(c->a, "%lld", step->index->integer);
	if (step->index->kind == EXPR_LITERAL && step->index->text)
		return step->index->text;
	return "*";
}

static struct expr_node *nameless(struct cursor *c, size_t at, const char *ns, size_t len)
{
	return fail(c, at, NULL, "\"%.*s\" needs a name behind it: %.*s.NAME", (int)len, ns, (int)len, ns);
}

/* The first step is the name in the namespace; vars["x"] is vars.x. */
static bool take_first(struct cursor *c, struct expr_node *n)
{
	struct expr_step *first = n->n_steps ? &n->steps[0] : NULL;

	if (first && first->index && first->index->kind == EXPR_LITERAL && first->index->text)
		first->name = first->index->text;
	if (first && first->name)
		return true;
	const char *ns = dsl_ns_name(n->ref.ns);
	(void)nameless(c, n->ref.offset, ns, strlen(ns));
	return false;
}

/* A path: NAMESPACE.name… */
static struct expr_node *parse_path(struct cursor *c, int ns, size_t len)
{
	struct expr_node *n = new_node(c, EXPR_PATH);
	const char **path = NULL;
	size_t n_path = 0;

	n->ref.offset = c->start;
	if (ns < 0) {
		n->ref.ns = DSL_NS_FIELD;
		ARENA_PUSH(c->a, n->steps, n->n_steps,
			   ((struct expr_step){.name = arena_strndup(c->a, c->s + c->at, len)}));
	} else {
		n->ref.ns = (enum dsl_ns)ns;
	}
	c->at += len;
	if (!parse_steps(c, n) || !take_first(c, n))
		return NULL;
	if (n->ref.ns == DSL_NS_OUTPUTS && n->n_steps > 1 && n->steps[1].name &&
	    strcmp(n->steps[1].name, "history") == 0) {
		n->ref.ns = DSL_NS_HISTORY;
		n->n_steps--;
		memmove(n->steps + 1, n->steps + 2, (n->n_steps - 1) * sizeof *n->steps);
	}
	for (size_t i = 0; i < n->n_steps; i++)
		ARENA_PUSH(c->a, path, n_path, step_text(c, &n->steps[i]));
	n->ref.path = path;
	n->ref.n = n_path;
	if (n->depth > EXPR_DEPTH_MAX)
		return too_deep(c);
	ARENA_PUSH(c->a, c->x->refs, c->x->n_refs, &n->ref);
	return n;
}

static struct expr_node *parse_call(struct cursor *c, const struct expr_fn *fn)
{
	struct expr_node *n = new_node(c, EXPR_CALL);
	size_t at = c->start;

	n->fn = fn;
	c->at += strlen(fn->name);
	(void)accept(c, "(");
	while (!accept(c, ")")) {
		if (n->n_args && !accept(c, ","))
			return fail(c, c->start, NULL, "expected \",\" or \")\" in %s(…)", fn->name);
		const struct expr_node *arg = parse_or(c);
		if (!arg || !add_arg(c, n, arg))
			return NULL;
	}
	if (n->n_args < fn->min_args || n->n_args > fn->max_args)
		return fail(c, at, NULL, "%s takes %zu%s arguments, not %zu", fn->name, fn->min_args,
			    fn->max_args > fn->min_args ? " or more" : "", n->n_args);
	return n;
}

static struct expr_node *unknown_name(struct cursor *c, size_t len, bool call)
{
	static const char *const spaces[] = {"vars", "input", "outputs", "artifacts", "attachments", "loop", "run"};
	const char *const *names = spaces, *near;
	size_t n = ARRAY_LEN(spaces);
	char word[64];

	if (call)
		n = expr_fn_names(&names);
	memcpy(word, c->s + c->at, MIN(len, sizeof word - 1));
	word[MIN(len, sizeof word - 1)] = '\0';
	near = str_nearest(word, names, n);
	if (near)
		return fail(c, c->start, arena_printf(c->a, "did you mean \"%s\"?", near), "unknown %s \"%s\"",
			    call ? "function" : "name", word);
	return fail(
		c, c->start,
		call ? "functions are length, concat, unique, contains, join and if"
		     : "values are vars.NAME, input.FIELD, outputs.NODE.FIELD, artifacts.NAME, attachments.NAME.FIELD, "
		       "loop.NAME.FIELD and run.FIELD; text goes between quotes",
		"unknown %s \"%s\"", call ? "function" : "name", word);
}

static struct expr_node *parse_named(struct cursor *c)
{
	static const struct {
		const char *word;
		json_t *(*make)(void);
	} constants[] = {{"true", json_true}, {"false", json_false}, {"null", json_null}};
	size_t len = name_length(c), at = c->at;

	for (size_t i = 0; i < ARRAY_LEN(constants); i++) {
		if (accept_word(c, constants[i].word)) {
			struct expr_node *n = new_node(c, EXPR_LITERAL);
			n->value = constants[i].make(); /* a static object of jansson's */
			return n;
		}
	}
	c->at = at + len;
	bool call = peek(c) == '(', dot = peek(c) == '.' || peek(c) == '[';
	c->at = c->start = at;
	const struct expr_fn *fn = call ? expr_find_fn(c->s + at, len) : NULL;
	if (call)
		return fn ? parse_call(c, fn) : unknown_name(c, len, true);
	int ns = ref_namespace(c->s + at, len);
	if (ns >= 0 && !dot && !(c->flags & EXPR_BARE_NAMES))
		return nameless(c, at, c->s + at, len);
	if (ns < 0 && (dot || !(c->flags & EXPR_BARE_NAMES)))
		return unknown_name(c, len, false);
	return parse_path(c, dot ? ns : -1, len);
}

static struct expr_node *parse_primary(struct cursor *c)
{
	char ch = peek(c);

	if (ch >= '0' && ch <= '9')
		return parse_number(c);
	if (ch == '"' || ch == '\'')
		return parse_string(c, false);
	if (ch == '\\' && c->at + 1 < c->len && c->s[c->at + 1] == '"')
		return parse_string(c, true);
	if (is_name_char(ch, true))
		return parse_named(c);
	if (ch != '(') {
		if (c->at >= c->len)
			return fail(c, c->start, NULL, "it ends where a value is expected");
		return fail(c, c->start, NULL, "unexpected \"%.*s\"", 1, c->s + c->at);
	}
	c->at++;
	struct expr_node *n = parse_or(c);
	if (n && !accept(c, ")"))
		return fail(c, c->start, NULL, "expected \")\"");
	return n;
}

static struct expr_node *parse_postfix(struct cursor *c)
{
	struct expr_node *n = parse_primary(c);

	if (!n || (peek(c) != '.' && peek(c) != '['))
		return n;
	struct expr_node *select = new_node(c, EXPR_SELECT);
	if (!add_arg(c, select, n) || !parse_steps(c, select))
		return NULL;
	return select->depth > EXPR_DEPTH_MAX ? too_deep(c) : select;
}

static struct expr_node *unary(struct cursor *c, enum expr_kind kind, struct expr_node *arg)
{
	struct expr_node *n = new_node(c, kind);

	return arg && add_arg(c, n, arg) ? n : NULL;
}

static struct expr_node *parse_minus(struct cursor *c)
{
	size_t signs = 0;

	while (accept(c, "-"))
		signs++;
	struct expr_node *n = parse_postfix(c);
	for (size_t i = 0; n && i < signs; i++)
		n = unary(c, EXPR_MINUS, n);
	return n;
}

static struct expr_node *parse_product(struct cursor *c)
{
	struct expr_node *n = parse_minus(c);

	for (char ch; n && ((ch = peek(c)) == '*' || ch == '/' || ch == '%');) {
		c->at++;
		n = binary(c, EXPR_ARITH, (char[]){ch, '\0'}, n, parse_minus(c));
	}
	return n;
}

static struct expr_node *parse_sum(struct cursor *c)
{
	struct expr_node *n = parse_product(c);

	for (char ch; n && ((ch = peek(c)) == '+' || ch == '-');) {
		c->at++;
		n = binary(c, EXPR_ARITH, (char[]){ch, '\0'}, n, parse_product(c));
	}
	return n;
}

static const char *accept_comparison(struct cursor *c)
{
	static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (accept(c, ops[i]))
			return ops[i];
	return NULL;
}

static struct expr_node *parse_comparison(struct cursor *c)
{
	struct expr_node *n = parse_sum(c);
	const char *op = n ? accept_comparison(c) : NULL;

	if (!op)
		return n;
	n = binary(c, EXPR_COMPARE, op, n, parse_sum(c));
	if (n && accept_comparison(c))
		return fail(c, c->start, "write a < b && b < c", "comparisons do not chain");
	return n;
}

static struct expr_node *parse_not(struct cursor *c)
{
	size_t nots = 0;

	for (;;) {
		bool bang = peek(c) == '!' && !(c->at + 1 < c->len && c->s[c->at + 1] == '=');
		if (bang)
			c->at++;
		else if (!accept_word(c, "not"))
			break;
		nots++;
	}
	struct expr_node *n = parse_comparison(c);
	for (size_t i = 0; n && i < nots; i++)
		n = unary(c, EXPR_NOT, n);
	return n;
}

/* Chains of one operator are one node with many operands. */
static struct expr_node *parse_chain(struct cursor *c, enum expr_kind kind, const char *op, const char *word,
				     struct expr_node *(*operand)(struct cursor *))
{
	struct expr_node *first = operand(c), *n = NULL;

	while (first && (accept(c, op) || accept_word(c, word))) {
		if (!n) {
			n = new_node(c, kind);
			if (!add_arg(c, n, first))
				return NULL;
		}
		const struct expr_node *arg = operand(c);
		if (!arg || !add_arg(c, n, arg))
			return NULL;
	}
	return n ? n : first;
}

static struct expr_node *parse_and(struct cursor *c)
{
	return parse_chain(c, EXPR_AND, "&&", "and", parse_not);
}

static struct expr_node *parse_or(struct cursor *c)
{
	if (c->depth >= EXPR_DEPTH_MAX)
		return too_deep(c);
	c->depth++;
	struct expr_node *n = parse_chain(c, EXPR_OR, "||", "or", parse_and);
	c->depth--;
	return n;
}

int expr_compile(struct arena *a, const char *text, size_t len, unsigned flags, const struct expr **ret,
		 size_t *ret_offset, struct err *e)
{
	struct err own = ERR_INIT;
	struct expr *x = arena_alloc(a, sizeof *x);
	struct cursor c = {.a = a, .s = text, .len = len, .flags = flags, .x = x, .e = e ? e : &own};

	if (len > EXPR_SOURCE_MAX)
		(void)fail(&c, 0, NULL, "longer than %d bytes", EXPR_SOURCE_MAX);
	else
		x->root = parse_or(&c);
	if (x->root && (peek(&c) || c.at < c.len))
		(void)fail(&c, c.at, "join conditions by && or ||, text by +", "unexpected \"%.*s\" behind the value",
			   (int)MIN(c.len - c.at, (size_t)20), c.s + c.at);
	if (c.failed || !x->root) {
		if (ret_offset)
			*ret_offset = c.error_at;
		return -EINVAL;
	}
	*ret = x;
	return 0;
}

size_t expr_refs(const struct expr *x, const struct dsl_ref *const **ret)
{
	*ret = x->refs;
	return x->n_refs;
}
