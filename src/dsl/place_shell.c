/* Values in shell text. A value is put between single quotes, which is safe only as long as one knows what quotes
 * stand around it already: inside "…" those quotes would be text and a $(…) of the value would run. So the text of the
 * command is followed the way a shell reads it, and the value is written for the place where it stands:
 *
 *   a word                 'value'           a list of strings: one such word each
 *   inside "…"             "'value'"         that is, the double quotes are closed and opened again around it
 *   inside '…'             value             with each ' as '\''
 *   inside $((…))          a number, and nothing else
 *   in a comment           text without line ends
 *
 * Where the shell's reading depends on more than that (here-documents, `…`, ${…}, a case inside $(…)), a value is
 * refused when the file is checked; the author writes it into a variable first. What another program does with the
 * value (sh -c, eval, ssh) no quoting here can know. */
#include "place.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/json.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct shell_frame *top(struct shell_scan *s)
{
	return &s->frames[s->depth];
}

static void push(struct shell_scan *s, unsigned type)
{
	if (s->depth + 1 == SHELL_FRAMES_MAX) {
		s->lost = "the command nests too deep";
		return;
	}
	s->depth++;
	*top(s) = (struct shell_frame){.type = type};
}

static void pop(struct shell_scan *s)
{
	if (s->depth)
		s->depth--;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Whether a word begins behind this character. */
static bool ends_word(char c)
{
	return c == '\0' || is_blank(c) || (c && strchr(";&|()<>", c));
}

/* << or <<- with its word at text: remembers it; returns how much it took. */
static size_t read_heredoc(struct shell_scan *s, const char *t, size_t len)
{
	size_t i = 2, start;
	bool tabs = i < len && t[i] == '-';

	i += tabs;
	while (i < len && (t[i] == ' ' || t[i] == '\t'))
		i++;
	start = i;
	while (i < len && !is_blank(t[i]) && !strchr(";&|()<>", t[i]))
		i++;
	if (i == start || i == len || s->n_heredocs == SHELL_HEREDOCS_MAX) {
		s->lost = "a here-document that cannot be followed";
		return i;
	}
	s->heredocs[s->n_heredocs].word = t + start;
	s->heredocs[s->n_heredocs].len = i - start;
	s->heredocs[s->n_heredocs++].tabs = tabs;
	return i;
}

/* Whether a line is the end of a here-document: its word, without quotes and backslashes. */
static bool ends_heredoc(const struct shell_scan *s, const char *line, size_t len)
{
	const char *w = s->heredocs[0].word;
	size_t i = 0;

	while (s->heredocs[0].tabs && i < len && line[i] == '\t')
		i++;
	for (size_t k = 0; k < s->heredocs[0].len; k++) {
		if (w[k] == '\'' || w[k] == '"' || w[k] == '\\')
			continue;
		if (i >= len || line[i++] != w[k])
			return false;
	}
	return i == len;
}

/* Moves over the lines of here-documents; returns how much of the text they take. */
static size_t skip_heredoc(struct shell_scan *s, const char *t, size_t len)
{
	size_t i = 0;

	while (s->in_heredoc && i < len) {
		const char *nl = memchr(t + i, '\n', len - i);
		size_t n = nl ? (size_t)(nl - t) - i : len - i;
		if (ends_heredoc(s, t + i, n)) {
			memmove(s->heredocs, s->heredocs + 1, --s->n_heredocs * sizeof *s->heredocs);
			s->in_heredoc = s->n_heredocs > 0;
		}
		i += n + (nl != NULL);
	}
	return i;
}

/* $ and what it opens; returns how much it took. */
static size_t feed_dollar(struct shell_scan *s, const char *t, size_t len)
{
	bool quoted = top(s)->type == FRAME_DOUBLE;

	if (len >= 3 && t[1] == '(' && t[2] == '(') {
		push(s, FRAME_ARITH);
		return 3;
	}
	if (len >= 2 && t[1] == '(') {
		push(s, FRAME_COMMAND);
		s->last = '(';
		return 2;
	}
	if (len >= 2 && t[1] == '{') {
		push(s, FRAME_PARAM);
		return 2;
	}
	if (len >= 2 && t[1] == '[')
		s->lost = "a $[…]";
	if (len >= 2 && t[1] == '\'' && !quoted) {
		s->quote = QUOTE_ANSI;
		return 2;
	}
	return 1;
}

static size_t feed_close(struct shell_scan *s, const char *t, size_t len)
{
	struct shell_frame *f = top(s);

	if (f->parens) {
		f->parens--;
	} else if (f->type == FRAME_COMMAND) {
		pop(s);
	} else if (f->type == FRAME_ARITH && len >= 2 && t[1] == ')') {
		pop(s);
		return 2;
	} else if (f->type == FRAME_ARITH) {
		/* It was $( (…) …): a command that starts with a subshell. */
		f->type = FRAME_COMMAND;
	}
	return 1;
}

/* Characters that mean the same in code, in $(…) and in arithmetic. */
static size_t feed_code(struct shell_scan *s, const char *t, size_t len)
{
	struct shell_frame *f = top(s);
	bool word_starts = ends_word(s->last);

	switch (t[0]) {
	case '\'':
		s->quote = QUOTE_SINGLE;
		return 1;
	case '"':
		push(s, FRAME_DOUBLE);
		return 1;
	case '(':
		if (f->type != FRAME_ARITH && word_starts && len >= 2 && t[1] == '(') {
			push(s, FRAME_ARITH);
			return 2;
		}
		f->parens += f->type != FRAME_CODE;
		return 1;
	case ')':
		return feed_close(s, t, len);
	case '#':
		if (word_starts && f->type != FRAME_ARITH)
			s->quote = QUOTE_COMMENT;
		return 1;
	case '\n':
		s->in_heredoc = s->n_heredocs > 0;
		return 1;
	case '<':
		if (len >= 3 && t[1] == '<' && t[2] == '<')
			return 3;
		return len >= 2 && t[1] == '<' && f->type != FRAME_ARITH ? read_heredoc(s, t, len) : 1;
	case 'c':
		if (f->type == FRAME_COMMAND && word_starts && len > 4 && memcmp(t, "case", 4) == 0 && is_blank(t[4]))
			s->lost = "a case inside $(…)";
		return 1;
	default:
		return 1;
	}
}

/* Inside '…', $'…' and comments. */
static size_t feed_quote(struct shell_scan *s, const char *t, size_t len)
{
	if (s->quote == QUOTE_ANSI && t[0] == '\\' && len >= 2)
		return 2;
	if (s->quote == QUOTE_COMMENT ? t[0] == '\n' : t[0] == '\'') {
		/* The line end behind a comment counts as such. */
		bool comment = s->quote == QUOTE_COMMENT;
		s->quote = QUOTE_NONE;
		return comment ? 0 : 1;
	}
	return 1;
}

static size_t feed_param(struct shell_scan *s, const char *t)
{
	if (t[0] == '}')
		pop(s);
	else if (t[0] == '"')
		push(s, FRAME_DOUBLE);
	else if (t[0] == '\'' && s->depth && s->frames[s->depth - 1].type == FRAME_DOUBLE)
		s->lost = "a ' inside \"${…}\"";
	else if (t[0] == '\'')
		s->quote = QUOTE_SINGLE;
	return 1;
}

static size_t feed_one(struct shell_scan *s, const char *t, size_t len)
{
	struct shell_frame *f = top(s);

	if (s->quote != QUOTE_NONE)
		return feed_quote(s, t, len);
	if (t[0] == '\\') {
		if (len < 2)
			s->lost = "a backslash right before it";
		return 2;
	}
	if (f->type == FRAME_BACKTICK) {
		if (t[0] == '`')
			pop(s);
		return 1;
	}
	if (t[0] == '`') {
		push(s, FRAME_BACKTICK);
		return 1;
	}
	if (t[0] == '$')
		return feed_dollar(s, t, len);
	if (f->type == FRAME_DOUBLE) {
		if (t[0] == '"')
			pop(s);
		return 1;
	}
	if (f->type == FRAME_PARAM)
		return feed_param(s, t);
	return feed_code(s, t, len);
}

void shell_feed(struct shell_scan *s, const char *text, size_t len)
{
	for (size_t i = 0; i < len && !s->lost;) {
		if (s->in_heredoc) {
			i += skip_heredoc(s, text + i, len - i);
			s->last = '\n';
			continue;
		}
		size_t n = feed_one(s, text + i, len - i);
		if (n && i + n <= len)
			s->last = text[i + n - 1];
		i += n;
	}
}

/* Whether a frame of this type stands between here and the command that the text belongs to. */
static bool inside(const struct shell_scan *s, unsigned type)
{
	for (size_t i = s->depth; i > 0 && s->frames[i].type != FRAME_COMMAND; i--)
		if (s->frames[i].type == type)
			return true;
	return false;
}

/* Why no value can stand here, NULL when one can. */
static const char *refusal(const struct shell_scan *s)
{
	if (s->lost)
		return s->lost;
	if (s->in_heredoc)
		return "inside a here-document";
	if (s->last == '$' && s->quote == QUOTE_NONE)
		return "a $ right before it";
	if (s->quote == QUOTE_ANSI)
		return "inside $'…'";
	/* Shells differ in what quotes mean inside of "${…}". */
	if (inside(s, FRAME_PARAM))
		return "inside ${…}";
	return inside(s, FRAME_BACKTICK) ? "inside `…`" : NULL;
}

enum place shell_place(struct shell_scan *s, const char **ret_why)
{
	*ret_why = refusal(s);
	s->last = 'x';
	if (*ret_why)
		return PLACE_REFUSED;
	/* First of all: single quotes do not quote in arithmetic, a $(…) between them would run. */
	if (inside(s, FRAME_ARITH))
		return PLACE_NUMBER;
	if (s->quote != QUOTE_NONE)
		return s->quote == QUOTE_SINGLE ? PLACE_SINGLE : PLACE_COMMENT;
	return top(s)->type == FRAME_DOUBLE ? PLACE_DOUBLE : PLACE_CODE;
}

/* A value inside single quotes that are open already. */
static int put_inside_single(struct buf *to, const char *s, size_t len)
{
	int r = 0;

	while (r == 0 && len) {
		const char *q = memchr(s, '\'', len);
		size_t n = q ? (size_t)(q - s) : len;
		r = buf_add(to, s, n);
		if (r == 0 && q)
			r = buf_puts(to, "'\\''");
		s += n + (q != NULL);
		len -= n + (q != NULL);
	}
	return r;
}

static int put_word(struct buf *to, const char *s, size_t len)
{
	int r = buf_putc(to, '\'');

	if (r == 0)
		r = put_inside_single(to, s, len);
	return r < 0 ? r : buf_putc(to, '\'');
}

static int put_comment(struct buf *to, const char *s, size_t len)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < len; i++)
		r = buf_putc(to, s[i] == '\n' || s[i] == '\r' ? ' ' : s[i]);
	return r;
}

