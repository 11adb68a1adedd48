/* Values in JavaScript and Python. A value becomes a literal of the language; inside a string of the script it becomes
 * escaped text. Either way every character but letters, digits, _ and space is written as an escape (\u0027, \x27), so
 * that even where this reading of the script were wrong (a regular expression taken for a division) what comes out
 * could not be read as code: outside of a string an escape is a syntax error. */
#include "place.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Inside a string; returns how much it took. */
static size_t feed_string(struct script_scan *s, const char *t, size_t len)
{
	if (t[0] == '\\') {
		if (len < 2)
			s->lost = "a backslash right before it";
		return 2;
	}
	if (s->quote == '`' && t[0] == '$' && len >= 2 && t[1] == '{') {
		if (s->depth == SCRIPT_FRAMES_MAX) {
			s->lost = "the script nests too deep";
			return 2;
		}
		s->braces[s->depth++] = 0;
		s->quote = '\0';
		s->last = '{';
		return 2;
	}
	if (t[0] != s->quote) {
		/* A string on one line ends with it, if only by an error. */
		if (t[0] == '\n' && !s->triple && s->quote != '`')
			s->quote = '\0';
		return 1;
	}
	if (s->triple && (len < 3 || t[1] != s->quote || t[2] != s->quote))
		return 1;
	s->quote = '\0';
	s->last = '"';
	return s->triple ? 3 : 1;
}

static size_t open_string(struct script_scan *s, const char *t, size_t len)
{
	s->quote = t[0];
	s->triple = s->python && len >= 3 && t[1] == t[0] && t[2] == t[0];
	s->raw = s->bytes = false;
	for (size_t i = 0; s->python && i < sizeof s->word && s->word[i]; i++) {
		s->raw |= (s->word[i] | 0x20) == 'r';
		s->bytes |= (s->word[i] | 0x20) == 'b';
	}
	memset(s->word, 0, sizeof s->word);
	return s->triple ? 3 : 1;
}

/* The letters before a quote; more than two are no prefix. */
static void note_word(struct script_scan *s, char c)
{
	if (!is_word(c))
		memset(s->word, 0, sizeof s->word);
	else if (!s->word[0])
		s->word[0] = c;
	else if (!s->word[1])
		s->word[1] = c;
	else
		memset(s->word, '-', sizeof s->word);
}

static size_t feed_regex(struct script_scan *s, const char *t)
{
	if (t[0] == '\\')
		return 2;
	if (t[0] == '[')
		s->regex_class = true;
	else if (t[0] == ']')
		s->regex_class = false;
	else if ((t[0] == '/' && !s->regex_class) || t[0] == '\n')
		s->regex = s->regex_class = false;
	return 1;
}

static size_t feed_slash(struct script_scan *s, const char *t, size_t len)
{
	if (len >= 2 && t[1] == '/')
		s->line_comment = true;
	else if (len >= 2 && t[1] == '*')
		s->block_comment = true;
	else if (!is_word(s->last) && s->last != ')' && s->last != ']' && s->last != '"' && s->last != '}')
		s->regex = true;
	return s->line_comment || s->block_comment ? 2 : 1;
}

static size_t feed_code(struct script_scan *s, const char *t, size_t len)
{
	char c = t[0];

	if (c == '"' || c == '\'' || (c == '`' && !s->python))
		return open_string(s, t, len);
	note_word(s, c);
	if (s->python && c == '#')
		s->line_comment = true;
	if (!s->python && c == '/')
		return feed_slash(s, t, len);
	if (!s->python && s->depth && c == '{')
		s->braces[s->depth - 1]++;
	if (!s->python && s->depth && c == '}' && s->braces[s->depth - 1]-- == 0) {
		s->depth--;
		s->quote = '`';
		s->triple = false;
	}
	if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
		s->last = c;
	return 1;
}

void script_feed(struct script_scan *s, const char *text, size_t len)
{
	for (size_t i = 0; i < len && !s->lost;) {
		const char *t = text + i;
		size_t left = len - i;
		if (s->line_comment) {
			s->line_comment = t[0] != '\n';
			i++;
		} else if (s->block_comment) {
			s->block_comment = !(t[0] == '*' && left >= 2 && t[1] == '/');
			i += s->block_comment ? 1 : 2;
		} else if (s->regex) {
			i += feed_regex(s, t);
		} else {
			i += s->quote ? feed_string(s, t, left) : feed_code(s, t, left);
		}
	}
}

enum place script_place(struct script_scan *s, const char **ret_why)
{
	*ret_why = s->lost     ? s->lost
		   : s->regex  ? "inside a regular expression"
		   : !s->quote ? NULL
		   : s->raw    ? "inside a raw string"
		   : s->bytes  ? "inside a bytes string"
			       : NULL;
	if (*ret_why)
		return PLACE_REFUSED;
	if (s->line_comment || s->block_comment)
		return PLACE_COMMENT;
	if (s->quote)
		return PLACE_STRING;
	s->last = 'x';
	memset(s->word, '-', sizeof s->word);
	return PLACE_CODE;
}

