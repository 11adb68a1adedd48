/* The forms in which a host may echo a value.
 *
 * A page shows it as JSON or within an address; what shows a request's head shows the credentials of Basic as the proxy
 * itself wrote them, in base64. Each such form of the value is looked for in answers and becomes the same form of the
 * placeholder, which has the same length: placeholders keep every character that is neither letter nor digit, and only
 * those are escaped. In base64 the value may begin at any of three places of a group; what depends on the value alone
 * is replaced, and what it shares with its neighbours (four bits at either end) stays.
 *
 * They are as secret as the value, so they lie in pages of the same kind. */
#include "secret_priv.h"

#include <base/mem.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum how { PERCENT, PERCENT_LOWER, BACKSLASH, UNICODE };
enum { LONGEST = 6, SHORTEST = 8 };

static const struct escaping {
	enum how how;
	const char *kept;    /* PERCENT: what stays beside letters and digits */
	const char *escaped; /* the others: what does not */
} escapings[] = {
	/* As the proxy writes it into a query, as browsers do, with and without slashes. */
	{PERCENT, "-._~!$'()*,;:@/?", NULL},
	{PERCENT, "-._~!'()*", NULL},
	{PERCENT, "-._~/", NULL},
	{PERCENT, "-._~", NULL},
	{PERCENT_LOWER, "-._~", NULL},
	{BACKSLASH, NULL, "\"\\"},
	{BACKSLASH, NULL, "\"\\/"},
	{UNICODE, NULL, "&<>"},
};
static const char *const alphabets[] = {
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};
enum { PLACES = 3, FORMS_MAX = ARRAY_LEN(escapings) + PLACES * ARRAY_LEN(alphabets) };

static bool is_escaped(const struct escaping *x, char c)
{
	if (x->kept)
		return !isalnum((unsigned char)c) && !strchr(x->kept, c);
	return strchr(x->escaped, c) != NULL;
}

static size_t put_escaped(enum how how, char c, char *to)
{
	const char *digits = how == PERCENT ? "0123456789ABCDEF" : "0123456789abcdef";
	unsigned char v = (unsigned char)c;
	size_t n = 0;

	to[n++] = how == BACKSLASH || how == UNICODE ? '\\' : '%';
	if (how == BACKSLASH) {
		to[n++] = c;
		return n;
	}
	for (const char *p = how == UNICODE ? "u00" : ""; *p; p++)
		to[n++] = *p;
	to[n++] = digits[v >> 4];
	to[n++] = digits[v & 15];
	return n;
}

/* Returns the length of what was written. */
static size_t escape(const struct escaping *x, const char *s, size_t len, char *to)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (is_escaped(x, s[i]))
			n += put_escaped(x->how, s[i], to + n);
		else
			to[n++] = s[i];
	}
	return n;
}

/* The six bits at a place of the text, of which `before` unknown bytes stand in front. */
static unsigned six_bits(const char *s, size_t before, size_t bit)
{
	unsigned v = 0;

	for (size_t i = bit; i < bit + 6; i++)
		v = v << 1 | ((unsigned)(unsigned char)s[i / 8 - before] >> (7 - i % 8) & 1u);
	return v;
}

/* Those digits of base64 that depend on the text alone. */
static size_t encode(const char *alphabet, const char *s, size_t len, size_t before, char *to)
{
	size_t n = 0;

	for (size_t digit = (8 * before + 5) / 6; (digit + 1) * 6 <= 8 * (before + len); digit++)
		to[n++] = alphabet[six_bits(s, before, digit * 6)];
	return n;
}

static bool is_known(const struct secret *s, const char *text, size_t len)
{
	if (len == s->len && memcmp(text, s->value, len) == 0)
		return true;
	for (size_t i = 0; i < s->n_forms; i++)
		if (s->forms[i].len == len && memcmp(text, s->forms[i].value, len) == 0)
			return true;
	return false;
}

/* Keeps what was just written behind the others, of both lengths, unless it is there already. */
static void keep(struct secret *s, size_t value_len, const char *placeholder, size_t placeholder_len)
{
	char *text = s->forms_memory + s->forms_used;

	/* Only a placeholder that was not made from this value can differ. */
	if (value_len != placeholder_len || value_len < SHORTEST || is_known(s, text, value_len)) {
		explicit_bzero(text, value_len);
		return;
	}
	s->forms_used += value_len;
	s->forms[s->n_forms++] = (struct secret_form){text, xmemdup(placeholder, placeholder_len), value_len};
}

static size_t room(const struct secret *s)
{
	return (size_t)LONGEST * FORMS_MAX * s->len;
}

void secret_forms_make(struct secret *s)
{
	void *p = mmap(NULL, room(s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *scratch = xmalloc(LONGEST * s->len);

	/* Without memory for them the value is still replaced as it is. */
	if (p == MAP_FAILED) {
		free(scratch);
		return;
	}
	s->forms_memory = p;
	s->forms = xcalloc(FORMS_MAX, sizeof *s->forms);
	for (size_t i = 0; i < ARRAY_LEN(escapings); i++) {
		size_t n = escape(&escapings[i], s->value, s->len, s->forms_memory + s->forms_used);
		keep(s, n, scratch, escape(&escapings[i], s->placeholder, s->len, scratch));
	}
	for (size_t i = 0; i < ARRAY_LEN(alphabets); i++) {
		for (size_t before = 0; before < PLACES; before++) {
			size_t n = encode(alphabets[i], s->value, s->len, before, s->forms_memory + s->forms_used);
			keep(s, n, scratch, encode(alphabets[i], s->placeholder, s->len, before, scratch));
		}
	}
	free(scratch);
	secret_forms_protect(s);
}

void secret_forms_protect(const struct secret *s)
{
	if (!s->forms_memory)
		return;
	(void)madvise(s->forms_memory, room(s), MADV_DONTDUMP);
	(void)mlock(s->forms_memory, s->forms_used);
}

void secret_forms_forget(struct secret *s)
{
	if (!s->forms_memory)
		return;
	explicit_bzero(s->forms_memory, s->forms_used);
	(void)munmap(s->forms_memory, room(s));
	s->forms_memory = NULL;
	for (size_t i = 0; i < s->n_forms; i++)
		free(s->forms[i].placeholder);
	free(s->forms);
	s->forms = NULL;
	s->n_forms = s->forms_used = 0;
}
