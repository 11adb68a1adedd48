/* Finding the object in a model's words.
 *
 * Models put it into a fenced block, or behind a sentence, or give nothing else. The last one counts, since models
 * show examples first and decide last. At most TRIES_MAX fences and braces are tried from the end, so that no text
 * makes the search long. */
#include "answer.h"

#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <string.h>

enum { TRIES_MAX = 64 };

static json_t *parse_object(const char *s, size_t len)
{
	json_t *j = json_parse_value(s, len, NULL);

	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

/* The last place of a needle before end, or NULL. */
static const char *find_last(const char *s, const char *end, const char *needle)
{
	size_t n = strlen(needle);

	for (const char *p = end; p - s >= (ptrdiff_t)n; p--)
		if (memcmp(p - n, needle, n) == 0)
			return p - n;
	return NULL;
}

/* Behind the opening fence: the language's name, if any, and its newline. */
static json_t *fenced(const char *open, const char *close)
{
	const char *body = memchr(open, '\n', (size_t)(close - open));

	return body ? parse_object(body + 1, (size_t)(close - body - 1)) : NULL;
}

static json_t *last_fenced(const char *text, size_t len)
{
	const char *close = find_last(text, text + len, "```");

	for (int i = 0; close && i < TRIES_MAX; i++) {
		const char *open = find_last(text, close, "```");
		json_t *j = open ? fenced(open + 3, close) : NULL;
		if (j)
			return j;
		close = open;
	}
	return NULL;
}

/* From an opening brace to the last closing one: only the object that ends there parses, not a part of it. */
static json_t *last_bare(const char *text, size_t len)
{
	const char *end = memrchr(text, '}', len);
	const char *open = end;

	for (int i = 0; open && i < TRIES_MAX; i++) {
		open = memrchr(text, '{', (size_t)(open - text));
		json_t *j = open ? parse_object(open, (size_t)(end + 1 - open)) : NULL;
		if (j)
			return j;
	}
	return NULL;
}

json_t *answer_last_json(const char *text, size_t len)
{
	json_t *j = parse_object(text, len);

	if (!j)
		j = last_fenced(text, len);
	return j ? j : last_bare(text, len);
}

json_t *answer_text(const char *text, size_t len)
{
	json_t *o = json_object();

	json_put(o, "output", json_text(text, len));
	return o;
}
