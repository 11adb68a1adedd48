/* Compiled rules, found by host in time that does not grow with their number.
 *
 * The last rule that speaks of a host decides. Rules with a name, exact or behind a wildcard, hang in a hash table by
 * that name, the newest first; a look-up tries the host itself and then each of its parent names (at most 127, mostly
 * two), and stops in a chain as soon as what is left there is older than what it has. "*" and "**" hang under the empty
 * name, which is every host's last parent. Address rules are walked from the newest: there are few, and a comparison is
 * a memcmp. */
#include "policy_index.h"

#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>
#include <string.h>

static size_t hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3;
	return (size_t)(h ^ (h >> 32));
}

void rule_index_build(struct rule_index *x, struct rule *rules, size_t n)
{
	size_t size = 16;

	while (size < 2 * n)
		size *= 2;
	*x = (struct rule_index){.rules = rules, .n = n, .mask = size - 1};
	x->heads = xcalloc(size, sizeof *x->heads);
	x->older = xcalloc(n + 1, sizeof *x->older);
	x->addresses = xcalloc(n + 1, sizeof *x->addresses);
	for (size_t i = 0; i < n; i++) {
		if (rules[i].kind == RULE_ADDRESS) {
			x->addresses[x->n_addresses++] = (uint32_t)i;
			continue;
		}
		uint32_t *head = &x->heads[hash(rules[i].name) & x->mask];
		x->older[i] = *head;
		*head = (uint32_t)i + 1;
	}
}

void rule_index_done(struct rule_index *x)
{
	for (size_t i = 0; i < x->n; i++)
		rule_done(&x->rules[i]);
	free(x->rules);
	free(x->heads);
	free(x->older);
	free(x->addresses);
	*x = (struct rule_index){0};
}

/* The newest rule of this name, newer than best, of one of the kinds (bits by enum rule_kind); else best. */
static const struct rule *newest(const struct rule_index *x, const char *name, unsigned kinds, uint16_t port,
				 const struct rule *best)
{
	for (uint32_t at = x->heads[hash(name) & x->mask]; at; at = x->older[at - 1]) {
		const struct rule *r = &x->rules[at - 1];
		if (best && r <= best)
			break;
		if (((1u << r->kind) & kinds) && rule_has_port(r, port) && str_eq(r->name, name))
			return r;
	}
	return best;
}

const struct rule *rule_index_name(const struct rule_index *x, const char *name, uint16_t port)
{
	const struct rule *best = newest(x, name, 1u << RULE_NAME, port, NULL);
	unsigned kinds = 1u << RULE_ONE | 1u << RULE_DEEP;

	for (const char *parent = name; *parent; kinds = 1u << RULE_DEEP) {
		parent += strcspn(parent, ".");
		parent += *parent == '.';
		best = newest(x, parent, kinds, port, best);
	}
	return best;
}

const struct rule *rule_index_address(const struct rule_index *x, const struct host *address, uint16_t port)
{
	for (size_t i = x->n_addresses; i-- > 0;) {
		const struct rule *r = &x->rules[x->addresses[i]];
		if (rule_has_port(r, port) && rule_covers_address(r, address))
			return r;
	}
	return NULL;
}

const struct rule *rule_index_any(const struct rule_index *x, bool negated, uint16_t port)
{
	for (uint32_t at = x->heads[hash("") & x->mask]; at; at = x->older[at - 1]) {
		const struct rule *r = &x->rules[at - 1];
		if (r->kind == RULE_DEEP && !*r->name && r->negated == negated && rule_has_port(r, port))
			return r;
	}
	return NULL;
}
