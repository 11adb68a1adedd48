/* The lexer: lines by their indentation, tokens within a line on demand. Indentation is given to the parser as a
 * number and not as tokens, because prompt bodies and | blocks are text that ends by indentation alone.
 *
 * Every byte is looked at a bounded number of times. A string that does not end is an error at its opening quote, and
 * lexing goes on behind that line: one missing quote must not hide the rest of the file's errors. */
#include "lex.h"

#include "state.h"

#include <base/arena.h>
#include <base/mem.h>

#include <stdio.h>
#include <string.h>

enum { ERRORS_MAX = 10000 };

void lex_init(struct lexer *lx, struct dsl_file *f, const char *text, size_t len)
{
	*lx = (struct lexer){.f = f, .text = text, .len = len, .line = 1, .fresh = true};
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		lx->at = lx->line_start = 3;
}

static struct dsl_pos pos_at(const struct lexer *lx, size_t at)
{
	return (struct dsl_pos){.line = lx->line, .column = (uint32_t)(at - lx->line_start) + 1};
}

static void next_line(struct lexer *lx)
{
	lx->line++;
	lx->line_start = lx->at;
	lx->fresh = true;
}

/* Moves behind the end of the current line. False when the file ends with it. */
static bool skip_line(struct lexer *lx)
{
	const char *nl = memchr(lx->text + lx->at, '\n', lx->len - lx->at);

	if (!nl) {
		lx->at = lx->len;
		return false;
	}
	lx->at = (size_t)(nl - lx->text) + 1;
	next_line(lx);
	return true;
}

/* Spaces from `at`; a tab among them is an error, once a line, and counts as two columns. */
static uint32_t read_indent(struct lexer *lx)
{
	uint32_t n = 0;
	bool told = false;

	for (; lx->at < lx->len && (lx->text[lx->at] == ' ' || lx->text[lx->at] == '\t'); lx->at++) {
		bool tab = lx->text[lx->at] == '\t';
		if (tab && !told) {
			size_t i = lx->at;
			while (i < lx->len && (lx->text[i] == ' ' || lx->text[i] == '\t' || lx->text[i] == '\r'))
				i++;
			told = true;
			if (i < lx->len && lx->text[i] != '\n' && lx->text[i] != '#')
				diag_error(lx->f, "P004", pos_at(lx, lx->at), "indent with spaces, two a level",
					   "a tab in the indentation");
		}
		n += tab ? 2 : 1;
	}
	return n;
}

/* A file of nothing but errors (a binary, another language) is not read to its end: it has been told enough. */
static bool given_up(const struct lexer *lx)
{
	return lx->f->n_errors > ERRORS_MAX;
}

