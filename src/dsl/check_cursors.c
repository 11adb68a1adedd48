/* Cursors: a declaration has words or bands (C085), and a setting names a declared cursor (C083) and one of its values
 * (C084). Bands are written "0.0..0.3" or "0.0-0.3" and do not overlap. */
#include "checks.h"

#include <base/arena.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

struct band {
	double from, to;
	const struct dsl_str *where;
};

/* A number within 0..1 at *s, moving behind it. */
static bool read_share(const char **s, double *ret)
{
	char *end;

	if (!**s || strspn(*s, "0123456789.") == 0)
		return false;
	/* "0..3" must not read as "0." and "."; strtod would. */
	size_t n = strspn(*s, "0123456789");
	if ((*s)[n] == '.' && (*s)[n + 1] != '.')
		n += 1 + strspn(*s + n + 1, "0123456789");
	char text[32];
	if (n >= sizeof text)
		return false;
	memcpy(text, *s, n);
	text[n] = '\0';
	*ret = strtod(text, &end);
	*s += n;
	return end != text && *end == '\0' && *ret <= 1;
}

static bool parse_band(const char *s, struct band *ret)
{
	if (!read_share(&s, &ret->from))
		return false;
	s += strspn(s, " ");
	if (strncmp(s, "..", 2) == 0)
		s += 2;
	else if (*s == '-')
		s++;
	else
		return false;
	s += strspn(s, " ");
	return read_share(&s, &ret->to) && !*s && ret->from < ret->to;
}

static int compare_bands(const void *a, const void *b)
{
	const struct band *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

static struct band *read_bands(struct check *c, const struct dsl_cursor *cursor, bool report, size_t *ret_n)
{
	struct band *bands = NULL;

	*ret_n = 0;
	for (size_t i = 0; i < cursor->bands.n; i++) {
		const struct dsl_str *key = &cursor->bands.v[i].key;
		struct band b = {.where = key};
		if (parse_band(key->s, &b))
			ARENA_PUSH(c->f->state->arena, bands, *ret_n, b);
		else if (report)
			diag_error(c->f, "C085", key->pos, "write two numbers within 0 and 1: \"0.0..0.5\"",
				   "\"%.100s\" is no band", key->s);
	}
	if (*ret_n)
		qsort(bands, *ret_n, sizeof *bands, compare_bands);
	return bands;
}

static void check_cursor(struct check *c, const struct dsl_cursor *cursor)
{
	size_t n;

	if (!cursor->values.n == !cursor->bands.n) {
		diag_error(c->f, "C085", cursor->name.pos, "give it values: (words) or bands: (ranges)",
			   "the cursor \"%s\" has %s", cursor->name.s,
			   cursor->values.n ? "both values and bands" : "neither values nor bands");
		return;
	}
	const struct band *bands = read_bands(c, cursor, true, &n);
	for (size_t i = 1; i < n; i++)
		if (bands[i].from < bands[i - 1].to)
			diag_error(c->f, "C085", bands[i].where->pos, "let each band begin where another ends",
				   "the bands \"%s\" and \"%s\" overlap", bands[i - 1].where->s, bands[i].where->s);
}

static bool has_value(struct check *c, const struct dsl_cursor *cursor, const json_t *v)
{
	size_t n;

	if (cursor->bands.n) {
		const struct band *bands = read_bands(c, cursor, false, &n);
		double d = json_number_value(v);
		for (size_t i = 0; json_is_number(v) && i < n; i++)
			if (d >= bands[i].from && d <= bands[i].to)
				return true;
		return false;
	}
	for (size_t i = 0; json_is_string(v) && i < cursor->values.n; i++)
		if (strcmp(cursor->values.v[i].key.s, json_string_value(v)) == 0)
			return true;
	return false;
}

static void check_setting(struct check *c, const struct dsl_setting *s)
{
	const struct dsl_cursor *cursor = dsl_find_cursor(c->f, s->key.s);

	if (strcmp(s->key.s, "enabled") == 0)
		return;
	if (!cursor) {
		diag_warning(c->f, "C083", s->key.pos,
			     hint_nearest_name(c->f, s->key.s, &c->f->state->cursors, "declare it: cursor NAME:"),
			     "unknown cursor \"%s\"", s->key.s);
		return;
	}
	/* A value that ${…} left empty is decided when the run starts. */
	bool open = json_is_string(s->value.v) && !json_string_length(s->value.v);
	if (s->value.v && !open && (cursor->values.n || cursor->bands.n) && !has_value(c, cursor, s->value.v))
		diag_error(c->f, "C084", s->value.pos,
			   cursor->bands.n ? "use a number within one of its bands" : "use one of its words",
			   "the cursor \"%s\" has no such value", s->key.s);
}

void check_cursors(struct check *c)
{
	for (size_t i = 0; i < c->f->n_cursors; i++)
		check_cursor(c, c->f->cursors[i]);
	for (size_t i = 0; i < c->f->n_nodes; i++)
		for (size_t k = 0; k < c->f->nodes[i]->n_cursors; k++)
			check_setting(c, &c->f->nodes[i]->cursors[k]);
}
