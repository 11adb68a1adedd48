/* Cutting a stream into lines. A line that arrives whole is handed on where it stands; only the rest of a piece is
 * copied, and no byte is looked at twice. */
#include "lines.h"

#include <errno.h>
#include <string.h>

void lines_init(struct lines *l, size_t max)
{
	*l = (struct lines){.rest = BUF_INIT(max + 1)};
}

void lines_done(struct lines *l)
{
	buf_done(&l->rest);
}

static bool hand_on(const char *line, size_t len, lines_sink sink, void *arg)
{
	if (len > 0 && line[len - 1] == '\r')
		len--;
	return sink(arg, line, len);
}

/* The line whose beginning was kept; *at moves behind its newline. 1: done, 0: all was taken and it goes on. */
static int finish_rest(struct lines *l, const char *data, size_t len, size_t *at, lines_sink sink, void *arg)
{
	const char *newline = memchr(data, '\n', len);
	size_t n = newline ? (size_t)(newline - data) : len;

	*at = n + (newline ? 1 : 0);
	if (l->rest.len + n >= l->rest.max || buf_add(&l->rest, data, n) < 0)
		return -EMSGSIZE;
	if (!newline)
		return 0;
	bool more = hand_on(l->rest.data, l->rest.len, sink, arg);
	buf_clear(&l->rest);
	return more ? 1 : -ECANCELED;
}

int lines_feed(struct lines *l, const char *data, size_t len, lines_sink sink, void *arg)
{
	size_t at = 0;
	int r = l->rest.len > 0 && len > 0 ? finish_rest(l, data, len, &at, sink, arg) : 1;

	while (r == 1 && at < len) {
		const char *newline = memchr(data + at, '\n', len - at);
		size_t n = newline ? (size_t)(newline - (data + at)) : len - at;
		if (n >= l->rest.max)
			return -EMSGSIZE;
		if (!newline)
			return buf_add(&l->rest, data + at, n) < 0 ? -EMSGSIZE : 0;
		if (!hand_on(data + at, n, sink, arg))
			return 0;
		at += n + 1;
	}
	return r == -EMSGSIZE ? r : 0;
}