bool lex_line(struct lexer *lx, uint32_t *ret_indent)
{
	if (given_up(lx))
		return false;
	if (!lx->open) {
		lx->ahead = false;
		if (!lx->fresh && !skip_line(lx))
			return false;
	}
	while (!lx->open) {
		uint32_t indent = read_indent(lx);
		while (lx->at < lx->len && lx->text[lx->at] == '\r')
			lx->at++;
		if (lx->at >= lx->len)
			return false;
		if (lx->text[lx->at] == '\n' || lx->text[lx->at] == '#') {
			if (!skip_line(lx)) {
				lx->fresh = false;
				return false;
			}
			continue;
		}
		lx->open = true;
		lx->fresh = false;
		lx->indent = indent;
	}
	*ret_indent = lx->indent;
	return true;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char at_char(const struct lexer *lx, size_t i)
{
	return i < lx->len ? lx->text[i] : '\0';
}

/* "…" on one line. A backslash always goes with the character behind it. */
static void lex_quoted(struct lexer *lx, struct token *t)
{
	size_t i = lx->at + 1;

	t->type = TOK_STRING;
	t->s = lx->text + i;
	for (; i < lx->len && lx->text[i] != '"' && lx->text[i] != '\n'; i++)
		if (lx->text[i] == '\\' && i + 1 < lx->len && lx->text[i + 1] != '\n')
			i++;
	t->len = i - lx->at - 1;
	if (i < lx->len && lx->text[i] == '"') {
		lx->at = i + 1;
		return;
	}
	diag_error(lx->f, "P005", t->pos, "close it with \" on the same line; ` … ` and | hold text of several lines",
		   "a string that does not end");
	t->type = TOK_BAD;
	lx->at = i;
}

/* `…`, over any number of lines. */
static void lex_raw(struct lexer *lx, struct token *t)
{
	const char *start = lx->text + lx->at + 1;
	const char *end = memchr(start, '`', lx->len - lx->at - 1);

	t->type = TOK_RAW;
	t->s = start;
	if (!end) {
		diag_error(lx->f, "P005", t->pos, "close it with another `", "a raw string that does not end");
		t->type = TOK_BAD;
		const char *nl = memchr(start, '\n', lx->len - lx->at - 1);
		lx->at = nl ? (size_t)(nl - lx->text) : lx->len;
		return;
	}
	t->len = (size_t)(end - start);
	for (const char *p = start; (p = memchr(p, '\n', (size_t)(end - p))); p++) {
		lx->line++;
		lx->line_start = (size_t)(p - lx->text) + 1;
	}
	lx->at = (size_t)(end - lx->text) + 1;
}

/* An optional minus, digits, an optional fraction and exponent. */
static void lex_number(struct lexer *lx, struct token *t)
{
	size_t i = lx->at + 1;

	t->type = TOK_INT;
	while (is_digit(at_char(lx, i)))
		i++;
	if (at_char(lx, i) == '.' && is_digit(at_char(lx, i + 1))) {
		t->type = TOK_FLOAT;
		for (i++; is_digit(at_char(lx, i)); i++)
			;
	}
	if ((at_char(lx, i) | 0x20) == 'e') {
		size_t j = i + 1;
		if (at_char(lx, j) == '+' || at_char(lx, j) == '-')
			j++;
		if (is_digit(at_char(lx, j))) {
			t->type = TOK_FLOAT;
			for (i = j; is_digit(at_char(lx, i)); i++)
				;
		}
	}
	t->s = lx->text + lx->at;
	t->len = i - lx->at;
	lx->at = i;
}

static void lex_bad(struct lexer *lx, struct token *t)
{
	unsigned char c = (unsigned char)lx->text[lx->at];
	size_t end = lx->at + 1;

	while (end < lx->len && c >= 0x80 && ((unsigned char)lx->text[end] & 0xc0) == 0x80)
		end++;
	t->type = TOK_BAD;
	t->s = lx->text + lx->at;
	t->len = end - lx->at;
	if (c == '\'')
		diag_error(lx->f, "P001", t->pos, "strings are written \"…\" or `…`", "unexpected '");
	else if (c < 0x20 || c == 0x7f)
		diag_error(lx->f, "P010", t->pos, "the file may not be text", "unexpected byte 0x%02x", c);
	else
		diag_error(lx->f, "P001", t->pos, "put text with such characters between quotes", "unexpected %.*s",
			   (int)t->len, t->s);
	/* The rest of the line would only repeat it. */
	const char *nl = memchr(lx->text + lx->at, '\n', lx->len - lx->at);
	lx->at = nl ? (size_t)(nl - lx->text) : lx->len;
}

static void scan(struct lexer *lx)
{
	struct token *t = &lx->token;

	while (!lx->fresh && lx->at < lx->len &&
	       (lx->text[lx->at] == ' ' || lx->text[lx->at] == '\t' || lx->text[lx->at] == '\r'))
		lx->at++;
	*t = (struct token){.type = TOK_EOL, .pos = pos_at(lx, lx->at), .s = lx->text + lx->at};
	char c = at_char(lx, lx->at);
	/* Behind a body the next line is not opened yet: the property ends here. */
	if (lx->fresh || lx->at >= lx->len || c == '\n' || c == '#')
		return;
	if (is_digit(c) || (c == '-' && is_digit(at_char(lx, lx->at + 1)))) {
		lex_number(lx, t);
	} else if (is_word(c)) {
		t->type = TOK_IDENT;
		while (is_word(at_char(lx, lx->at)))
			lx->at++;
		t->len = (size_t)(lx->text + lx->at - t->s);
	} else if (c == '"') {
		lex_quoted(lx, t);
	} else if (c == '`') {
		lex_raw(lx, t);
	} else if (c == '-' && at_char(lx, lx->at + 1) == '>') {
		t->type = TOK_ARROW;
		t->len = 2;
		lx->at += 2;
	} else if (c && strchr(":,=|.*[]{}()", c)) {
		t->type = TOK_PUNCT;
		t->punct = c;
		t->len = 1;
		lx->at++;
	} else {
		lex_bad(lx, t);
	}
}

const struct token *lex_peek(struct lexer *lx)
{
	if (!lx->ahead) {
		scan(lx);
		lx->ahead = true;
	}
	return &lx->token;
}

struct token lex_take(struct lexer *lx)
{
	struct token t = *lex_peek(lx);

	if (t.type != TOK_EOL)
		lx->ahead = false;
	lx->open = false;
	return t;
}

struct token lex_take_bare(struct lexer *lx)
{
	struct token t = lex_take(lx);

	if (t.type != TOK_IDENT && t.type != TOK_INT && t.type != TOK_FLOAT && !token_is(&t, '*'))
		return t;
	for (; lx->at < lx->len; lx->at++) {
		char c = lx->text[lx->at], next = at_char(lx, lx->at + 1);
		bool joins = c == '-' || c == '.' || c == '/' || c == ':' || c == '@' || c == '+';
		if (c != '*' && !is_word(c) && !(joins && (is_word(next) || next == '*')))
			break;
	}
	t.len = (size_t)(lx->text + lx->at - t.s);
	return t;
}

bool lex_skip_lines(struct lexer *lx)
{
	while (lex_peek(lx)->type == TOK_EOL) {
		lx->ahead = false;
		if (given_up(lx) || lx->fresh || !skip_line(lx))
			return false;
		lx->fresh = false;
	}
	return true;
}

struct body_line {
	size_t start, end, indent;
	bool blank;
};

/* The line at `at`, without moving. */
static struct body_line look_at_line(const struct lexer *lx, size_t at)
{
	const char *nl = memchr(lx->text + at, '\n', lx->len - at);
	struct body_line l = {.start = at, .end = nl ? (size_t)(nl - lx->text) : lx->len};
	size_t i = at;

	while (i < l.end && lx->text[i] == ' ')
		i++;
	l.indent = i - at;
	while (i < l.end && (lx->text[i] == ' ' || lx->text[i] == '\t' || lx->text[i] == '\r'))
		i++;
	l.blank = i == l.end;
	if (l.end > l.start && lx->text[l.end - 1] == '\r')
		l.end--;
	return l;
}

/* Measures a body: where it ends, and its common indentation. Blank lines at the end are not counted in. */
static size_t measure_body(struct lexer *lx, uint32_t parent, size_t *ret_indent, size_t *ret_size)
{
	size_t lines = 0, seen = 0, indent = SIZE_MAX, size = 0, blank = 0;

	for (size_t at = lx->at; at < lx->len;) {
		struct body_line l = look_at_line(lx, at);
		if (!l.blank && l.indent <= parent) {
			if (at_char(lx, at + l.indent) == '\t')
				diag_error(lx->f, "P004",
					   (struct dsl_pos){lx->line + (uint32_t)seen, (uint32_t)l.indent + 1},
					   "indent with spaces, two a level", "a tab in the indentation");
			else
				break;
		}
		seen++;
		if (l.blank) {
			blank++;
		} else {
			lines = seen;
			indent = MIN(indent, l.indent);
			size += blank + (l.end - l.start) + 1;
			blank = 0;
		}
		const char *nl = memchr(lx->text + l.end, '\n', lx->len - l.end);
		if (!nl)
			break;
		at = (size_t)(nl - lx->text) + 1;
	}
	*ret_indent = lines ? indent : 0;
	*ret_size = size;
	return lines;
}

bool lex_body(struct lexer *lx, uint32_t parent, struct dsl_str *ret)
{
	size_t indent, size;

	lx->ahead = lx->open = false;
	if (!lx->fresh && !skip_line(lx))
		return false;
	size_t lines = measure_body(lx, parent, &indent, &size);
	if (!lines)
		return false;
	char *to = arena_alloc(lx->f->state->arena, size + 1), *p = to;
	*ret = (struct dsl_str){.s = to, .indent = (uint32_t)indent};
	for (size_t i = 0; i < lines; i++) {
		struct body_line l = look_at_line(lx, lx->at);
		size_t from = MIN(l.start + indent, l.end);
		if (i)
			*p++ = '\n';
		if (i == 0)
			ret->pos = pos_at(lx, from);
		if (!l.blank) {
			memcpy(p, lx->text + from, l.end - from);
			p += l.end - from;
		}
		if (!skip_line(lx))
			break;
	}
	ret->len = (size_t)(p - to);
	return true;
}

/* Whether the line that starts at `at` cannot belong to brackets opened on a line with this indentation: it stands
 * at that column or before it and does not close them. */
static bool ends_brackets(const struct lexer *lx, size_t at)
{
	struct body_line l = look_at_line(lx, at);
	char c = at_char(lx, l.start + l.indent);

	return !l.blank && l.indent <= lx->indent && c != ']' && c != '}';
}

size_t lex_balanced(struct lexer *lx)
{
	const char *start = lex_peek(lx)->s;
	size_t i = (size_t)(start - lx->text), depth = 0, begin = i;
	char quote = '\0';

	for (; i < lx->len; i++) {
		char c = lx->text[i];
		if (c == '\n' && ends_brackets(lx, i + 1))
			return 0;
		if (quote) {
			if (c == '\\' && quote == '"')
				i++;
			else if (c == quote)
				quote = '\0';
		} else if (c == '"') {
			quote = c;
		} else if (c == '[' || c == '{') {
			depth++;
		} else if ((c == ']' || c == '}') && --depth == 0) {
			return i + 1 - begin;
		}
	}
	return 0;
}

void lex_jump(struct lexer *lx, size_t n)
{
	size_t end = (size_t)(lex_peek(lx)->s - lx->text) + n;

	lx->ahead = lx->open = false;
	while (lx->at < end) {
		const char *nl = memchr(lx->text + lx->at, '\n', end - lx->at);
		if (!nl) {
			lx->at = end;
			break;
		}
		lx->at = (size_t)(nl - lx->text) + 1;
		next_line(lx);
	}
	lx->fresh = false;
}

const char *token_name(const struct token *t, char *to, size_t size)
{
	if (t->type == TOK_EOL)
		return "the end of the line";
	if (t->type == TOK_STRING || t->type == TOK_RAW)
		return "a string";
	(void)snprintf(to, size, "\"%.*s\"", (int)MIN(t->len, (size_t)40), t->s);
	return to;
}
