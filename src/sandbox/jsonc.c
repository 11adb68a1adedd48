/* JSON with comments and trailing commas.
 *
 * One pass from left to right over text of known length; nothing relies on a NUL behind it. Values are jansson's, and
 * of each the offset is kept, so that a check that comes much later can still say line and column. Those are counted
 * only when a message needs them.
 *
 * The readers of the reference (the dev containers' own tool) go on after an error and guess. A sandbox is not made
 * from a guess: the first error ends the reading. Recursion is bounded by JSONC_MAX_DEPTH, memory by the size of the
 * text. */
#include "jsonc.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct parser {
	struct jsonc *doc;
	size_t at;
	unsigned depth;
	struct err *e;
};

static json_t *parse_value(struct parser *p);

/* Counted in characters, from 1; "\r\n", "\n" and "\r" each end a line. */
static void position(const struct jsonc *j, size_t offset, unsigned long *ret_line, unsigned long *ret_column)
{
	unsigned long line = 1, column = 1;

	for (size_t i = 0; i < offset && i < j->len; i++) {
		char c = j->text[i];
		if (c == '\n' || (c == '\r' && !(i + 1 < j->len && j->text[i + 1] == '\n'))) {
			line++;
			column = 1;
		} else if (((unsigned char)c & 0xc0) != 0x80) {
			column++;
		}
	}
	*ret_line = line;
	*ret_column = column;
}

static int fail(const struct parser *p, size_t offset, const char *hint, const char *why)
{
	unsigned long line, column;

	position(p->doc, offset, &line, &column);
	int r = err_set(p->e, ERR_INPUT, EINVAL, "%s:%lu:%lu: %s", p->doc->name, line, column, why);
	err_hint(p->e, "%s", hint);
	return r;
}

static json_t *fail_value(const struct parser *p, size_t offset, const char *hint, const char *why)
{
	(void)fail(p, offset, hint, why);
	return NULL;
}

static bool at_text(const struct parser *p, const char *word)
{
	size_t len = strlen(word);

	return p->doc->len - p->at >= len && memcmp(p->doc->text + p->at, word, len) == 0;
}

static int peek(const struct parser *p)
{
	return p->at < p->doc->len ? (unsigned char)p->doc->text[p->at] : -1;
}

static int skip_block_comment(struct parser *p)
{
	const char *begin = p->doc->text + p->at + 2;
	const char *end = memmem(begin, p->doc->len - p->at - 2, "*/", 2);

	if (!end)
		return fail(p, p->at, "close it with */", "a comment has no end");
	p->at = (size_t)(end + 2 - p->doc->text);
	return 0;
}

/* White space and comments. */
static int skip(struct parser *p)
{
	for (;;) {
		int c = peek(p);
		if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
			p->at++;
		} else if (at_text(p, "//")) {
			while (peek(p) != '\n' && peek(p) != '\r' && peek(p) != -1)
				p->at++;
		} else if (at_text(p, "/*")) {
			int r = skip_block_comment(p);
			if (r < 0)
				return r;
		} else {
			return 0;
		}
	}
}

static json_t *keep(struct parser *p, size_t offset, json_t *value)
{
	struct jsonc *d = p->doc;

	if (!value)
		abort();
	d->places = grow_array(d->places, d->n_places, &d->cap_places, sizeof *d->places);
	d->places[d->n_places++] = (struct jsonc_place){value, offset};
	return value;
}

/* Four hex digits; -1 when they are not there. */
static long hex4(const struct parser *p, size_t at)
{
	long v = 0;

	if (p->doc->len - at < 4)
		return -1;
	for (size_t i = at; i < at + 4; i++) {
		char c = p->doc->text[i];
		int lower = c | 0x20;
		if (c >= '0' && c <= '9')
			v = v * 16 + (c - '0');
		else if (lower >= 'a' && lower <= 'f')
			v = v * 16 + (lower - 'a' + 10);
		else
			return -1;
	}
	return v;
}

static void add_utf8(struct buf *to, unsigned long c)
{
	if (c < 0x80) {
		(void)buf_putc(to, (char)c);
		return;
	}
	if (c < 0x800) {
		(void)buf_putc(to, (char)(0xc0 | (c >> 6)));
	} else {
		if (c < 0x10000) {
			(void)buf_putc(to, (char)(0xe0 | (c >> 12)));
		} else {
			(void)buf_putc(to, (char)(0xf0 | (c >> 18)));
			(void)buf_putc(to, (char)(0x80 | ((c >> 12) & 0x3f)));
		}
		(void)buf_putc(to, (char)(0x80 | ((c >> 6) & 0x3f)));
	}
	(void)buf_putc(to, (char)(0x80 | (c & 0x3f)));
}

