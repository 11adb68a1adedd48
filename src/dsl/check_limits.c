/* Numbers that must lie in a range: budgets (C046), compaction (C043), node limits (C037 and P015). */
#include "checks.h"

#include <base/mem.h>

static void at_least_one(struct check *c, const struct dsl_int *i, const char *name)
{
	if (i->set && i->v < 1)
		diag_error(c->f, "P015", i->pos, "use a number of at least 1, or leave it out", "%s is %lld", name,
			   i->v);
}

static void check_compaction(struct check *c, const struct dsl_compaction *k)
{
	if (k->threshold.set && !(k->threshold.v > 0 && k->threshold.v <= 1))
		diag_error(c->f, "C043", k->threshold.pos, "use a share of the context window such as 0.85",
			   "compaction.threshold is %g, not above 0 and at most 1", k->threshold.v);
	if (k->preserve_recent.set && k->preserve_recent.v < 1)
		diag_error(c->f, "C043", k->preserve_recent.pos, "keep at least one turn",
			   "compaction.preserve_recent is %lld", k->preserve_recent.v);
}

static void check_budget(struct check *c, const struct dsl_budget *b)
{
	if (b->max_cost_usd.set && b->max_cost_usd.v < 0)
		diag_error(c->f, "C046", b->max_cost_usd.pos, "use an amount of at least 0, or leave it out",
			   "budget.max_cost_usd is %g", b->max_cost_usd.v);
	at_least_one(c, &b->max_parallel_branches, "budget.max_parallel_branches");
	at_least_one(c, &b->max_tokens, "budget.max_tokens");
	at_least_one(c, &b->max_iterations, "budget.max_iterations");
}

static void check_node_limits(struct check *c, const struct dsl_node *n)
{
	const struct dsl_int *budget = &c->w->budget.max_tokens;

	check_compaction(c, &n->compaction);
	at_least_one(c, &n->tool_max_steps, "tool_max_steps");
	at_least_one(c, &n->max_tokens, "max_tokens");
	at_least_one(c, &n->min_answers, "min_answers");
	if (n->max_tokens.set && budget->set && n->max_tokens.v > budget->v)
		diag_warning(c->f, "C037", n->max_tokens.pos, "lower it, or raise the budget",
			     "\"%s\" may use %lld tokens, the whole run only %lld", n->name.s, n->max_tokens.v,
			     budget->v);
}

void check_limits(struct check *c)
{
	check_compaction(c, &c->w->compaction);
	check_budget(c, &c->w->budget);
	for (size_t i = 0; i < c->f->n_nodes; i++)
		check_node_limits(c, c->f->nodes[i]);
}
