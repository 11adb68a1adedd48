/* A strict, bounded JSON reader.
 *
 * The guest links no library, so that it stays one small static program; and what the runner does with JSON is little:
 * look up some fields, and pass messages and tool inputs on as they are. So a document is its text and a flat list of
 * values, each a slice of that text. Whatever is passed on is copied as text: numbers keep their digits, and nothing is
 * re-encoded.
 *
 * Everything is checked while it is read (syntax, UTF-8, surrogates, depth, count); later functions rely on it. The
 * recursion over nested values is bounded by JDOC_DEPTH. */
#include "jdoc.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct node {
	uint32_t start;
	uint32_t end;
	uint32_t next; /* where the following sibling stands in the list, 0 for none */
	uint8_t type;
	bool parent; /* has children: the first stands right behind it */
};

struct jdoc {
	char *text;
	struct node *v;
	size_t n;
	size_t cap;
};

struct parser {
	struct jdoc *d;
	const char *p;
	const char *end;
	const char *why;
};

static bool fail(struct parser *p, const char *why)
{
	if (!p->why)
		p->why = why;
	return false;
}

static void skip_space(struct parser *p)
{
	while (p->p < p->end && (*p->p == ' ' || *p->p == '\t' || *p->p == '\n' || *p->p == '\r'))
		p->p++;
}

static bool read_value(struct parser *p, int depth, uint32_t *ret);

static bool add_node(struct parser *p, enum jtype type, uint32_t *ret)
{
	struct jdoc *d = p->d;

	if (d->n >= JDOC_VALUES)
		return fail(p, "more values than are accepted");
	d->v = grow_array(d->v, d->n, &d->cap, sizeof *d->v);
	*ret = (uint32_t)d->n;
	d->v[d->n++] = (struct node){.start = (uint32_t)(p->p - d->text), .type = (uint8_t)type};
	return true;
}

static void end_node(struct parser *p, uint32_t at)
{
	p->d->v[at].end = (uint32_t)(p->p - p->d->text);
}

static int hex4(const char *s, const char *end)
{
	int v = 0;

	if (end - s < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = s[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;
		if (digit < 0)
			return -1;
		v = v * 16 + digit;
	}
	return v;
}

/* p stands on the backslash. */
static bool read_escape(struct parser *p)
{
	if (p->end - p->p < 2)
		return fail(p, "a string does not end");
	if (p->p[1] != 'u') {
		if (!p->p[1] || !strchr("\"\\/bfnrt", p->p[1]))
			return fail(p, "an unknown escape in a string");
		p->p += 2;
		return true;
	}
	int c = hex4(p->p + 2, p->end);
	if (c < 0)
		return fail(p, "\\u without four hex digits");
	p->p += 6;
	if (c < 0xd800 || c > 0xdfff)
		return true;
	int low = p->end - p->p >= 6 && p->p[0] == '\\' && p->p[1] == 'u' ? hex4(p->p + 2, p->end) : -1;
	if (c > 0xdbff || low < 0xdc00 || low > 0xdfff)
		return fail(p, "half of a surrogate pair");
	p->p += 6;
	return true;
}

static bool read_string(struct parser *p, uint32_t *ret)
{
	if (!add_node(p, J_STRING, ret))
		return false;
	for (p->p++; p->p < p->end && *p->p != '"';) {
		if ((unsigned char)*p->p < 0x20)
			return fail(p, "a control character in a string");
		if (*p->p == '\\') {
			if (!read_escape(p))
				return false;
		} else {
			p->p++;
		}
	}
	if (p->p >= p->end)
		return fail(p, "a string does not end");
	p->p++;
	end_node(p, *ret);
	return true;
}

static bool digits(struct parser *p)
{
	const char *from = p->p;

	while (p->p < p->end && *p->p >= '0' && *p->p <= '9')
		p->p++;
	return p->p > from || fail(p, "a malformed number");
}

static bool read_number(struct parser *p, uint32_t *ret)
{
	if (!add_node(p, J_NUMBER, ret))
		return false;
	if (*p->p == '-')
		p->p++;
	if (p->p < p->end && *p->p == '0')
		p->p++;
	else if (!digits(p))
		return false;
	if (p->p < p->end && *p->p == '.') {
		p->p++;
		if (!digits(p))
			return false;
	}
	if (p->p < p->end && (*p->p == 'e' || *p->p == 'E')) {
		p->p++;
		if (p->p < p->end && (*p->p == '+' || *p->p == '-'))
			p->p++;
		if (!digits(p))
			return false;
	}
	end_node(p, *ret);
	return true;
}

static bool read_word(struct parser *p, uint32_t *ret)
{
	static const struct {
		const char *word;
		enum jtype type;
	} words[] = {{"true", J_BOOL}, {"false", J_BOOL}, {"null", J_NULL}};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		size_t len = strlen(words[i].word);
		if ((size_t)(p->end - p->p) < len || memcmp(p->p, words[i].word, len) != 0)
			continue;
		if (!add_node(p, words[i].type, ret))
			return false;
		p->p += len;
		end_node(p, *ret);
		return true;
	}
	return fail(p, "a value is expected");
}

