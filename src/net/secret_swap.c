/* Placeholders and values in the texts that pass.
 *
 * Both are of one length, so a header, the credentials in base64 within it, and a body keep theirs, and replacing needs
 * no new framing; only in a query may a value need more room, where some of its characters must be encoded. Searching
 * looks first whether a byte begins any of the texts, which nearly none does. */
#include "secret_swap.h"
#include "secret_priv.h"

#include <base/buf.h>
#include <base/mem.h>

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { BASIC_MAX = 16 * 1024 };

void swaps_for(const struct secrets *s, const char *host, struct swaps *ret)
{
	size_t n = s ? s->n : 0, forms = n;

	for (size_t i = 0; i < n; i++)
		forms += s->v[i].n_forms;
	*ret = (struct swaps){
		.out = xcalloc(n + 1, sizeof *ret->out),
		.in = xcalloc(forms + 1, sizeof *ret->in),
		.foreign = xcalloc(n + 1, sizeof *ret->foreign),
	};
	for (size_t i = 0; i < n; i++) {
		const struct secret *x = &s->v[i];
		if (!secret_is_bound(x, host)) {
			ret->foreign[ret->n_foreign++] = (struct swap_foreign){x->name, x->placeholder, x->len};
			continue;
		}
		ret->out[ret->n++] = (struct swap){x->placeholder, x->value, x->len};
		ret->in[ret->n_in++] = (struct swap){x->value, x->placeholder, x->len};
		for (size_t k = 0; k < x->n_forms; k++)
			ret->in[ret->n_in++] =
				(struct swap){x->forms[k].value, x->forms[k].placeholder, x->forms[k].len};
	}
}

void swaps_done(struct swaps *s)
{
	free(s->out);
	free(s->in);
	free(s->foreign);
	*s = (struct swaps){0};
}

/* The longest that stands whole at the start of the text, or NULL. */
static const struct swap *match(const struct swap *v, size_t n, const char *text, size_t len)
{
	const struct swap *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (v[i].len <= len && (!best || v[i].len > best->len) && memcmp(v[i].from, text, v[i].len) == 0)
			best = &v[i];
	return best;
}

size_t swap_text(const struct swap *v, size_t n, char *text, size_t len)
{
	size_t found = 0;

	for (size_t i = 0; i < len;) {
		const struct swap *s = match(v, n, text + i, len - i);
		if (s) {
			memcpy(text + i, s->to, s->len);
			found++;
		}
		i += s ? s->len : 1;
	}
	return found;
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Strictly: whole groups, the padding at the end only. Returns the length, or 0 when it is none. */
static size_t decode(const char *text, size_t len, char *to)
{
	size_t n = 0;

	if (len == 0 || len % 4)
		return 0;
	for (size_t i = 0; i < len; i += 4) {
		uint32_t bits = 0;
		unsigned pad = 0;
		for (size_t k = 0; k < 4; k++) {
			const char *at = text[i + k] ? strchr(base64, text[i + k]) : NULL;
			bool padding = text[i + k] == '=' && i + 4 == len && k >= 2;
			if ((!at && !padding) || (at && pad))
				return 0;
			pad += padding;
			bits = bits << 6 | (at ? (uint32_t)(at - base64) : 0u);
		}
		for (unsigned k = 0; k < 3 - pad; k++)
			to[n++] = (char)(unsigned char)(bits >> (16 - 8 * k));
	}
	return n;
}

static void encode(const char *data, size_t len, char *to)
{
	for (size_t i = 0; i < len; i += 3) {
		uint32_t bits = 0;
		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (i + k < len ? (uint32_t)(unsigned char)data[i + k] : 0u);
		for (size_t k = 0; k < 4; k++)
			*to++ = i + k > len ? '=' : base64[bits >> (18 - 6 * k) & 63];
	}
}

/* Where the base64 of Basic credentials begins in a header's value; 0: it has none. */
static size_t basic_start(const char *value, size_t len)
{
	size_t i = 6;

	if (len < 10 || strncasecmp(value, "basic ", 6) != 0)
		return 0;
	while (i < len && value[i] == ' ')
		i++;
	return i < len ? i : 0;
}

size_t swap_header(const struct swap *v, size_t n, char *value, size_t len)
{
	size_t found = n ? swap_text(v, n, value, len) : 0, start = basic_start(value, len);
	char plain[BASIC_MAX];

	if (n == 0 || !start || len - start > BASIC_MAX)
		return found;
	size_t got = decode(value + start, len - start, plain);
	size_t inside = swap_text(v, n, plain, got);
	if (inside)
		encode(plain, got, value + start);
	explicit_bzero(plain, got);
	return found + inside;
}

/* What may stand in a query as it is (RFC 3986 §3.4), but for the characters that separate its parts. */
static bool is_query_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("-._~!$'()*,;:@/?", c));
}

