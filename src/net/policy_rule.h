/* One network rule: its text taken apart, and whether it speaks of a host. */
#pragma once

#include <net/policy.h>

enum rule_kind {
	RULE_NAME,    /* this very name */
	RULE_ONE,     /* one label before the name; with an empty name: a name of one label */
	RULE_DEEP,    /* one or more labels before the name; with an empty name: any host */
	RULE_ADDRESS, /* an IP literal or a CIDR */
};

struct rule {
	enum rule_kind kind;
	bool negated;
	char *text; /* as written, trimmed; owned */
	char *name; /* canonical, without wildcard; owned; NULL for RULE_ADDRESS */
	uint16_t port_low;
	uint16_t port_high;
	int family; /* of RULE_ADDRESS */
	unsigned bits;
	unsigned char addr[16];
};

/* Takes the text apart. Returns 0 (rule_done frees), or -EINVAL with the rule, what is wrong and how to write it. */
int rule_parse(const char *text, struct rule *ret, struct err *e) __attribute__((warn_unused_result));
void rule_done(struct rule *r);

static inline bool rule_has_port(const struct rule *r, uint16_t port)
{
	return port >= r->port_low && port <= r->port_high;
}

/* Whether an address rule covers the address. */
bool rule_covers_address(const struct rule *r, const struct host *address);
