/* A table from names to declarations: open addressing with linear probing, at most half full, in the file's arena.
 * The hash is seeded once per process, so that a file cannot be written to make all names collide. */
#include "names.h"

#include "state.h"

#include <base/arena.h>
#include <base/id.h>

#include <string.h>

static uint32_t hash_name(const char *s)
{
	static uint32_t seed;

	if (!seed) {
		random_bytes(&seed, sizeof seed);
		seed |= 1;
	}
	uint32_t h = seed;
	for (; *s; s++) {
		h = (h ^ (unsigned char)*s) * 0x01000193u;
		h ^= h >> 15;
	}
	h *= 0x85ebca6bu;
	return h ^ (h >> 13);
}

/* The slot that holds name or the free one where it belongs. */
static struct names_slot *find_slot(struct names_slot *slots, size_t cap, const char *name, uint32_t hash)
{
	size_t i = hash & (cap - 1);

	while (slots[i].name && (slots[i].hash != hash || strcmp(slots[i].name, name) != 0))
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

static void grow(struct names *t, struct arena *a)
{
	size_t cap = t->cap ? t->cap * 2 : 16;
	struct names_slot *slots = arena_alloc(a, cap * sizeof *slots);

	for (size_t i = 0; i < t->cap; i++)
		if (t->slots[i].name)
			*find_slot(slots, cap, t->slots[i].name, t->slots[i].hash) = t->slots[i];
	t->slots = slots;
	t->cap = cap;
}

void *names_add(struct names *t, struct arena *a, const char *name, void *value)
{
	if (t->n * 2 >= t->cap)
		grow(t, a);
	uint32_t hash = hash_name(name);
	struct names_slot *slot = find_slot(t->slots, t->cap, name, hash);
	if (slot->name)
		return slot->value;
	*slot = (struct names_slot){.name = name, .value = value, .hash = hash};
	ARENA_PUSH(a, t->order, t->n, name);
	return NULL;
}

void *names_get(const struct names *t, const char *name)
{
	if (!t->cap)
		return NULL;
	return find_slot(t->slots, t->cap, name, hash_name(name))->value;
}
