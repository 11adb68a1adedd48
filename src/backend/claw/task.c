/* What the runner is told: the node as the workflow describes it, in the words of the wire.
 *
 * A property that the node lacks is the workflow's, then the runner's own default. The tools that are served on this
 * side are chosen here and judged here again when they are called (claw_forbids): the runner stands in the sandbox, and
 * what it asks for counts for no more than what the agent inside could ask for itself. */
#include "claw.h"

#include "agent/schema.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/str.h>
#include <driver/session.h>
#include <dsl/ast.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_STEPS = 50 };

static const struct dsl_workflow *workflow_of(const struct node_exec *x)
{
	return x->task.agent->file ? x->task.agent->file->workflow : NULL;
}

static json_t *strings(const struct dsl_list *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(list, json_string(l->v[i].s));
	return list;
}

/* The workflow's patterns and the node's: a denial of either holds. */
static json_t *policy_of(const struct node_exec *x)
{
	const struct dsl_workflow *w = workflow_of(x);
	json_t *list = w ? strings(&w->tool_policy) : json_array();
	json_t *own = strings(&x->task.agent->node->tool_policy);

	(void)json_array_extend(list, own);
	json_decref(own);
	return list;
}

/* "Tool", "Tool(…)", or either behind a '!': whether it speaks of this tool; *ret_whole: of all its calls. */
static bool speaks_of(const char *pattern, const char *tool, bool *ret_whole)
{
	char name[256];
	size_t len = strcspn(pattern, "(");

	*ret_whole = pattern[len] == '\0';
	if (len >= sizeof name)
		return false;
	memcpy(name, pattern, len);
	name[len] = '\0';
	return fnmatch(name, tool, FNM_NOESCAPE | FNM_CASEFOLD) == 0;
}

bool claw_forbids(const struct node_exec *x, const char *tool)
{
	auto_json patterns = policy_of(x);
	bool any_allow = false, allowed = false;
	const json_t *pattern;
	size_t i;

	json_array_foreach(patterns, i, pattern)
	{
		const char *p = json_string_value(pattern);
		p += strspn(p, " ");
		bool deny = *p == '!', whole;
		bool ours = speaks_of(p + deny, tool, &whole);
		/* Which hosts WebFetch(…) names is judged by the runner; other tools' inputs cannot be judged. */
		if (ours && deny && (whole || !str_eq(tool, "WebFetch")))
			return true;
		any_allow |= !deny;
		allowed |= ours && !deny && (whole || str_eq(tool, "WebFetch"));
	}
	return any_allow && !allowed;
}

bool claw_has_tools(const struct node_exec *x)
{
	enum dsl_node_kind kind = x->task.agent->node->kind;

	return kind == DSL_AGENT || kind == DSL_JUDGE;
}

static bool offers(const struct node_exec *x, const char *tool)
{
	const struct dsl_list *l = &x->task.agent->node->tools;

	for (size_t i = 0; i < l->n; i++)
		if (strcasecmp(l->v[i].s, tool) == 0)
			return true;
	return !l->n && !l->pos.line;
}

json_t *claw_host_tools(const struct node_exec *x, json_t *mcp)
{
	json_t *list = json_array(), *tool;
	size_t i;

	if (claw_has_tools(x) && offers(x, "WebFetch") && !claw_forbids(x, "WebFetch"))
		(void)json_array_append_new(list, fetch_tool());
	json_array_foreach(mcp, i, tool)
	{
		const char *name = json_get_str(tool, "name");
		if (name && !claw_forbids(x, name))
			(void)json_array_append(list, tool);
	}
	return list;
}

static bool may_ask(const struct node_exec *x)
{
	const struct dsl_workflow *w = workflow_of(x);
	int how = x->task.agent->node->interaction.v;

	if (how == DSL_INTERACTION_UNSET && w)
		how = w->interaction.v;
	return how == DSL_INTERACT_HUMAN || how == DSL_INTERACT_LLM_OR_HUMAN;
}

static void put_compaction(json_t *d, const struct node_exec *x)
{
	const struct dsl_compaction *own = &x->task.agent->node->compaction;
	const struct dsl_workflow *w = workflow_of(x);
	const struct dsl_num *threshold = own->threshold.set || !w ? &own->threshold : &w->compaction.threshold;
	const struct dsl_int *recent =
		own->preserve_recent.set || !w ? &own->preserve_recent : &w->compaction.preserve_recent;

	if (threshold->set)
		json_put(d, "compact_threshold_ratio", json_real(threshold->v));
	if (recent->set)
		json_put_int(d, "compact_preserve_recent", recent->v);
	json_put_int(d, "context_window", llm_context_window(x->target.model));
}

long long claw_max_steps(const struct node_exec *x)
{
	const struct dsl_int *own = &x->task.agent->node->tool_max_steps;

	return own->set && own->v > 0 ? own->v : MAX_STEPS;
}

static void put_limits(json_t *d, const struct node_exec *x)
{
	const struct dsl_node *n = x->task.agent->node;

	json_put_int(d, "tool_max_steps", claw_max_steps(x));
	if (n->max_tokens.set)
		json_put_int(d, "max_tokens", n->max_tokens.v);
	json_put_str(d, "reasoning_effort", n->reasoning_effort.s);
	json_put_bool(d, "readonly", n->readonly.v);
	json_put_bool(d, "interaction_enabled", may_ask(x));
}

/* A model that is given nothing to do but an input is given that. */
static void put_prompts(json_t *d, const struct agent_task *a)
{
	json_put_str(d, "system_prompt", a->system);
	if (a->user || !a->input) {
		json_put_str(d, "user_prompt", a->user ? a->user : "");
		return;
	}
	char *input = json_compact(a->input);
	json_put_str(d, "user_prompt", input);
	free(input);
}

json_t *claw_task(const struct node_exec *x)
{
	const struct agent_task *a = x->task.agent;
	const struct dsl_list *tools = &a->node->tools;
	json_t *d = json_object();

	json_put_str(d, "node_id", x->task.node_id);
	put_prompts(d, a);
	json_put_str(d, "model", x->target.model);
	if (tools->n || tools->pos.line || !claw_has_tools(x))
		json_put(d, "allowed_tools", strings(tools));
	json_put(d, "tool_defs", json_incref(x->tools));
	json_put(d, "tool_policy", policy_of(x));
	if (x->schema)
		json_put(d, "output_schema", json_incref(x->schema));
	json_put_str(d, "work_dir", x->task.cwd ? x->task.cwd : session_workspace(x->task.session));
	put_limits(d, x);
	put_compaction(d, x);
	json_put_str(d, "session_id", a->session_id);
	if (a->session_id && a->fork_session)
		json_put_bool(d, "fork_session", true);
	return d;
}
