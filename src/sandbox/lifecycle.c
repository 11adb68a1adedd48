/* The lists of commands of a sandbox's start as a value: growth, copies, comparison, the end. */
#include <base/mem.h>
#include <sandbox/lifecycle.h>

#include <stdlib.h>
#include <string.h>

struct sandbox_command *lifecycle_add(struct sandbox_lifecycle *l, enum sandbox_stage stage, const char *name)
{
	struct sandbox_hook *h = &l->stages[stage];

	h->v = grow_array(h->v, h->n, &h->cap, sizeof *h->v);
	h->v[h->n] = (struct sandbox_command){.name = xstrdup(name)};
	return &h->v[h->n++];
}

void lifecycle_append(struct sandbox_lifecycle *to, const struct sandbox_lifecycle *from)
{
	for (unsigned s = 0; s < STAGE_COUNT; s++) {
		for (size_t i = 0; i < from->stages[s].n; i++) {
			const struct sandbox_command *c = &from->stages[s].v[i];
			struct sandbox_command *copy = lifecycle_add(to, (enum sandbox_stage)s, c->name);
			for (size_t k = 0; k < c->argv.n; k++)
				strv_add(&copy->argv, c->argv.v[k]);
		}
	}
}

static bool commands_equal(const struct sandbox_command *a, const struct sandbox_command *b)
{
	if (!str_eq(a->name, b->name) || a->argv.n != b->argv.n)
		return false;
	for (size_t i = 0; i < a->argv.n; i++)
		if (!str_eq(a->argv.v[i], b->argv.v[i]))
			return false;
	return true;
}

bool lifecycle_equal(const struct sandbox_lifecycle *a, const struct sandbox_lifecycle *b)
{
	for (unsigned s = 0; s < STAGE_COUNT; s++) {
		if (a->stages[s].n != b->stages[s].n)
			return false;
		for (size_t i = 0; i < a->stages[s].n; i++)
			if (!commands_equal(&a->stages[s].v[i], &b->stages[s].v[i]))
				return false;
	}
	return true;
}

bool lifecycle_empty(const struct sandbox_lifecycle *l)
{
	for (unsigned s = 0; s < STAGE_COUNT; s++)
		if (l->stages[s].n)
			return false;
	return true;
}

void lifecycle_done(struct sandbox_lifecycle *l)
{
	for (unsigned s = 0; s < STAGE_COUNT; s++) {
		for (size_t i = 0; i < l->stages[s].n; i++) {
			free(l->stages[s].v[i].name);
			strv_done(&l->stages[s].v[i].argv);
		}
		free(l->stages[s].v);
	}
	*l = (struct sandbox_lifecycle){0};
}
