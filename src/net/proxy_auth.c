/* The token, as clients present it. The comparison takes the same time however many characters are right; the length of
 * the token is no secret. */
#include "proxy_auth.h"

#include <base/id.h>

#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { CREDENTIALS_MAX = 1024 };

bool auth_check_password(const char *password, size_t len, const char *token, size_t token_len)
{
	return len == token_len && equal_constant_time(password, token, len);
}

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* RFC 4648 §4, padding optional. Returns the length, or -1. */
static ptrdiff_t base64_decode(struct http_text t, char *to, size_t max)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t n = 0;

	for (unsigned pad = 0; t.len && t.p[t.len - 1] == '=' && pad < 2; pad++)
		t.len--;
	for (size_t i = 0; i < t.len; i++) {
		int v = base64_value(t.p[i]);
		if (v < 0)
			return -1;
		bits = (bits << 6 | (uint32_t)v) & 0xffffff;
		have += 6;
		if (have >= 8) {
			have -= 8;
			if (n == max)
				return -1;
			to[n++] = (char)(bits >> have & 0xff);
		}
	}
	return (ptrdiff_t)n;
}

static bool check_basic(struct http_text t, const char *token, size_t token_len)
{
	char text[CREDENTIALS_MAX];
	ptrdiff_t n = base64_decode(t, text, sizeof text);
	const char *colon = n > 0 ? memchr(text, ':', (size_t)n) : NULL;
	bool ok = false;

	if (colon)
		ok = auth_check_password(colon + 1, (size_t)n - (size_t)(colon - text) - 1, token, token_len);
	explicit_bzero(text, sizeof text);
	return ok;
}

bool auth_check(struct http_text value, const char *token, size_t token_len)
{
	const char *space = value.len ? memchr(value.p, ' ', value.len) : NULL;

	if (!space)
		return false;
	struct http_text scheme = {value.p, (size_t)(space - value.p)};
	struct http_text rest = {space, value.len - scheme.len};
	while (rest.len && *rest.p == ' ') {
		rest.p++;
		rest.len--;
	}
	if (http_is(scheme, "bearer"))
		return auth_check_password(rest.p, rest.len, token, token_len);
	return http_is(scheme, "basic") && check_basic(rest, token, token_len);
}
