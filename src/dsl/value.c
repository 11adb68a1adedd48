/* Values: strings in their four forms, names, numbers, lists, maps and literals. Strings are copied into the file's
 * arena without quotes and indentation; their position is kept, so that an error inside a template or an expression
 * can be shown where it stands. */
#include "parser.h"

#include <base/arena.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 100 * 1000 };

struct dsl_pos dsl_str_pos(const struct dsl_str *s, size_t offset)
{
	struct dsl_pos pos = s->pos;
	const char *p = s->s, *end = s->s + MIN(offset, s->len), *nl;

	if (s->shifted)
		return pos;
	for (; p < end && (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
		pos.line++;
		pos.column = s->indent + 1;
	}
	pos.column += (uint32_t)(end - p);
	return pos;
}

static struct dsl_str str_of(struct parser *p, const struct token *t)
{
	struct dsl_str s = {.s = arena_strndup(p->f->state->arena, t->s, t->len), .len = t->len, .pos = t->pos};

	if (t->type == TOK_STRING || t->type == TOK_RAW)
		s.pos.column++;
	return s;
}

/* A raw string may have been typed on a system with CRLF line ends. */
static void drop_carriage_returns(struct dsl_str *s, char *text)
{
	size_t to = 0;

	for (size_t i = 0; i < s->len; i++)
		if (text[i] != '\r' || i + 1 >= s->len || text[i + 1] != '\n')
			text[to++] = text[i];
	text[to] = '\0';
	s->len = to;
}

static bool read_block_string(struct parser *p, struct dsl_str *ret)
{
	struct token pipe = lex_take(&p->lx);
	const struct token *t = lex_peek(&p->lx);

	if (t->type != TOK_EOL) {
		unexpected(p, t, "the end of the line after |");
		return false;
	}
	if (!lex_body(&p->lx, p->lx.indent, ret)) {
		diag_error(p->f, "P012", pipe.pos, "write the text below, indented deeper than this line",
			   "no text follows |");
		*ret = (struct dsl_str){.s = "", .pos = pipe.pos};
		return true;
	}
	/* lex_body leaves room for the final newline. */
	((char *)(uintptr_t)ret->s)[ret->len++] = '\n';
	return true;
}

bool read_quoted(struct parser *p, enum expand how, struct dsl_str *ret)
{
	struct token t = *lex_peek(&p->lx);

	if (token_is(&t, '|')) {
		if (!read_block_string(p, ret))
			return false;
	} else if (t.type == TOK_STRING || t.type == TOK_RAW) {
		(void)lex_take(&p->lx);
		*ret = str_of(p, &t);
		if (t.type == TOK_STRING && p->strict)
			unescape_string(p, ret);
		else if (t.type == TOK_RAW)
			drop_carriage_returns(ret, (char *)(uintptr_t)ret->s);
	} else {
		unexpected(p, &t, "a string");
		return false;
	}
	expand_string(p, how, ret);
	return true;
}

bool read_string(struct parser *p, enum expand how, struct dsl_str *ret)
{
	const struct token *t = lex_peek(&p->lx);

	if (t->type == TOK_STRING || t->type == TOK_RAW || token_is(t, '|'))
		return read_quoted(p, how, ret);
	struct token bare = lex_take_bare(&p->lx);
	if (bare.type != TOK_IDENT && bare.type != TOK_INT && bare.type != TOK_FLOAT && !token_is(&bare, '*')) {
		unexpected(p, &bare, "a name or a string");
		return false;
	}
	*ret = str_of(p, &bare);
	return true;
}

bool read_name(struct parser *p, const char *what, struct dsl_str *ret)
{
	struct token t = *lex_peek(&p->lx);

	if (t.type != TOK_IDENT) {
		unexpected(p, &t, what);
		return false;
	}
	(void)lex_take(&p->lx);
	*ret = str_of(p, &t);
	return true;
}

bool read_key(struct parser *p, struct dsl_str *ret)
{
	struct token t = *lex_peek(&p->lx);

	if (t.type != TOK_IDENT && t.type != TOK_STRING) {
		unexpected(p, &t, "a name");
		return false;
	}
	(void)lex_take(&p->lx);
	*ret = str_of(p, &t);
	return expect_punct(p, ':', "the name");
}

/* A number token, or the number in a string (which is how one comes out of ${…}). */
static bool read_number_text(struct parser *p, const char *wanted, struct dsl_str *ret)
{
	struct token t = *lex_peek(&p->lx);

	if (t.type == TOK_STRING || t.type == TOK_RAW)
		return read_quoted(p, EXPAND_EMPTY, ret);
	if (t.type != TOK_INT && t.type != TOK_FLOAT) {
		unexpected(p, &t, wanted);
		return false;
	}
	(void)lex_take(&p->lx);
	*ret = str_of(p, &t);
	return true;
}

bool read_int(struct parser *p, struct dsl_int *ret)
{
	struct dsl_str s;
	char *end;

	if (!read_number_text(p, "a whole number", &s))
		return false;
	errno = 0;
	long long v = strtoll(s.s, &end, 10);
	ret->pos = s.pos;
	if (errno == ERANGE)
		diag_error(p->f, "P015", s.pos, NULL, "the number %.40s is too large", s.s);
	else if (!s.len || *end || s.s[0] == ' ')
		diag_error(p->f, "P007", s.pos, NULL, "expected a whole number, found \"%.100s\"", s.s);
	else
		*ret = (struct dsl_int){.v = v, .set = true, .pos = s.pos};
	return true;
}

bool read_num(struct parser *p, struct dsl_num *ret)
{
	struct dsl_str s;
	char *end;

	if (!read_number_text(p, "a number", &s))
		return false;
	double v = strtod(s.s, &end);
	ret->pos = s.pos;
	if (!s.len || *end || strspn(s.s, "+-.0123456789eE") != s.len)
		diag_error(p->f, "P007", s.pos, NULL, "expected a number, found \"%.100s\"", s.s);
	else if (!isfinite(v))
		diag_error(p->f, "P015", s.pos, NULL, "the number %.40s is too large", s.s);
	else
		*ret = (struct dsl_num){.v = v, .set = true, .pos = s.pos};
	return true;
}

bool read_bool(struct parser *p, struct dsl_bool *ret)
{
	struct dsl_str s;

	if (!read_string(p, EXPAND_EMPTY, &s))
		return false;
	ret->pos = s.pos;
	if (strcmp(s.s, "true") != 0 && strcmp(s.s, "false") != 0)
		diag_error(p->f, "P007", s.pos, "write true or false", "expected true or false, found \"%.100s\"", s.s);
	else
		*ret = (struct dsl_bool){.v = s.s[0] == 't', .set = true, .pos = s.pos};
	return true;
}

bool read_list(struct parser *p, struct dsl_list *ret)
{
	struct token open = *lex_peek(&p->lx);

	if (!token_is(&open, '[')) {
		unexpected(p, &open, "a list: [a, \"b\"]");
		return false;
	}
	(void)lex_take(&p->lx);
	*ret = (struct dsl_list){.pos = open.pos};
	for (;;) {
		struct dsl_str item;
		if (!lex_skip_lines(&p->lx))
			break;
		if (token_is(lex_peek(&p->lx), ']')) {
			(void)lex_take(&p->lx);
			return true;
		}
		if (!read_string(p, EXPAND_EMPTY, &item))
			return false;
		if (ret->n == ITEMS_MAX) {
			diag_error(p->f, "P011", item.pos, NULL, "a list of more than %d items", ITEMS_MAX);
			return false;
		}
		ARENA_PUSH(p->f->state->arena, ret->v, ret->n, item);
		if (!lex_skip_lines(&p->lx))
			break;
		if (token_is(lex_peek(&p->lx), ','))
			(void)lex_take(&p->lx);
		else if (!token_is(lex_peek(&p->lx), ']')) {
			unexpected(p, lex_peek(&p->lx), "\",\" or \"]\" in the list");
			return false;
		}
	}
	diag_error(p->f, "P005", open.pos, "close it with ]", "a list that does not end");
	return false;
}

void read_map(struct parser *p, struct dsl_map *ret)
{
	struct block b = BLOCK_BELOW(p->lx.indent);

	while (block_next(p, &b)) {
		struct dsl_pair pair;
		if (!read_key(p, &pair.key) || !read_string(p, EXPAND_EMPTY, &pair.value)) {
			skip_property(p);
			continue;
		}
		ARENA_PUSH(p->f->state->arena, ret->v, ret->n, pair);
		end_line(p);
	}
}

/* Keeps a value for as long as the file lives. */
static json_t *own(struct parser *p, json_t *v)
{
	if (v && json_array_append_new(p->f->state->literals, v) < 0)
		abort();
	return v;
}

/* ${…} in the strings of a JSON literal. Its depth is bounded by jansson's parser. */
static void expand_json(struct parser *p, json_t *v, struct dsl_pos pos)
{
	const char *key;
	json_t *child;
	size_t i;
	void *tmp;

	if (json_is_string(v) && strstr(json_string_value(v), "${")) {
		struct dsl_str s = {.s = json_string_value(v), .len = json_string_length(v), .pos = pos};
		expand_string(p, EXPAND_EMPTY, &s);
		if (json_string_setn(v, s.s, s.len) < 0)
			diag_error(p->f, "P010", pos, NULL, "the value of ${…} is not valid UTF-8");
	}
	json_array_foreach(v, i, child) expand_json(p, child, pos);
	json_object_foreach_safe(v, tmp, key, child) expand_json(p, child, pos);
}

/* A JSON document in brackets; [a, b] with bare names is no JSON and read as a list of strings. */
static bool read_brackets(struct parser *p, struct dsl_literal *ret)
{
	struct token t = *lex_peek(&p->lx);
	size_t len = lex_balanced(&p->lx);
	struct err e = ERR_INIT;
	json_t *v = len ? json_parse_value(t.s, len, &e) : NULL;

	if (v) {
		lex_jump(&p->lx, len);
		expand_json(p, v, t.pos);
		ret->v = own(p, v);
		return true;
	}
	if (token_is(&t, '{')) {
		diag_error(p->f, "P014", t.pos, "write JSON: {\"key\": \"value\"}", "%s",
			   len ? e.msg : "a JSON literal that does not end");
		return false;
	}
	struct dsl_list list;
	if (!read_list(p, &list))
		return false;
	v = json_array();
	for (size_t i = 0; i < list.n; i++)
		if (json_array_append_new(v, json_text(list.v[i].s, list.v[i].len)) < 0)
			abort();
	ret->v = own(p, v);
	return true;
}

static bool read_number_literal(struct parser *p, const struct token *t, struct dsl_literal *ret)
{
	if (t->type == TOK_INT) {
		struct dsl_int i = {0};
		if (!read_int(p, &i))
			return false;
		ret->v = own(p, i.set ? json_integer(i.v) : NULL);
		return true;
	}
	struct dsl_num d = {0};
	if (!read_num(p, &d))
		return false;
	ret->v = own(p, d.set ? json_real(d.v) : NULL);
	return true;
}

bool read_literal(struct parser *p, struct dsl_literal *ret)
{
	struct token t = *lex_peek(&p->lx);
	struct dsl_str s;

	*ret = (struct dsl_literal){.pos = t.pos};
	if (token_is(&t, '[') || token_is(&t, '{'))
		return read_brackets(p, ret);
	if (t.type == TOK_INT || t.type == TOK_FLOAT)
		return read_number_literal(p, &t, ret);
	if (!read_string(p, EXPAND_EMPTY, &s))
		return false;
	bool word = t.type == TOK_IDENT;
	if (word && (strcmp(s.s, "true") == 0 || strcmp(s.s, "false") == 0))
		ret->v = own(p, json_boolean(s.s[0] == 't'));
	else if (word && strcmp(s.s, "null") == 0)
		ret->v = own(p, json_null());
	else
		ret->v = own(p, json_text(s.s, s.len));
	return true;
}
