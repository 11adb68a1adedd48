/* Patterns of file names.
 *
 * Braces are written out first, up to a limit. A path is then matched part by part with a table of what has matched so
 * far, so that no pattern takes more than parts × parts steps; inside a part only the last star is ever tried again,
 * which is enough for it and cannot grow with the number of stars. */
#include "glob.h"

#include <base/cleanup.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 128 };

struct glob {
	struct strv patterns;
};

/* Steps over one element of the pattern when it matches c; NULL when it does not. */
static const char *match_one(const char *p, char c)
{
	if (*p == '?')
		return p + 1;
	if (*p == '\\' && p[1])
		return p[1] == c ? p + 2 : NULL;
	if (*p != '[')
		return *p && *p == c ? p + 1 : NULL;
	const char *s = p + 1;
	bool negated = *s == '!' || *s == '^', found = false;
	s += negated;
	for (const char *first = s; *s && (*s != ']' || s == first);) {
		unsigned char low = (unsigned char)*s++, high = low;
		if (s[0] == '-' && s[1] && s[1] != ']') {
			high = (unsigned char)s[1];
			s += 2;
		}
		found = found || ((unsigned char)c >= low && (unsigned char)c <= high);
	}
	if (!*s) /* no closing bracket: the character itself */
		return c == '[' ? p + 1 : NULL;
	return found != negated ? s + 1 : NULL;
}

bool glob_text(const char *p, const char *s, size_t len)
{
	const char *end = s + len, *star = NULL, *again = NULL;

	while (s < end) {
		if (*p == '*') {
			star = ++p;
			again = s;
			continue;
		}
		const char *next = match_one(p, *s);
		if (next) {
			p = next;
			s++;
			continue;
		}
		if (!star)
			return false;
		p = star;
		s = ++again;
	}
	while (*p == '*')
		p++;
	return !*p;
}

/* The parts of a path as pointers and lengths; 0 when there are too many. */
static size_t split(const char *path, const char *at[MAX_PARTS], size_t len[MAX_PARTS])
{
	size_t n = 0;

	for (const char *p = path;; p++) {
		const char *end = strchrnul(p, '/');
		if (end > p && n == MAX_PARTS)
			return 0;
		if (end > p) {
			at[n] = p;
			len[n++] = (size_t)(end - p);
		}
		p = end;
		if (!*p)
			return n;
	}
}

static bool part_matches(const char *pattern, size_t pattern_len, const char *s, size_t len)
{
	char one[GLOB_MAX + 1];

	memcpy(one, pattern, pattern_len);
	one[pattern_len] = '\0';
	return glob_text(one, s, len);
}

static bool match_parts(const char *pattern, const char *path)
{
	const char *pat[MAX_PARTS], *part[MAX_PARTS];
	size_t pat_len[MAX_PARTS], part_len[MAX_PARTS];
	size_t np = split(pattern, pat, pat_len), n = split(path, part, part_len);
	/* reached[j]: the parts of the pattern so far match the first j parts of the path */
	bool reached[MAX_PARTS + 1] = {true};

	for (size_t i = 0; i < np; i++) {
		bool next[MAX_PARTS + 1] = {false};
		bool any = pat_len[i] == 2 && memcmp(pat[i], "**", 2) == 0;
		for (size_t j = 0; j <= n; j++) {
			if (any)
				next[j] = reached[j] || (j > 0 && next[j - 1]);
			else
				next[j] = j > 0 && reached[j - 1] &&
					  part_matches(pat[i], pat_len[i], part[j - 1], part_len[j - 1]);
		}
		memcpy(reached, next, sizeof reached);
	}
	return np > 0 && n > 0 && reached[n];
}

/* The first brace with its partner; false when there is none, *ret_bad when it does not close. */
static bool find_braces(const char *s, const char **ret_open, const char **ret_close, bool *ret_bad)
{
	const char *open = strchr(s, '{');
	int depth = 0;

	if (!open)
		return false;
	for (const char *p = open; *p; p++) {
		depth += *p == '{' ? 1 : *p == '}' ? -1 : 0;
		if (depth == 0) {
			*ret_open = open;
			*ret_close = p;
			return true;
		}
	}
	*ret_bad = true;
	return false;
}

/* Puts each alternative of the braces [open, close] in their place. */
static bool alternatives(struct strv *open_ones, const char *s, const char *open, const char *close)
{
	int depth = 0;
	const char *from = open + 1;

	for (const char *p = open + 1; p <= close; p++) {
		depth += *p == '{' ? 1 : *p == '}' ? -1 : 0;
		bool end = (*p == ',' && depth == 0) || p == close;
		if (!end)
			continue;
		if (open_ones->n >= GLOB_ALTERNATIVES)
			return false;
		strv_take(open_ones, xasprintf("%.*s%.*s%s", (int)(open - s), s, (int)(p - from), from, close + 1));
		from = p + 1;
	}
	return true;
}

static bool expand(struct strv *to, const char *pattern)
{
	auto_strv open_ones = {0};

	strv_add(&open_ones, pattern);
	for (size_t i = 0; i < open_ones.n; i++) {
		const char *open, *close;
		bool bad = false;
		if (find_braces(open_ones.v[i], &open, &close, &bad)) {
			auto_free char *s = xstrdup(open_ones.v[i]);
			if (!alternatives(&open_ones, s, s + (open - open_ones.v[i]), s + (close - open_ones.v[i])))
				return false;
		} else if (bad) {
			return false;
		} else {
			strv_add(to, open_ones.v[i]);
		}
	}
	return true;
}

struct glob *glob_new(const char *pattern)
{
	struct glob *g = xcalloc(1, sizeof *g);

	if (strlen(pattern) > GLOB_MAX || !expand(&g->patterns, pattern)) {
		glob_free(g);
		return NULL;
	}
	return g;
}

void glob_free(struct glob *g)
{
	if (!g)
		return;
	strv_done(&g->patterns);
	free(g);
}

bool glob_match(const struct glob *g, const char *path)
{
	for (size_t i = 0; i < g->patterns.n; i++)
		if (match_parts(g->patterns.v[i], path))
			return true;
	return false;
}