static int put_encoded(struct buf *to, const char *s, size_t len)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < len; i++)
		r = is_query_char(s[i]) ? buf_putc(to, s[i]) : buf_printf(to, "%%%02X", (unsigned char)s[i]);
	return r;
}

int swap_target(const struct swap *v, size_t n, const char *target, size_t len, struct buf *to)
{
	const char *query = len ? memchr(target, '?', len) : NULL;
	size_t i = query ? (size_t)(query - target) + 1 : len;
	int r = buf_add(to, target, i);

	while (r == 0 && i < len) {
		const struct swap *s = match(v, n, target + i, len - i);
		r = s ? put_encoded(to, s->to, s->len) : buf_putc(to, target[i]);
		i += s ? s->len : 1;
	}
	return r;
}

static void find_in(const struct swaps *s, const char *text, size_t len, void (*found)(void *arg, const char *name),
		    void *arg)
{
	for (size_t i = 0; len && i < s->n_foreign; i++)
		if (memmem(text, len, s->foreign[i].placeholder, s->foreign[i].len))
			found(arg, s->foreign[i].name);
}

void swaps_find_foreign(const struct swaps *s, const char *text, size_t len, void (*found)(void *arg, const char *name),
			void *arg)
{
	size_t start = basic_start(text, len);
	char plain[BASIC_MAX];

	if (s->n_foreign == 0)
		return;
	find_in(s, text, len, found, arg);
	if (start && len - start <= BASIC_MAX)
		find_in(s, plain, decode(text + start, len - start, plain), found, arg);
}

/* type/subtype of a Content-Type, without its parameters. */
static bool ends_with(struct http_text t, const char *word)
{
	size_t n = strlen(word);

	return t.len >= n && strncasecmp(t.p + t.len - n, word, n) == 0;
}

bool swap_is_text(struct http_text type)
{
	/* What holds others has a text around them. */
	static const char *const kinds[] = {"text/", "multipart/", "message/"};
	static const char *const whole[] = {
		"application/json",	    "application/javascript", "application/ecmascript",
		"application/xml",	    "application/x-ndjson",   "application/x-www-form-urlencoded",
		"application/graphql",	    "application/yaml",	      "application/x-yaml",
		"application/toml",	    "application/jsonl",      "application/sql",
		"application/x-javascript", "application/json-seq",   "application/x-sh",
	};

	/* Unnamed, it may be anything, text too. */
	if (!type.p)
		return true;
	while (type.len && (*type.p == ' ' || *type.p == '\t')) {
		type.p++;
		type.len--;
	}
	for (size_t i = 0; i < type.len; i++)
		if (type.p[i] == ';' || type.p[i] == ' ' || type.p[i] == '\t')
			type.len = i;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (type.len >= strlen(kinds[i]) && strncasecmp(type.p, kinds[i], strlen(kinds[i])) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_LEN(whole); i++)
		if (http_is(type, whole[i]))
			return true;
	return ends_with(type, "+json") || ends_with(type, "+xml") || ends_with(type, "+yaml") || type.len == 0;
}
