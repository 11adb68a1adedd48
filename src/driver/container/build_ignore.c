/* The lines of a .dockerignore (docs.docker.com, "Build context", .dockerignore files).
 *
 * Only the hash of a context depends on it: what is wrongly taken in costs a build that was not needed, what is wrongly
 * left out gives an old image for a changed file. So everything in doubt is in: a line that is not understood ("**"
 * beside other characters of the same name) keeps nothing out when it is plain, and takes everything in again when it
 * has a '!'. */
#include "build_ignore.h"

#include <base/cleanup.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <fnmatch.h>
#include <string.h>

enum { MAX_LINES = 4096, MAX_NAMES = 64 };

struct line {
	struct strv names; /* the pattern's path, name by name */
	bool exception;
	bool everything; /* an exception that was not understood */
};

struct build_ignore {
	struct line *lines;
	size_t n, cap;
	bool has_exceptions;
};

/* Into names; the answer says whether all of them are understood. */
static bool split(const char *path, struct strv *names)
{
	bool understood = true;

	for (const char *p = path; *p; p += strspn(p, "/")) {
		size_t len = strcspn(p, "/");
		char *name = xstrndup(p, len);
		understood &= str_eq(name, "**") || !strstr(name, "**");
		strv_take(names, name);
		p += len;
	}
	return understood && names->n <= MAX_NAMES;
}

static void add_line(struct build_ignore *g, const char *text)
{
	struct line l = {.exception = *text == '!'};

	text += l.exception;
	text += strspn(text, " \t");
	/* Cleaned as a path from the context's root, so that "./a/", "/a" and "a" are the same. */
	auto_free char *rooted = path_join("/", text + strspn(text, "/"));
	auto_free char *clean = path_clean(rooted);
	if (!clean || !clean[1])
		return;
	bool understood = split(clean + 1, &l.names);
	if (!understood && !l.exception) {
		strv_done(&l.names);
		return;
	}
	l.everything = !understood;
	g->has_exceptions |= l.exception;
	g->lines = grow_array(g->lines, g->n, &g->cap, sizeof *g->lines);
	g->lines[g->n++] = l;
}

struct build_ignore *build_ignore_new(const char *text, size_t len)
{
	struct build_ignore *g = xcalloc(1, sizeof *g);
	const char *end = text + len;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (text < end && g->n < MAX_LINES) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((stop ? stop : end) - text);
		auto_free char *copy = xstrndup(text, n);
		char *first = copy + strspn(copy, " \t\r");
		for (char *last = first + strlen(first); last > first && strchr(" \t\r", last[-1]); last--)
			last[-1] = '\0';
		/* A comment's sign stands in the first column. */
		if (*first && copy[0] != '#')
			add_line(g, first);
		text += n + 1;
	}
	return g;
}

void build_ignore_free(struct build_ignore *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n; i++)
		strv_done(&g->lines[i].names);
	free(g->lines);
	free(g);
}

/* Whether the pattern fits the first n names of a path, or fewer: a folder that fits takes all below it. The rows are
 * what the pattern's first i names can have used up; "**" uses any number. */
static bool fits(const struct strv *pattern, const struct strv *path)
{
	bool at[MAX_NAMES + 1] = {true};

	for (size_t i = 0; i < pattern->n; i++) {
		bool next[MAX_NAMES + 1] = {false};
		bool any = str_eq(pattern->v[i], "**");
		for (size_t k = 0; k <= path->n; k++) {
			if (any)
				next[k] = at[k] || (k > 0 && next[k - 1]);
			else if (k > 0)
				next[k] = at[k - 1] && fnmatch(pattern->v[i], path->v[k - 1], 0) == 0;
		}
		memcpy(at, next, sizeof at);
	}
	for (size_t k = 1; k <= path->n; k++)
		if (at[k])
			return true;
	return false;
}

bool build_ignore_matches(const struct build_ignore *g, const char *path)
{
	auto_strv names = {0};
	bool out = false;

	if (!split(path, &names) && names.n > MAX_NAMES)
		return false;
	for (size_t i = 0; i < g->n; i++) {
		const struct line *l = &g->lines[i];
		if (l->everything || fits(&l->names, &names))
			out = !l->exception;
	}
	return out;
}

bool build_ignore_has_exceptions(const struct build_ignore *g)
{
	return g->has_exceptions;
}