static bool read_key(struct parser *p, uint32_t *ret)
{
	if (p->p >= p->end || *p->p != '"')
		return fail(p, "a key in quotes is expected");
	if (!read_string(p, ret))
		return false;
	skip_space(p);
	if (p->p >= p->end || *p->p != ':')
		return fail(p, "a colon is expected");
	p->p++;
	return true;
}

static void link_after(struct parser *p, uint32_t *last, uint32_t parent, uint32_t at)
{
	if (*last)
		p->d->v[*last].next = at;
	else
		p->d->v[parent].parent = true;
	*last = at;
}

static bool read_container(struct parser *p, int depth, uint32_t *ret)
{
	bool object = *p->p == '{';
	char close = object ? '}' : ']';
	uint32_t last = 0, at;

	if (depth >= JDOC_DEPTH)
		return fail(p, "nested too deep");
	if (!add_node(p, object ? J_OBJECT : J_ARRAY, ret))
		return false;
	p->p++;
	skip_space(p);
	while (p->p < p->end && (*p->p != close || last)) {
		if (object) {
			if (!read_key(p, &at))
				return false;
			link_after(p, &last, *ret, at);
		}
		if (!read_value(p, depth + 1, &at))
			return false;
		link_after(p, &last, *ret, at);
		skip_space(p);
		if (p->p >= p->end || *p->p != ',')
			break;
		p->p++;
		skip_space(p);
	}
	if (p->p >= p->end || *p->p != close)
		return fail(p, object ? "a comma or } is expected" : "a comma or ] is expected");
	p->p++;
	end_node(p, *ret);
	return true;
}

static bool read_value(struct parser *p, int depth, uint32_t *ret)
{
	skip_space(p);
	if (p->p >= p->end)
		return fail(p, "it ends where a value is expected");
	switch (*p->p) {
	case '{':
	case '[':
		return read_container(p, depth, ret);
	case '"':
		return read_string(p, ret);
	default:
		return *p->p == '-' || (*p->p >= '0' && *p->p <= '9') ? read_number(p, ret) : read_word(p, ret);
	}
}

struct jdoc *jdoc_parse(const char *text, size_t len, struct err *e)
{
	struct jdoc *d = xcalloc(1, sizeof *d);
	struct parser p = {.d = d};
	uint32_t root;

	if (len >= UINT32_MAX || !utf8_valid(text, len)) {
		free(d);
		(void)err_set(e, ERR_PROTOCOL, EPROTO, "read JSON: %s",
			      len >= UINT32_MAX ? "too long" : "it is not valid UTF-8");
		return NULL;
	}
	d->text = xmalloc(len + 1);
	if (len)
		memcpy(d->text, text, len);
	p.p = d->text;
	p.end = d->text + len;
	bool good = read_value(&p, 0, &root);
	skip_space(&p);
	if (good && p.p < p.end)
		good = fail(&p, "something stands behind the value");
	if (good)
		return d;
	(void)err_set(e, ERR_PROTOCOL, EPROTO, "read JSON: %s (byte %zu)", p.why, (size_t)(p.p - d->text));
	jdoc_free(d);
	return NULL;
}

void jdoc_free(struct jdoc *d)
{
	if (!d)
		return;
	free(d->text);
	free(d->v);
	free(d);
}

