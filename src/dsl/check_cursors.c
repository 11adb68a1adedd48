/* Cursors: a declaration has words or bands (C085), and a setting names a declared cursor (C083) and one of its values
 * (C084). Bands do not overlap. */
#include "checks.h"
#include "cursor.h"

#include <base/arena.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

struct band {
	double from, to;
	const struct dsl_str *where;
};

static int compare_bands(const void *a, const void *b)
{
	const struct band *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

static struct band *read_bands(struct check *c, const struct dsl_cursor *cursor, size_t *ret_n)
{
	struct band *bands = NULL;

	*ret_n = 0;
	for (size_t i = 0; i < cursor->bands.n; i++) {
		const struct dsl_str *key = &cursor->bands.v[i].key;
		struct band b = {.where = key};
		if (cursor_band(key->s, &b.from, &b.to))
			ARENA_PUSH(c->f->state->arena, bands, *ret_n, b);
		else
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
	const struct band *bands = read_bands(c, cursor, &n);
	for (size_t i = 1; i < n; i++)
		if (bands[i].from < bands[i - 1].to)
			diag_error(c->f, "C085", bands[i].where->pos, "let each band begin where another ends",
				   "the bands \"%s\" and \"%s\" overlap", bands[i - 1].where->s, bands[i].where->s);
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
	if (s->value.v && !open && (cursor->values.n || cursor->bands.n) && !dsl_cursor_meaning(cursor, s->value.v))
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