/* Behind "\u": one escape, or a pair for a character outside the first plane. */
static int parse_unicode(struct parser *p, struct buf *to)
{
	size_t begin = p->at - 2;
	long c = hex4(p, p->at);

	if (c < 0)
		return fail(p, begin, "write four hexadecimal digits behind \\u", "an escape is not complete");
	if (c == 0)
		return fail(p, begin, "take it out", "a NUL character can stand in nothing that a sandbox is told");
	p->at += 4;
	if (c >= 0xd800 && c <= 0xdbff && at_text(p, "\\u")) {
		long low = hex4(p, p->at + 2);
		if (low >= 0xdc00 && low <= 0xdfff) {
			p->at += 6;
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		}
	}
	if (c >= 0xd800 && c <= 0xdfff)
		return fail(p, begin, "write the character itself, or both halves of its pair",
			    "half of a surrogate pair stands alone");
	add_utf8(to, (unsigned long)c);
	return 0;
}

static int parse_escape(struct parser *p, struct buf *to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	int c = (p->at++, peek(p));
	const char *known = c > 0 ? strchr(from, c) : NULL;

	if (c == 'u') {
		p->at++;
		return parse_unicode(p, to);
	}
	if (!known)
		return fail(p, p->at - 1,
			    "the escapes are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX; a backslash "
			    "itself is written twice",
			    "an unknown escape in a string");
	p->at++;
	(void)buf_putc(to, into[known - from]);
	return 0;
}

/* At the opening quote; the decoded bytes go to `to`. */
static int parse_string(struct parser *p, struct buf *to)
{
	size_t begin = p->at++;

	for (;;) {
		size_t from = p->at;
		while (peek(p) >= 0x20 && peek(p) != '"' && peek(p) != '\\')
			p->at++;
		(void)buf_add(to, p->doc->text + from, p->at - from);
		int c = peek(p);
		if (c == '"') {
			p->at++;
			return 0;
		}
		if (c == -1 || c == '\n' || c == '\r')
			return fail(p, begin, "close it with \" on the same line; a line break inside is \\n",
				    "a string has no end");
		if (c != '\\')
			return fail(p, p->at, "write it as an escape: \\t is a tab", "a control character in a string");
		int r = parse_escape(p, to);
		if (r < 0)
			return r;
	}
}

static json_t *parse_string_value(struct parser *p)
{
	size_t begin = p->at;
	auto_buf s = BUF_INIT(SIZE_MAX);

	if (parse_string(p, &s) < 0)
		return NULL;
	return keep(p, begin, json_stringn_nocheck(buf_str(&s), s.len));
}

static size_t digits(struct parser *p)
{
	size_t begin = p->at;

	while (peek(p) >= '0' && peek(p) <= '9')
		p->at++;
	return p->at - begin;
}

/* The grammar of RFC 8259, section 6; false when it does not fit. */
static bool scan_number(struct parser *p, bool *ret_whole)
{
	p->at += peek(p) == '-';
	bool zero = peek(p) == '0';
	size_t n = digits(p);

	if (n == 0 || (zero && n > 1))
		return false;
	*ret_whole = true;
	if (peek(p) == '.') {
		p->at++;
		*ret_whole = false;
		if (digits(p) == 0)
			return false;
	}
	if (peek(p) == 'e' || peek(p) == 'E') {
		p->at++;
		*ret_whole = false;
		p->at += peek(p) == '+' || peek(p) == '-';
		if (digits(p) == 0)
			return false;
	}
	return true;
}

static json_t *parse_number(struct parser *p)
{
	size_t begin = p->at;
	bool whole;

	if (!scan_number(p, &whole))
		return fail_value(p, begin, "numbers are decimal, such as 4, 0.5 or 1e3", "it is no number");
	auto_free char *text = xstrndup(p->doc->text + begin, p->at - begin);
	errno = 0;
	long long v = whole ? strtoll(text, NULL, 10) : 0;
	if (whole && errno == 0)
		return keep(p, begin, json_integer(v));
	double d = strtod(text, NULL);
	if (!isfinite(d))
		return fail_value(p, begin, "write a smaller number", "a number is out of range");
	return keep(p, begin, json_real(d));
}

/* Behind an element: 1 when another may follow, 0 at the closing bracket (taken), -EINVAL. */
static int parse_comma(struct parser *p, char close)
{
	int r = skip(p);

	if (r < 0)
		return r;
	bool comma = peek(p) == ',';
	p->at += comma;
	r = comma ? skip(p) : 0;
	if (r < 0)
		return r;
	if (peek(p) == close) {
		p->at++;
		return 0;
	}
	if (comma)
		return 1;
	return fail(p, p->at,
		    close == '}' ? "separate members with commas, and close the object with }"
				 : "separate elements with commas, and close the list with ]",
		    peek(p) == -1  ? "the text ends too early"
		    : close == '}' ? "a comma or } is missing"
				   : "a comma or ] is missing");
}

