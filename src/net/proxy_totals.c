/* Counts per host in an open-addressed table of fixed size, half full at most. Hosts are chosen by the sandbox, so the
 * hash is keyed at random: names that collide cannot be made up front. */
#include "proxy_totals.h"

#include "proxy_wire.h"

#include <base/buf.h>
#include <base/id.h>
#include <base/mem.h>
#include <base/pack.h>

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 * PROXY_MAX_HOSTS };

struct proxy_totals {
	uint64_t key;
	size_t n;
	struct proxy_total other;
	struct proxy_total *slots[SLOTS];
};

struct proxy_totals *proxy_totals_new(void)
{
	struct proxy_totals *t = xcalloc(1, sizeof *t);

	random_bytes(&t->key, sizeof t->key);
	t->other.host = xstrdup("(other)");
	return t;
}

void proxy_totals_free(struct proxy_totals *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < SLOTS; i++) {
		if (t->slots[i])
			free(t->slots[i]->host);
		free(t->slots[i]);
	}
	free(t->other.host);
	free(t);
}

/* FNV-1a from a random start, with a final mix. */
static size_t slot_of(uint64_t key, const char *s)
{
	uint64_t h = key;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	h ^= h >> 32;
	return (size_t)(h * 0x9e3779b97f4a7c15u >> 40) % SLOTS;
}

struct proxy_total *proxy_totals_of(struct proxy_totals *t, const char *host)
{
	size_t i = slot_of(t->key, host);

	for (; t->slots[i]; i = (i + 1) % SLOTS)
		if (strcmp(t->slots[i]->host, host) == 0)
			return t->slots[i];
	if (t->n == PROXY_MAX_HOSTS)
		return &t->other;
	t->n++;
	t->slots[i] = xcalloc(1, sizeof *t->slots[i]);
	t->slots[i]->host = xstrdup(host);
	return t->slots[i];
}

static void pack_one(const struct proxy_total *h, struct buf *to)
{
	/* The buffer's limit holds the largest table there can be. */
	(void)pack_str(to, h->host);
	(void)pack_u64(to, h->allowed);
	(void)pack_u64(to, h->blocked);
	(void)pack_u64(to, h->up);
	(void)pack_u64(to, h->down);
}

void proxy_totals_pack(const struct proxy_totals *t, struct buf *to)
{
	bool other = t->other.allowed || t->other.blocked;

	(void)pack_u32(to, (uint32_t)(t->n + other));
	for (size_t i = 0; i < SLOTS; i++)
		if (t->slots[i])
			pack_one(t->slots[i], to);
	if (other)
		pack_one(&t->other, to);
}