struct jv jdoc_root(const struct jdoc *d)
{
	return (struct jv){.doc = d};
}

static const struct node *node_of(struct jv v)
{
	return v.doc ? &v.doc->v[v.at] : NULL;
}

enum jtype jv_type(struct jv v)
{
	return v.doc ? (enum jtype)node_of(v)->type : J_MISSING;
}

const char *jv_raw(struct jv v, size_t *ret_len)
{
	const struct node *n = node_of(v);

	*ret_len = n ? n->end - n->start : 0;
	return n ? v.doc->text + n->start : "";
}

struct jv jv_first(struct jv v)
{
	const struct node *n = node_of(v);

	return n && n->parent ? (struct jv){.doc = v.doc, .at = v.at + 1} : (struct jv){0};
}

struct jv jv_next(struct jv v)
{
	const struct node *n = node_of(v);

	return n && n->next ? (struct jv){.doc = v.doc, .at = n->next} : (struct jv){0};
}

struct jv jv_get(struct jv object, const char *key)
{
	if (jv_type(object) != J_OBJECT)
		return (struct jv){0};
	for (struct jv k = jv_first(object); k.doc; k = jv_next(jv_next(k)))
		if (jv_is(k, key))
			return jv_next(k);
	return (struct jv){0};
}

/* At most three bytes of UTF-8 for one \uXXXX, four for a pair: never longer than the escape itself. */
static char *put_code(char *to, unsigned c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	}
	return to;
}

static const char *decode_escape(const char *s, const char *end, char **to)
{
	static const char from[] = "bfnrt", plain[] = "\b\f\n\r\t";

	if (s[1] != 'u') {
		const char *at = strchr(from, s[1]);
		*(*to)++ = at ? plain[at - from] : s[1];
		return s + 2;
	}
	unsigned c = (unsigned)hex4(s + 2, end);
	s += 6;
	if (c >= 0xd800 && c <= 0xdbff) {
		c = 0x10000 + ((c - 0xd800) << 10) + ((unsigned)hex4(s + 2, end) - 0xdc00);
		s += 6;
	}
	*to = put_code(*to, c);
	return s;
}

char *jv_text(struct jv v, size_t *ret_len)
{
	size_t len;

	if (jv_type(v) != J_STRING)
		return NULL;
	const char *s = jv_raw(v, &len) + 1, *end = s + len - 2;
	char *text = xmalloc(len), *to = text;
	while (s < end) {
		if (*s == '\\')
			s = decode_escape(s, end, &to);
		else
			*to++ = *s++;
	}
	*to = '\0';
	if (ret_len)
		*ret_len = (size_t)(to - text);
	return text;
}

char *jv_cstr(struct jv v)
{
	size_t len;
	char *s = jv_text(v, &len);

	if (s && strlen(s) != len) {
		free(s);
		return NULL;
	}
	return s;
}

bool jv_is(struct jv v, const char *text)
{
	size_t len, want = strlen(text);

	if (jv_type(v) != J_STRING)
		return false;
	const char *raw = jv_raw(v, &len);
	if (!memchr(raw, '\\', len))
		return len - 2 == want && memcmp(raw + 1, text, want) == 0;
	auto_free char *s = jv_text(v, &len);
	return len == want && memcmp(s, text, want) == 0;
}

bool jv_number(struct jv v, double *ret)
{
	char digits_of[64];
	size_t len;

	if (jv_type(v) != J_NUMBER)
		return false;
	const char *raw = jv_raw(v, &len);
	if (len >= sizeof digits_of)
		return false;
	memcpy(digits_of, raw, len);
	digits_of[len] = '\0';
	*ret = strtod(digits_of, NULL);
	return true;
}

bool jv_int(struct jv v, long long *ret)
{
	const double most = 9007199254740992.0;
	double d;

	if (!jv_number(v, &d) || !(d >= -most && d <= most) || (double)(long long)d != d)
		return false;
	*ret = (long long)d;
	return true;
}

bool jv_bool(struct jv v, bool *ret)
{
	size_t len;

	if (jv_type(v) != J_BOOL)
		return false;
	*ret = jv_raw(v, &len)[0] == 't';
	return true;
}
