/* Heads and addresses of a registry's answers. All of it is what a stranger wrote; what is not plainly right is
 * refused. */
#include "challenge.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIELD_MAX = 16 * 1024 };

void challenge_done(struct challenge *c)
{
	free(c->realm);
	free(c->service);
	free(c->scope);
	*c = (struct challenge){0};
}

static const char *skip_space(const char *s)
{
	return s + strspn(s, " \t,");
}

/* A token or a quoted string; NULL when a quote does not end. */
static char *value(const char **s)
{
	auto_buf out = BUF_INIT(FIELD_MAX);
	const char *p = *s;

	if (*p != '"') {
		size_t len = strcspn(p, ", \t");
		*s = p + len;
		return xstrndup(p, len);
	}
	for (p++; *p && *p != '"'; p++) {
		if (*p == '\\' && p[1])
			p++;
		if (buf_putc(&out, *p) < 0)
			return NULL;
	}
	if (*p != '"')
		return NULL;
	*s = p + 1;
	return buf_steal(&out);
}

static int take_parameters(const char *s, struct challenge *c)
{
	for (s = skip_space(s); *s; s = skip_space(s)) {
		size_t len = strcspn(s, "= \t,");
		if (s[len] != '=')
			return 0; /* the next scheme begins */
		const char *name = s;
		s += len + 1;
		auto_free char *v = value(&s);
		if (!v)
			return -EINVAL;
		char **to = len == 5 && strncasecmp(name, "realm", len) == 0	 ? &c->realm
			    : len == 7 && strncasecmp(name, "service", len) == 0 ? &c->service
			    : len == 5 && strncasecmp(name, "scope", len) == 0	 ? &c->scope
										 : NULL;
		if (to && !*to)
			*to = TAKE_PTR(v);
	}
	return 0;
}

int challenge_parse(const char *field, struct challenge *ret)
{
	*ret = (struct challenge){0};
	if (strlen(field) > FIELD_MAX)
		return -EINVAL;
	field = skip_space(field);
	ret->bearer = strncasecmp(field, "Bearer ", 7) == 0;
	if (!ret->bearer)
		return strncasecmp(field, "Basic", 5) == 0 ? 0 : -EINVAL;
	int r = take_parameters(field + 7, ret);
	if (r < 0 || !ret->realm || (!str_starts(ret->realm, "https://") && !str_starts(ret->realm, "http://"))) {
		challenge_done(ret);
		return -EINVAL;
	}
	return 0;
}

static bool is_http(const char *url)
{
	return strncasecmp(url, "https://", 8) == 0 || strncasecmp(url, "http://", 7) == 0;
}

/* Up to the path. */
static size_t origin_len(const char *url)
{
	const char *host = strstr(url, "://");

	return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
}

char *url_resolve(const char *from, const char *location)
{
	for (const char *c = location; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return NULL;
	if (is_http(location))
		return xstrdup(location);
	size_t len = origin_len(from);
	if (location[0] == '/' && location[1] == '/')
		return xasprintf("%.*s%s", (int)strcspn(from, "/"), from, location);
	if (location[0] == '/')
		return xasprintf("%.*s%s", (int)len, from, location);
	return NULL;
}

bool url_same_origin(const char *a, const char *b)
{
	size_t len = origin_len(a);

	return len && len == origin_len(b) && strncasecmp(a, b, len) == 0;
}

static bool is_on_loopback(const char *url)
{
	static const char *const loopback[] = {"http://localhost", "http://[::1]"};

	/* What looks like the host may be a user's name. */
	if (memchr(url, '@', origin_len(url)))
		return false;
	if (strncasecmp(url, "http://127.", 11) == 0) {
		size_t len = strspn(url + 7, "0123456789.");
		return strchr(":/?", url[7 + len]) != NULL;
	}
	for (size_t i = 0; i < ARRAY_LEN(loopback); i++) {
		size_t len = strlen(loopback[i]);
		if (strncasecmp(url, loopback[i], len) == 0 && strchr(":/?", url[len]))
			return true;
	}
	return false;
}

bool url_is_private(const char *url, bool loopback)
{
	return strncasecmp(url, "https://", 8) == 0 || (loopback && is_on_loopback(url));
}

void url_encode(struct buf *to, const char *v)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

	for (; *v; v++)
		(void)!(strchr(plain, *v) ? buf_putc(to, *v) : buf_printf(to, "%%%02X", (unsigned char)*v));
}
