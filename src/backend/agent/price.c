/* List prices, as data.
 *
 * A model that is not here costs -1, never a guess: a snapshot's date behind a known name is fine, any other suffix is
 * another model. Sources: https://platform.claude.com/docs/en/about-claude/pricing (cache writes of five minutes) and
 * https://platform.openai.com/docs/pricing. Providers whose API says the price itself are believed before this. */
#include "price.h"

#include <base/mem.h>
#include <base/str.h>

#include <stdbool.h>
#include <string.h>

#define TOKENS_MAX (INT64_C(1) << 50)

/* USD per million tokens. */
static const struct price {
	const char *model;
	double input, output, cache_read, cache_write;
} prices[] = {
	{"claude-opus-4-7", 5, 25, 0.50, 6.25},
	{"claude-opus-4-6", 5, 25, 0.50, 6.25},
	{"claude-opus-4-5", 5, 25, 0.50, 6.25},
	{"claude-opus-4-1", 15, 75, 1.50, 18.75},
	{"claude-opus-4-0", 15, 75, 1.50, 18.75},
	{"claude-opus-4", 15, 75, 1.50, 18.75},
	{"claude-sonnet-4-6", 3, 15, 0.30, 3.75},
	{"claude-sonnet-4-5", 3, 15, 0.30, 3.75},
	{"claude-sonnet-4-0", 3, 15, 0.30, 3.75},
	{"claude-sonnet-4", 3, 15, 0.30, 3.75},
	{"claude-3-7-sonnet", 3, 15, 0.30, 3.75},
	{"claude-3-5-sonnet", 3, 15, 0.30, 3.75},
	{"claude-haiku-4-5", 1, 5, 0.10, 1.25},
	{"claude-3-5-haiku", 0.80, 4, 0.08, 1},
	{"claude-3-haiku", 0.25, 1.25, 0.03, 0.30},
	{"gpt-5.2", 1.75, 14, 0.175, 0},
	{"gpt-5.2-codex", 1.75, 14, 0.175, 0},
	{"gpt-5.1", 1.25, 10, 0.125, 0},
	{"gpt-5.1-codex", 1.25, 10, 0.125, 0},
	{"gpt-5.1-codex-max", 1.25, 10, 0.125, 0},
	{"gpt-5.1-codex-mini", 0.25, 2, 0.025, 0},
	{"gpt-5", 1.25, 10, 0.125, 0},
	{"gpt-5-codex", 1.25, 10, 0.125, 0},
	{"gpt-5-mini", 0.25, 2, 0.025, 0},
	{"gpt-5-nano", 0.05, 0.40, 0.005, 0},
	{"gpt-4.1", 2, 8, 0.50, 0},
	{"gpt-4.1-mini", 0.40, 1.60, 0.10, 0},
	{"gpt-4.1-nano", 0.10, 0.40, 0.025, 0},
	{"gpt-4o", 2.50, 10, 1.25, 0},
	{"gpt-4o-mini", 0.15, 0.60, 0.075, 0},
	{"o3", 2, 8, 0.50, 0},
	{"o3-mini", 1.10, 4.40, 0.55, 0},
	{"o4-mini", 1.10, 4.40, 0.275, 0},
	{"codex-mini", 1.50, 6, 0.375, 0},
};

/* What may stand behind a model's name and leaves it the same one: nothing, "-latest", the date of a snapshot
 * ("-20250929", "@20250929", "-2025-08-07"), and the mark of a longer context. */
static bool same_model(const char *rest)
{
	int digits = 0;

	if (str_eq(rest, "-latest"))
		return true;
	if (*rest == '-' || *rest == '@') {
		for (rest++; (*rest >= '0' && *rest <= '9') || (*rest == '-' && digits); rest++)
			digits += *rest != '-';
		if (digits != 8)
			return false;
	}
	return *rest == '\0' || str_eq(rest, "[1m]");
}

static const struct price *find(const char *model)
{
	const char *slash = strrchr(model, '/');
	const char *name = slash ? slash + 1 : model;

	for (size_t i = 0; i < ARRAY_LEN(prices); i++)
		if (str_starts(name, prices[i].model) && same_model(name + strlen(prices[i].model)))
			return &prices[i];
	return NULL;
}

double price_usd(const char *model, const struct agent_usage *u)
{
	const struct price *p = model ? find(model) : NULL;

	if (!p)
		return -1;
	return ((double)u->input * p->input + (double)u->output * p->output + (double)u->cache_read * p->cache_read +
		(double)u->cache_write * p->cache_write) /
	       1e6;
}

int64_t usage_total(const struct agent_usage *u)
{
	return u->input + u->output + u->cache_read + u->cache_write;
}

/* Both are sums of what a program said, as often as it liked. */
static int64_t sum(int64_t a, int64_t b)
{
	return MIN(a + MIN(b, TOKENS_MAX), TOKENS_MAX);
}

void usage_add(struct agent_usage *to, const struct agent_usage *u)
{
	to->input = sum(to->input, u->input);
	to->output = sum(to->output, u->output);
	to->cache_read = sum(to->cache_read, u->cache_read);
	to->cache_write = sum(to->cache_write, u->cache_write);
}
