/* Nodes under way in a backend: what they are given is made here and lives until they answer. */
#include "branch.h"
#include "budget.h"
#include "conversation.h"
#include "kinds.h"
#include "place.h"
#include "prompt.h"
#include "recovery.h"

#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>

#include <stdlib.h>

struct activity {
	struct engine *en;
	struct branch *branch;
	const struct backend_ops *ops;
	struct node_exec *exec;
	char *text;   /* tool */
	char *system; /* agent */
	char *user;
	const char **choices;
	struct agent_task agent;
	struct strv env;
	uint64_t started_ms;
	struct activity *next;
};

static const char *language_name(enum dsl_language l)
{
	static const char *const names[] = {
		[DSL_LANGUAGE_UNSET] = "sh", [DSL_JS] = "js",		[DSL_NODE] = "node", [DSL_PY] = "py",
		[DSL_PYTHON] = "python",     [DSL_PYTHON3] = "python3", [DSL_SH] = "sh",     [DSL_BASH] = "bash",
	};

	return names[l];
}

static void activity_free(struct activity *a)
{
	free(a->text);
	free(a->system);
	free(a->user);
	free(a->choices);
	strv_done(&a->env);
	free(a);
}

static void on_event(void *arg, const char *type, json_t *data)
{
	const struct activity *a = arg;

	recovery_note(a->en, a->branch, type, data);
	engine_emit(a->en, type, a->branch->id, a->branch->node->name.s, data);
}

static void on_done(void *arg, const struct node_result *r, const struct err *e)
{
	struct activity *a = arg;
	struct engine *en = a->en;
	struct activity **p = &en->activities;

	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
	en->n_activities--;
	stay_end(&en->nodes[a->branch->node->index].place->stays, a);
	budget_settle(en, a->branch, r->tokens, r->cost_usd);
	if (r->question && !e) {
		recovery_close(en, a->branch, "asked", NULL);
		human_ask_for(en, a->branch, r->question);
	} else {
		step_finished(en, a->branch, r, clock_ms() - a->started_ms, e);
	}
	activity_free(a);
	engine_pump(en);
	engine_check_end(en);
}

static void on_usage(void *arg, int64_t tokens, double cost_usd, bool goes_on)
{
	const struct activity *a = arg;
	bool more = budget_count(a->en, a->branch, tokens, cost_usd);

	if (goes_on)
		budget_check(a->en);
	if (more)
		budget_keep(a->en);
}

static int on_check(void *arg, json_t *output, struct err *e)
{
	const struct activity *a = arg;

	return step_check(a->en, a->branch->node, output, e);
}

const char *activity_model(const struct dsl_node *n)
{
	return n->kind == DSL_HUMAN && n->interaction_model.s ? n->interaction_model.s : n->model.s;
}

static int prepare_agent(struct activity *a, const struct dsl_schema *schema, struct err *e)
{
	const struct branch *b = a->branch;
	const struct dsl_node *n = b->node;
	int r = prompt_system(a->en, b, &a->system, e);

	if (r == 0)
		r = prompt_named(a->en, b, n->kind == DSL_HUMAN ? &n->instructions : &n->user, &a->user, e);
	if (r < 0)
		return r;
	if (n->kind == DSL_ROUTER)
		a->choices = route_targets(n);
	a->agent = (struct agent_task){
		.file = a->en->p.file,
		.node = n,
		.model = activity_model(n),
		.system = a->system,
		.user = a->user,
		.input = b->input,
		.schema = schema,
		.choices = a->choices,
		.multi = n->multi.v,
		.answer = json_get_str(b->answers, "answer"),
	};
	return conversation_choose(b, a->ops, &a->agent, e);
}

int activity_start(struct engine *en, struct branch *b, struct err *e)
{
	static const char *const no_env[] = {NULL};
	const struct dsl_node *n = b->node;
	struct place *place = en->nodes[n->index].place;
	const struct dsl_schema *schema = n->output.s ? dsl_find_schema(en->p.file, n->output.s) : NULL;
	struct activity *a = xcalloc(1, sizeof *a);

	*a = (struct activity){.en = en, .branch = b, .ops = en->nodes[n->index].ops, .started_ms = clock_ms()};
	int r = n->kind == DSL_TOOL ? prompt_text(en, b, n->command.t ? &n->command : &n->script, &a->text, e)
				    : prepare_agent(a, schema, e);
	if (r < 0) {
		activity_free(a);
		return r;
	}
	budget_begin(b);
	env_build(en, place, n->name.s, &a->env);
	const struct node_task t = {
		.loop = en->p.loop,
		.session = place->session,
		.shared = en->shared,
		.host_env = en->p.host_env,
		.run = en->run,
		.node_id = n->name.s,
		.text = a->text,
		.language = n->script.t ? language_name((enum dsl_language)n->language.v) : NULL,
		.env = a->env.n ? (const char *const *)a->env.v : no_env,
		.structured = schema != NULL,
		.exit_code_field = schema && dsl_schema_field(schema, "exit_code"),
		.agent = n->kind == DSL_TOOL ? NULL : &a->agent,
	};
	const struct node_callbacks cb = {
		.on_event = on_event, .on_done = on_done, .check = on_check, .on_usage = on_usage, .arg = a};
	r = a->ops->start(&t, &cb, &a->exec, e);
	if (r < 0) {
		activity_free(a);
		return r;
	}
	stay_begin(&place->stays, n->name.s, b->id, a);
	a->next = en->activities;
	en->activities = a;
	en->n_activities++;
	return 0;
}

void activity_cancel_all(struct engine *en, enum node_cancel how)
{
	for (const struct activity *a = en->activities; a; a = a->next)
		a->ops->cancel(a->exec, how);
}
