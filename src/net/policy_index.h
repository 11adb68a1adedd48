/* Compiled rules, found by host in time that does not grow with their number. */
#pragma once

#include "policy_rule.h"

struct rule_index {
	struct rule *rules; /* owned, in order */
	size_t n;
	uint32_t *heads;     /* by hash of the name: the last rule of a chain, plus one; 0: empty */
	uint32_t *older;     /* by rule: the next older rule of its chain, plus one */
	size_t mask;	     /* number of heads, minus one */
	uint32_t *addresses; /* the address rules, ascending */
	size_t n_addresses;
};

/* Takes the array of n rules (n < 2^31). */
void rule_index_build(struct rule_index *x, struct rule *rules, size_t n);
void rule_index_done(struct rule_index *x);

/* The last rule that speaks of the name, of the address, or (kind RULE_DEEP without a name) of any host with this
 * negation; NULL when there is none. All of an index lie in one array: the later of two has the higher address. */
const struct rule *rule_index_name(const struct rule_index *x, const char *name, uint16_t port);
const struct rule *rule_index_address(const struct rule_index *x, const struct host *address, uint16_t port);
const struct rule *rule_index_any(const struct rule_index *x, bool negated, uint16_t port);
