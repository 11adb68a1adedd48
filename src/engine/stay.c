/* Which node was where when: to tell whose connection was refused.
 *
 * The proxy tells refusals after they happened, equal ones together up to a second later, and then their node may have
 * ended and another one have begun. So each place remembers which nodes were under way in it, and a refusal is a node's
 * when no other was there from the first to the last of what is told. What is forgotten is nobody's. */
#include "stay.h"

#include <base/clock.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>

static void forget(struct stay *s)
{
	free(s->branch);
	*s = (struct stay){0};
}

/* A free one, or the one that ended first. When none has ended there is one that nobody will know of. */
static struct stay *room(struct stays *l)
{
	struct stay *best = NULL;

	for (size_t i = 0; i < STAYS_MAX; i++) {
		struct stay *s = &l->v[i];
		if (!s->node)
			return s;
		if (!s->who && (!best || s->end_ms < best->end_ms))
			best = s;
	}
	l->forgotten_ms = best ? MAX(l->forgotten_ms, best->end_ms) : UINT64_MAX;
	return best;
}

void stay_begin(struct stays *l, const char *node, const char *branch, const void *who)
{
	struct stay *s = room(l);

	if (!s)
		return;
	forget(s);
	*s = (struct stay){.node = node, .branch = branch ? xstrdup(branch) : NULL, .who = who, .begin_ms = clock_ms()};
}

void stay_end(struct stays *l, const void *who)
{
	for (size_t i = 0; i < STAYS_MAX; i++)
		if (l->v[i].who == who) {
			l->v[i].who = NULL;
			l->v[i].end_ms = clock_ms();
		}
}

const struct stay *stay_only(const struct stays *l, uint64_t first_ms, uint64_t last_ms)
{
	const struct stay *only = NULL;

	if (first_ms <= l->forgotten_ms)
		return NULL;
	for (size_t i = 0; i < STAYS_MAX; i++) {
		const struct stay *s = &l->v[i];
		if (!s->node || s->begin_ms > last_ms || (!s->who && s->end_ms < first_ms))
			continue;
		if (only && !(str_eq(only->node, s->node) && str_eq(only->branch, s->branch)))
			return NULL;
		only = s;
	}
	return only;
}

void stays_done(struct stays *l)
{
	for (size_t i = 0; i < STAYS_MAX; i++)
		forget(&l->v[i]);
}