/* One element of a list (object NULL) or one member. */
static int parse_element(struct parser *p, json_t *into, bool object)
{
	auto_buf key = BUF_INIT(SIZE_MAX);

	if (object) {
		if (peek(p) != '"')
			return fail(p, p->at, "names stand in double quotes", "the name of a member is missing");
		int r = parse_string(p, &key);
		if (r == 0)
			r = skip(p);
		if (r < 0)
			return r;
		if (peek(p) != ':')
			return fail(p, p->at, "between name and value stands a colon", "a colon is missing");
		p->at++;
	}
	json_t *v = parse_value(p);
	if (!v)
		return -EINVAL;
	int r = object ? json_object_setn_new_nocheck(into, buf_str(&key), key.len, v) : json_array_append_new(into, v);
	if (r < 0)
		abort();
	return 0;
}

static json_t *parse_container(struct parser *p)
{
	size_t begin = p->at;
	bool object = peek(p) == '{';
	char close = object ? '}' : ']';

	if (++p->depth > JSONC_MAX_DEPTH)
		return fail_value(p, begin, "no configuration needs that: is it the right file?",
				  "lists and objects are nested too deeply");
	auto_json v = keep(p, begin, object ? json_object() : json_array());
	p->at++;
	int more = skip(p);
	if (more == 0 && peek(p) == close)
		p->at++;
	else if (more == 0)
		more = 1;
	while (more > 0) {
		more = parse_element(p, v, object);
		if (more == 0)
			more = parse_comma(p, close);
	}
	p->depth--;
	return more < 0 ? NULL : TAKE_PTR(v);
}

static json_t *parse_word(struct parser *p)
{
	static const char *const words[] = {"true", "false", "null"};
	size_t begin = p->at;

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (!at_text(p, words[i]))
			continue;
		p->at += strlen(words[i]);
		return i == 2 ? json_null() : json_boolean(i == 0);
	}
	return fail_value(p, begin,
			  "a value is a string in double quotes, a number, true, false, null, a list or an "
			  "object",
			  begin == p->doc->len ? "the text ends too early" : "a value is missing");
}

static json_t *parse_value(struct parser *p)
{
	if (skip(p) < 0)
		return NULL;
	int c = peek(p);
	if (c == '{' || c == '[')
		return parse_container(p);
	if (c == '"')
		return parse_string_value(p);
	if (c == '-' || (c >= '0' && c <= '9'))
		return parse_number(p);
	return parse_word(p);
}

static int check_utf8(const struct parser *p)
{
	const char *s = p->doc->text;
	size_t len = p->doc->len, at = 0;

	if (utf8_valid(s, len))
		return 0;
	while (at < len) {
		size_t n = 1;
		while (n <= 4 && n <= len - at && !utf8_valid(s + at, n))
			n++;
		if (n > 4 || n > len - at)
			break;
		at += n;
	}
	return fail(p, at, "save the file as UTF-8", "bytes that are not UTF-8");
}

static int parse_document(struct parser *p)
{
	int r = check_utf8(p);

	if (r < 0)
		return r;
	if (at_text(p, "\xef\xbb\xbf"))
		p->at = 3;
	p->doc->root = parse_value(p);
	if (!p->doc->root)
		return -EINVAL;
	r = skip(p);
	if (r == 0 && p->at < p->doc->len)
		r = fail(p, p->at, "one value is the whole file", "something stands behind the end");
	return r;
}

int jsonc_parse(const char *name, const char *text, size_t len, struct jsonc *ret, struct err *e)
{
	struct jsonc doc = {.name = name, .text = text, .len = len};
	struct parser p = {.doc = &doc, .e = e};

	if (len > JSONC_MAX_BYTES) {
		int r = err_set(e, ERR_INPUT, EINVAL, "%s: the file is larger than %d MiB", name,
				JSONC_MAX_BYTES / 1024 / 1024);
		err_hint(e, "no configuration needs that: is it the right file?");
		return r;
	}
	int r = parse_document(&p);
	if (r < 0) {
		jsonc_done(&doc);
		return r;
	}
	*ret = doc;
	return 0;
}

void jsonc_done(struct jsonc *j)
{
	json_decref(j->root);
	free(j->places);
	*j = (struct jsonc){0};
}

int jsonc_at(const struct jsonc *j, const json_t *value, int r, struct err *e)
{
	unsigned long line, column;

	/* From the end: a member that a later one of its name replaced has left its address to others. */
	for (size_t i = j->n_places; i > 0; i--) {
		if (j->places[i - 1].value != value)
			continue;
		position(j, j->places[i - 1].offset, &line, &column);
		return err_wrap(e, r, "%s:%lu:%lu", j->name, line, column);
	}
	return err_wrap(e, r, "%s", j->name);
}