/* The code point at s (valid UTF-8, as JSON strings are) and its length. */
static size_t decode_utf8(const char *s, uint32_t *ret)
{
	const unsigned char *p = (const unsigned char *)s;

	if (p[0] < 0x80) {
		*ret = p[0];
		return 1;
	}
	size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	uint32_t c = p[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3f);
	*ret = c;
	return n;
}

static int put_escape(struct buf *to, bool python, uint32_t c)
{
	if (python && c < 0x100)
		return buf_printf(to, "\\x%02x", c);
	if (c < 0x10000)
		return buf_printf(to, "\\u%04x", c);
	if (python)
		return buf_printf(to, "\\U%08x", c);
	c -= 0x10000;
	return buf_printf(to, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

static int put_escaped(struct buf *to, bool python, const char *s, size_t len)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < len;) {
		uint32_t c;
		if (is_word(s[i]) || s[i] == ' ') {
			r = buf_putc(to, s[i++]);
			continue;
		}
		i += decode_utf8(s + i, &c);
		r = put_escape(to, python, c);
	}
	return r;
}

static int put_string(struct buf *to, bool python, const char *s, size_t len)
{
	int r = buf_putc(to, '"');

	if (r == 0)
		r = put_escaped(to, python, s, len);
	return r < 0 ? r : buf_putc(to, '"');
}

enum { LITERAL_DEPTH_MAX = 200 };

static int put_literal(struct buf *to, bool python, const json_t *v, unsigned depth, struct err *e);

static int put_items(struct buf *to, bool python, const json_t *list, unsigned depth, struct err *e)
{
	const json_t *item;
	size_t i;
	int r = buf_putc(to, '[');

	json_array_foreach(list, i, item)
	{
		if (r == 0 && i)
			r = buf_putc(to, ',');
		if (r == 0)
			r = put_literal(to, python, item, depth + 1, e);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : buf_putc(to, ']');
}

static int put_members(struct buf *to, bool python, const json_t *object, unsigned depth, struct err *e)
{
	/* jansson's iterators take the object as not const, though they only read it. */
	json_t *o = (json_t *)(uintptr_t)object, *value;
	const char *key;
	bool first = true;
	int r = buf_putc(to, '{');

	json_object_foreach(o, key, value)
	{
		if (r == 0 && !first)
			r = buf_putc(to, ',');
		/* In JavaScript {["__proto__"]: …} is a plain member, {"__proto__": …} sets the prototype. */
		if (r == 0 && !python)
			r = buf_putc(to, '[');
		if (r == 0)
			r = put_string(to, python, key, strlen(key));
		if (r == 0)
			r = buf_puts(to, python ? ":" : "]:");
		if (r == 0)
			r = put_literal(to, python, value, depth + 1, e);
		if (r < 0)
			return r;
		first = false;
	}
	return r < 0 ? r : buf_putc(to, '}');
}

static int put_literal(struct buf *to, bool python, const json_t *v, unsigned depth, struct err *e)
{
	if (depth > LITERAL_DEPTH_MAX)
		return err_set(e, ERR_INPUT, 0, "a value nests deeper than %d", LITERAL_DEPTH_MAX);
	if (json_is_string(v))
		return put_string(to, python, json_string_value(v), json_string_length(v));
	if (json_is_array(v))
		return put_items(to, python, v, depth, e);
	if (json_is_object(v))
		return put_members(to, python, v, depth, e);
	if (!v || json_is_null(v))
		return buf_puts(to, python ? "None" : "null");
	if (python && json_is_boolean(v))
		return buf_puts(to, json_is_true(v) ? "True" : "False");
	/* In parentheses, so that a minus stays with its number: a {{vars.n}} with -1 behind a minus is no "--". */
	return json_number_value(v) < 0 ? buf_puts(to, "(") < 0 || text_put(to, v) < 0 ? -ENOBUFS : buf_puts(to, ")")
					: text_put(to, v);
}

/* In Python quotes that touch are another thing than quotes alone: """ opens a long string. So a literal keeps away
 * from what stands around it, and a text that is empty still parts the quotes it stands in, by a continued line. */
static int put_python_string(struct buf *to, enum place place, const json_t *v)
{
	const char *s = json_string_value(v);
	size_t len = json_string_length(v);

	if (place == PLACE_STRING)
		return len ? put_escaped(to, true, s, len) : buf_puts(to, "\\\n");
	int r = buf_putc(to, ' ');
	if (r == 0)
		r = put_string(to, true, s, len);
	return r < 0 ? r : buf_putc(to, ' ');
}

int script_put(struct buf *to, bool python, enum place place, const json_t *v, struct err *e)
{
	auto_buf text = BUF_INIT(to->max);
	auto_json as_text = NULL;

	if (place == PLACE_CODE)
		return python && json_is_string(v) ? put_python_string(to, place, v) : put_literal(to, python, v, 0, e);
	int r = text_put(&text, v);
	if (r < 0)
		return r;
	if (place == PLACE_STRING) {
		as_text = json_text(buf_str(&text), text.len);
		return python ? put_python_string(to, place, as_text)
			      : put_escaped(to, python, buf_str(&text), text.len);
	}
	/* A comment: nothing that could end it. */
	for (size_t i = 0; r == 0 && i < text.len; i++)
		r = buf_putc(to, is_word(text.data[i]) ? text.data[i] : ' ');
	return r;
}
