/* Budgets: how much a run may use. Branches share them. At 80 % a warning, at 100 % the run stops: counted things are
 * looked at before each node and, as far as a backend tells what it uses while a node is under way, before that uses
 * more; time by a timer. An agent that has its answer is not stopped for what the answer cost. */
#include "branch.h"
#include "budget.h"
#include "state.h"

#include <base/json.h>
#include <base/mem.h>

#include <errno.h>

enum { WARN_PERCENT = 80 };

static const struct dimension {
	const char *name;
	const char *unit;
	const char *hint;
} dimensions[] = {
	[BUDGET_ITERATIONS] = {"max_iterations", "nodes", "raise max_iterations in the workflow's budget"},
	[BUDGET_TOKENS] = {"max_tokens", "tokens", "raise max_tokens in the workflow's budget"},
	[BUDGET_COST] = {"max_cost_usd", "USD", "raise max_cost_usd in the workflow's budget"},
	[BUDGET_DURATION] = {"max_duration", "ms", "raise max_duration in the workflow's budget"},
	[BUDGET_TIMEOUT] = {"timeout", "ms", "give a longer --timeout"},
};

static json_t *number(double v)
{
	return v == (double)(long long)v ? json_integer((long long)v) : json_real(v);
}

static void emit(struct engine *en, const char *type, enum budget_dimension d)
{
	json_t *j = json_object();

	json_put_str(j, "dimension", dimensions[d].name);
	json_put(j, "used", number(en->budgets[d].used));
	json_put(j, "limit", number(en->budgets[d].limit));
	engine_emit(en, type, NULL, NULL, j);
}

static void exceeded(struct engine *en, enum budget_dimension d)
{
	struct err e = ERR_INIT;

	if (en->phase >= PHASE_ENDING)
		return;
	emit(en, "budget_exceeded", d);
	(void)err_set(&e, ERR_BUDGET, EDQUOT, "the run reached its limit %s: %g of %g %s", dimensions[d].name,
		      en->budgets[d].used, en->budgets[d].limit, dimensions[d].unit);
	err_hint(&e, "%s", dimensions[d].hint);
	engine_end(en, RUN_FAILED_RESUMABLE, &e, NULL);
}

static void add(struct engine *en, enum budget_dimension d, double amount)
{
	struct budget *b = &en->budgets[d];

	b->used += amount;
	if (b->limit > 0 && !b->warned && b->used * 100 >= b->limit * WARN_PERCENT) {
		b->warned = true;
		emit(en, "budget_warning", d);
	}
}

/* Whether one of these is used up; then the run is being ended. */
static bool is_used_up(struct engine *en, enum budget_dimension first)
{
	for (enum budget_dimension d = first; d <= BUDGET_COST; d++) {
		if (en->budgets[d].limit > 0 && en->budgets[d].used >= en->budgets[d].limit) {
			exceeded(en, d);
			return true;
		}
	}
	return false;
}

int budget_enter(struct engine *en, const struct branch *b)
{
	if (is_used_up(en, BUDGET_ITERATIONS))
		return -EDQUOT;
	if (b->node->kind != DSL_ROUTER)
		add(en, BUDGET_ITERATIONS, 1);
	return 0;
}

void budget_begin(struct branch *b)
{
	b->spent_tokens = 0;
	b->spent_usd = 0;
}

bool budget_count(struct engine *en, struct branch *b, int64_t tokens, double cost_usd)
{
	bool more = (tokens >= 0 && tokens != b->spent_tokens) || cost_usd > b->spent_usd;

	/* What was an estimate on the way may be less in the end. */
	if (tokens >= 0) {
		add(en, BUDGET_TOKENS, (double)(tokens - b->spent_tokens));
		b->spent_tokens = tokens;
	}
	if (cost_usd >= 0) {
		add(en, BUDGET_COST, cost_usd - b->spent_usd);
		b->spent_usd = cost_usd;
	}
	return more;
}

void budget_settle(struct engine *en, struct branch *b, int64_t tokens, double cost_usd)
{
	(void)budget_count(en, b, tokens, cost_usd);
	budget_begin(b);
}

void budget_keep(struct engine *en)
{
	if (en->budgets[BUDGET_TOKENS].limit <= 0 && en->budgets[BUDGET_COST].limit <= 0)
		return;
	en->unsaved = true;
	checkpoint_soon(en);
}

/* An iteration that is used up stops no node that has begun. */
void budget_check(struct engine *en)
{
	(void)is_used_up(en, BUDGET_TOKENS);
}

void budget_init(struct engine *en)
{
	const struct dsl_budget *b = &en->workflow->budget;

	en->budgets[BUDGET_ITERATIONS].limit = (double)b->max_iterations.v;
	en->budgets[BUDGET_TOKENS].limit = (double)b->max_tokens.v;
	en->budgets[BUDGET_COST].limit = b->max_cost_usd.v;
	en->budgets[BUDGET_DURATION].limit = (double)b->max_duration_ms;
	en->budgets[BUDGET_TIMEOUT].limit = (double)en->p.timeout_ms;
	if (b->max_parallel_branches.set)
		en->max_parallel = (unsigned)MIN(MAX(b->max_parallel_branches.v, 1), 1 << 16);
}

static void on_timer(uv_timer_t *timer)
{
	struct engine *en = timer->data;
	enum budget_dimension d = timer == &en->timers[0] ? BUDGET_DURATION : BUDGET_TIMEOUT;
	struct budget *b = &en->budgets[d];

	if (en->phase >= PHASE_ENDING)
		return;
	if (b->warned) {
		b->used = b->limit;
		exceeded(en, d);
		return;
	}
	uint64_t first = (uint64_t)(b->limit * WARN_PERCENT / 100);
	(void)uv_timer_start(timer, on_timer, (uint64_t)b->limit - first, 0);
	b->used = (double)first;
	b->warned = true;
	emit(en, "budget_warning", d);
}

void budget_start_timers(struct engine *en)
{
	uv_update_time(en->p.loop);
	for (size_t i = 0; i < ARRAY_LEN(en->timers); i++) {
		double limit = en->budgets[BUDGET_DURATION + i].limit;
		if (limit > 0)
			(void)uv_timer_start(&en->timers[i], on_timer, (uint64_t)(limit * WARN_PERCENT / 100), 0);
	}
}
