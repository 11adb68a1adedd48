/* Placeholders: what looks like the secret to every tool that checks its form, and is worth nothing.
 *
 * The length is the value's own, because texts in which one replaces the other then keep theirs. A known prefix stays,
 * for tools that choose by it what to do; behind it letters and digits are drawn anew from the kinds that the value has
 * (digits, hexadecimal digits, upper and lower case), so that a check of the alphabet passes too. What is neither
 * letter nor digit stays, as the dots of a token of three parts. */
#include <base/err.h>
#include <base/id.h>
#include <base/mem.h>
#include <base/str.h>
#include <net/secret.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>

enum { MIN_DRAWN = 6, ALPHABET_MAX = 64 };

/* The longer ones of a family first. */
static const char *const prefixes[] = {
	"github_pat_",	 "ghp_",	  "gho_",    "ghu_",	 "ghs_",	"ghr_",	     "glpat-",	 "gldt-",
	"sk-ant-api03-", "sk-ant-oat01-", "sk-ant-", "sk-proj-", "sk-svcacct-", "sk-or-v1-", "sk-",	 "xoxb-",
	"xoxp-",	 "xoxa-",	  "xoxs-",   "xapp-",	 "npm_",	"pypi-",     "hf_",	 "gsk_",
	"AKIA",		 "ASIA",	  "AIza",    "ya29.",	 "dop_v1_",	"rk_live_",  "sk_live_", "sk_test_",
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_drawn(char c)
{
	return is_digit(c) || is_upper(c) || is_lower(c);
}

static size_t count_drawn(const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += is_drawn(s[i]);
	return n;
}

static size_t prefix_length(const char *value, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		size_t n = strlen(prefixes[i]);
		if (len > n && memcmp(value, prefixes[i], n) == 0)
			return count_drawn(value + n, len - n) >= MIN_DRAWN ? n : 0;
	}
	return 0;
}

/* The characters that may stand where the value has a letter or digit. */
static size_t alphabet(const char *s, size_t len, char ret[ALPHABET_MAX])
{
	bool digit = false, upper = false, lower = false, hex = true;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		digit |= is_digit(s[i]);
		upper |= is_upper(s[i]);
		lower |= is_lower(s[i]);
		hex &= !is_drawn(s[i]) || is_digit(s[i]) || (s[i] | 0x20) <= 'f';
	}
	/* Few letters that happen to be within a to f say nothing; hexadecimal numbers have digits too. */
	hex &= digit && upper != lower && len >= 16;
	for (char c = '0'; digit && c <= '9'; c++)
		ret[n++] = c;
	for (char c = 'A'; upper && c <= (hex ? 'F' : 'Z'); c++)
		ret[n++] = c;
	for (char c = 'a'; lower && c <= (hex ? 'f' : 'z'); c++)
		ret[n++] = c;
	return n;
}

/* Without favour for any of the n. */
static size_t draw(size_t n)
{
	uint8_t limit = (uint8_t)(256 / n * n - 1), byte;

	do
		random_bytes(&byte, 1);
	while (byte > limit);
	return byte % n;
}

int secret_placeholder(const char *value, size_t len, char *ret, struct err *e)
{
	size_t keep = prefix_length(value, len);
	char set[ALPHABET_MAX];

	if (count_drawn(value + keep, len - keep) < MIN_DRAWN) {
		int r = err_set(e, ERR_INPUT, EINVAL,
				"its value has fewer than %d letters and digits, so that no placeholder can be made",
				MIN_DRAWN);
		err_hint(e, "use a real token");
		return r;
	}
	size_t n = alphabet(value + keep, len - keep, set);
	for (size_t i = 0; i < len; i++)
		ret[i] = i < keep || !is_drawn(value[i]) ? value[i] : set[draw(n)];
	ret[len] = '\0';
	return 0;
}
