/* Resolving a reference against a URL (RFC 3986 §5.2), as far as it may go here: never out of the origin. */
#include "endpoint.h"

#include <base/mem.h>

#include <stdbool.h>
#include <string.h>
#include <strings.h>

enum { ENDPOINT_MAX = 4096 };

static bool plain(const char *s)
{
	size_t n = 0;

	for (; *s; s++, n++)
		if (*s < 0x21 || *s > 0x7e || *s == '\\' || n >= ENDPOINT_MAX)
			return false;
	return n > 0;
}

/* The length of scheme://authority, 0 when there is none. */
static size_t origin(const char *url)
{
	const char *slashes = strstr(url, "://");

	return slashes ? (size_t)(slashes - url) + 3 + strcspn(slashes + 3, "/?#") : 0;
}

char *endpoint_resolve(const char *url, const char *said)
{
	size_t ours = origin(url);

	if (ours == 0 || !plain(said))
		return NULL;
	/* A scheme stands before any slash; "//host" would be another host. */
	size_t n = strcspn(said, ":/?#");
	if (said[n] == ':') {
		size_t theirs = origin(said);
		return theirs == ours && strncasecmp(said, url, ours) == 0 ? xstrdup(said) : NULL;
	}
	if (said[0] == '/' && said[1] == '/')
		return NULL;
	if (said[0] == '/')
		return xasprintf("%.*s%s", (int)ours, url, said);
	size_t path = ours + strcspn(url + ours, "?#");
	if (said[0] == '?')
		return xasprintf("%.*s%s%s", (int)path, url, path == ours ? "/" : "", said);
	while (path > ours && url[path - 1] != '/')
		path--;
	return xasprintf("%.*s%s%s", (int)path, url, path == ours ? "/" : "", said);
}
