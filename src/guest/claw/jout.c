/* Writing JSON into a buffer.
 *
 * Whether a comma is needed is seen from the last byte written: no complete value ends in an opening bracket or a
 * colon. The buffer's limit is the limit of a line; the first write that does not fit makes the whole worthless, so it
 * is noted once and asked for at the end. */
#include "jout.h"

#include <base/str.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void add(struct jout *o, const char *s, size_t len)
{
	if (!o->full && buf_add(o->b, s, len) < 0)
		o->full = true;
}

static char last(const struct jout *o)
{
	return o->b->len ? o->b->data[o->b->len - 1] : '[';
}

static void before_value(struct jout *o)
{
	if (!strchr("[{:", last(o)))
		add(o, ",", 1);
}

void jout_open(struct jout *o, char bracket)
{
	before_value(o);
	add(o, &bracket, 1);
}

void jout_close(struct jout *o, char bracket)
{
	add(o, &bracket, 1);
}

void jout_key(struct jout *o, const char *key)
{
	jout_str(o, key);
	add(o, ":", 1);
}

static void add_escaped(struct jout *o, const char *s, size_t len)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	size_t done = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
			continue;
		char esc[8];
		const char *at = c ? strchr(from, c) : NULL;
		int n = at ? snprintf(esc, sizeof esc, "\\%c", to[at - from])
			   : snprintf(esc, sizeof esc, "\\u%04x", (unsigned)c);
		add(o, s + done, i - done);
		add(o, esc, (size_t)n);
		done = i + 1;
	}
	add(o, s + done, len - done);
}

void jout_text(struct jout *o, const char *s, size_t len)
{
	before_value(o);
	add(o, "\"", 1);
	if (utf8_valid(s, len)) {
		add_escaped(o, s, len);
	} else {
		auto_buf clean = BUF_INIT(o->b->max);
		if (utf8_sanitize(&clean, s, len) < 0)
			o->full = true;
		add_escaped(o, buf_str(&clean), clean.len);
	}
	add(o, "\"", 1);
}

void jout_str(struct jout *o, const char *s)
{
	jout_text(o, s, strlen(s));
}

void jout_int(struct jout *o, long long v)
{
	char text[24];
	int n = snprintf(text, sizeof text, "%lld", v);

	before_value(o);
	add(o, text, (size_t)n);
}

void jout_bool(struct jout *o, bool v)
{
	const char *word = v ? "true" : "false";

	jout_raw(o, word, strlen(word));
}

void jout_raw(struct jout *o, const char *json, size_t len)
{
	before_value(o);
	add(o, json, len);
}

void jout_value(struct jout *o, struct jv v)
{
	size_t len;
	const char *raw = jv_raw(v, &len);

	jout_raw(o, raw, len);
}

void jout_put_str(struct jout *o, const char *key, const char *value)
{
	if (!value)
		return;
	jout_key(o, key);
	jout_str(o, value);
}

void jout_put_int(struct jout *o, const char *key, long long value)
{
	jout_key(o, key);
	jout_int(o, value);
}

void jout_put_bool(struct jout *o, const char *key, bool value)
{
	jout_key(o, key);
	jout_bool(o, value);
}

void jout_put_value(struct jout *o, const char *key, struct jv v)
{
	if (!v.doc)
		return;
	jout_key(o, key);
	jout_value(o, v);
}

int jout_end(const struct jout *o)
{
	return o->full ? -ENOBUFS : 0;
}
