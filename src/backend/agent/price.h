/* What tokens cost. */
#pragma once

#include <stdint.h>

/* Counts of one answer, each kind by itself: input does not contain what was read from or written to a cache. */
struct agent_usage {
	int64_t input, output, cache_read, cache_write;
};

/* All of them together, as a node's _tokens. */
int64_t usage_total(const struct agent_usage *u);
void usage_add(struct agent_usage *to, const struct agent_usage *u);

/* The price in USD of a model's tokens, by the list prices of its maker; -1 when the model is not in the table. The
 * name may have a provider's prefix ("anthropic/…") and the date of a snapshot behind it. */
double price_usd(const char *model, const struct agent_usage *u);