static bool is_strings(const json_t *v)
{
	const json_t *item;
	size_t i;

	json_array_foreach(v, i, item) if (!json_is_string(item)) return false;
	return json_is_array(v);
}

static int no_nul(const char *s, size_t len, struct err *e)
{
	if (!memchr(s, '\0', len))
		return 0;
	int r = err_set(e, ERR_INPUT, 0, "a value with a NUL byte cannot be part of a command");
	err_hint(e, "write it to a file, or take the NUL out of it");
	return r;
}

/* A list of strings: each a word of its own, or one text with spaces inside quotes. */
static int put_list(struct buf *to, enum place place, const json_t *list, struct err *e)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		int r = i ? buf_putc(to, ' ') : 0;
		if (r == 0)
			r = place == PLACE_CODE ? shell_put(to, place, item, e) : text_put(to, item);
		if (r < 0)
			return r;
	}
	return 0;
}

int shell_put(struct buf *to, enum place place, const json_t *v, struct err *e)
{
	auto_buf text = BUF_INIT(to->max);
	bool list = is_strings(v);
	int r;

	if (list && place == PLACE_CODE)
		return put_list(to, place, v, e);
	if (place == PLACE_NUMBER && !json_is_number(v))
		return err_set(e, ERR_INPUT, 0, "only a number can stand inside $((…))");
	r = list ? put_list(&text, place, v, e) : text_put(&text, v);
	if (r == 0)
		r = no_nul(buf_str(&text), text.len, e);
	if (r < 0)
		return r;
	switch (place) {
	case PLACE_DOUBLE:
		r = buf_putc(to, '"');
		if (r == 0)
			r = put_word(to, buf_str(&text), text.len);
		return r < 0 ? r : buf_putc(to, '"');
	case PLACE_SINGLE:
		return put_inside_single(to, buf_str(&text), text.len);
	case PLACE_COMMENT:
		return put_comment(to, buf_str(&text), text.len);
	case PLACE_NUMBER:
		return buf_add(to, text.data, text.len);
	case PLACE_CODE:
	case PLACE_STRING:
	case PLACE_REFUSED:
		break;
	}
	return put_word(to, buf_str(&text), text.len);
}
