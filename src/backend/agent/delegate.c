/* One node's execution by an agent's program, as steps that follow each other on the loop.
 *
 *     begin -> enter the room -> launch -> ended -> (launch again) -> leave the room -> answer
 *
 * A program that says that the provider refuses at the moment is started again, after a wait, in the conversation that
 * it had; one whose output the engine does not take is told what is wrong with it, once. Every step looks first whether
 * the node was cancelled. Nothing ever ends the node from within start or cancel: the answer comes from the loop, after
 * the program, its leftovers and its files are gone. */
#include "delegate_priv.h"

#include "child.h"
#include "schema.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <driver/agent.h>
#include <driver/session.h>
#include <dsl/ast.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { ARG_MAX_BYTES = 32 * 4096 - 1 };

const char *agent_env(const char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return (*env)[len + 1] ? *env + len + 1 : NULL;
	return NULL;
}

/* A key alone, or lines of "Header: key". */
static void hide(struct node_exec *x, const char *value)
{
	auto_free char *lines = xstrdup(value);
	char *state = NULL;

	strv_add(&x->secrets, value);
	for (char *line = strtok_r(lines, "\r\n", &state); line; line = strtok_r(NULL, "\r\n", &state)) {
		const char *colon = strchr(line, ':');
		if (colon)
			strv_add(&x->secrets, colon + 1 + strspn(colon + 1, " \t"));
	}
}

void delegate_pass(struct node_exec *x, const struct agent_key *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *here = strv_get_env(&x->env, keys[i].name);
		const char *placeholder = session_secret(x->task.session, keys[i].name);
		if (placeholder) {
			strv_set_env(&x->env, keys[i].name, placeholder);
			continue;
		}
		const char *value = here ? here : agent_env(x->task.host_env, keys[i].name);
		if (!value)
			continue;
		strv_set_env(&x->env, keys[i].name, value);
		if (keys[i].secret)
			hide(x, value);
	}
}

static void emit(void *arg, const char *type, json_t *data)
{
	const struct node_exec *x = arg;

	x->cb.on_event(x->cb.arg, type, data);
}

void delegate_tell_usage(struct node_exec *x, bool goes_on)
{
	struct agent_usage all = x->usage;
	double cost = turn_cost(&x->turn, x->task.agent->model);

	usage_add(&all, turn_usage(&x->turn));
	if (cost >= 0)
		cost += MAX(x->cost_usd, 0);
	if (x->cb.on_usage)
		x->cb.on_usage(x->cb.arg, usage_total(&all), cost, goes_on);
}

static void on_line(void *arg, char *line, size_t len)
{
	struct node_exec *x = arg;

	if (x->broken.kind)
		return;
	auto_json j = json_parse_value(line, len, NULL);
	if (json_is_object(j)) {
		x->ops->on_line(x, j);
		/* A model whose tools run will be asked again. */
		delegate_tell_usage(x, !x->turn.ended && json_object_size(x->turn.calls) > 0);
		return;
	}
	auto_buf shown = BUF_INIT(1024);
	(void)text_neutralise(&shown, line, MIN(len, 80u));
	(void)err_set(&x->broken, ERR_PROTOCOL, EPROTO, "%s printed a line that is no JSON object: %s", x->ops->words,
		      buf_str(&shown));
	agent_child_signal(x->child, SIGKILL);
}

/* --- the start --- */

static void emit_started(const struct node_exec *x, const char *program)
{
	json_t *d = json_object();

	json_put_str(d, "backend", x->ops->backend);
	json_put_str(d, "program", program);
	json_put_str(d, "model", x->task.agent->model);
	json_put_bool(d, "sandboxed", x->isolated);
	json_put_str(d, "permission_mode", x->permission_mode);
	json_put_str(d, "session", x->why);
	json_put_str(d, "session_id", x->resume);
	x->cb.on_event(x->cb.arg, "delegate_started", d);
}

/* What the node says and the program does not know must not be left out silently. */
static void warn_of_ignored(const struct node_exec *x)
{
	const struct dsl_node *n = x->task.agent->node;
	const struct {
		bool set;
		unsigned kind;
		const char *name;
	} rows[] = {
		{n->kind != DSL_HUMAN && n->interaction.v > DSL_INTERACT_NONE, IGNORES_INTERACTION, "interaction"},
		{n->kind != DSL_HUMAN && n->interaction_prompt.s, IGNORES_INTERACTION, "interaction_prompt"},
		{n->memory.enabled.v, IGNORES_MEMORY, "memory"},
		{n->compaction.pos.line > 0, IGNORES_COMPACTION, "compaction"},
		{n->tools.pos.line > 0, IGNORES_TOOLS, "tools"},
		{n->tool_policy.pos.line > 0, IGNORES_TOOLS, "tool_policy"},
		{n->tool_max_steps.set, IGNORES_TOOLS, "tool_max_steps"},
		{n->max_tokens.set, IGNORES_TOOLS, "max_tokens"},
		{n->mcp.pos.line > 0, IGNORES_TOOLS, "mcp"},
	};
	auto_buf names = BUF_INIT(1024);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].set && (x->ops->ignores & rows[i].kind))
			(void)buf_printf(&names, "%s%s", names.len ? ", " : "", rows[i].name);
	if (names.len == 0)
		return;
	json_t *d = json_object();
	auto_free char *text = xasprintf("node %s: the backend %s does not know %s, and works without", x->task.node_id,
					 x->ops->backend, buf_str(&names));
	json_put_str(d, "code", "ignored_properties");
	json_put_str(d, "message", text);
	x->cb.on_event(x->cb.arg, "delegate_warning", d);
}

static int check_arguments(const struct node_exec *x, struct err *e)
{
	for (size_t i = 0; i < x->argv.n; i++) {
		size_t len = strlen(x->argv.v[i]);
		if (len < ARG_MAX_BYTES)
			continue;
		(void)err_set(e, ERR_NODE, E2BIG, "an argument for %s has %zu bytes; at most %d can be passed",
			      x->ops->program->name, len, ARG_MAX_BYTES - 1);
		err_hint(e, "the output schema is too long: use fewer fields or shorter lists of choices");
		return -E2BIG;
	}
	return 0;
}

static int start_child(struct node_exec *x, struct err *e)
{
	const char *program = x->places.v[x->place];

	strv_done(&x->argv);
	buf_clear(&x->input);
	strv_add(&x->argv, program);
	int r = x->ops->arguments(x, e);
	if (r == 0)
		r = check_arguments(x, e);
	if (r < 0)
		return r;
	turn_done(&x->turn);
	turn_init(&x->turn);
	const struct agent_child_opts o = {
		.loop = x->task.loop,
		.session = x->task.session,
		.argv = (const char *const *)x->argv.v,
		.env = (const char *const *)x->env.v,
		.cwd = x->task.cwd,
		.input = buf_str(&x->input),
		.input_len = x->input.len,
		.line_max = DELEGATE_LINE_MAX,
		.secrets = &x->secrets,
	};
	const struct agent_child_callbacks cb = {.on_line = on_line, .on_end = delegate_ended, .arg = x};
	r = agent_child_start(&o, &cb, &x->child, e);
	if (r < 0)
		return r;
	x->starts++;
	if (!x->announced)
		emit_started(x, program);
	x->announced = true;
	return 0;
}

void delegate_launch(struct node_exec *x)
{
	x->err = ERR_INIT;
	/* What it is started again for costs more. */
	if (x->starts > 0 && !x->cancelled)
		delegate_tell_usage(x, true);
	if (x->cancelled)
		delegate_finish(x);
	else if (start_child(x, &x->err) < 0)
		delegate_fail(x);
}

static void on_entered(void *arg, const struct err *e)
{
	struct node_exec *x = arg;

	uv_timer_stop(&x->timer);
	if (e && !x->cancelled) {
		err_copy(&x->err, e);
		delegate_fail(x);
	} else {
		delegate_launch(x);
	}
}

static void begin(uv_timer_t *t)
{
	struct node_exec *x = t->data;
	bool wait = false;

	if (!x->cancelled)
		warn_of_ignored(x);
	if (x->cancelled)
		delegate_finish(x);
	else if (room_enter(&x->room, on_entered, x, &wait, &x->err) < 0)
		delegate_fail(x);
	else if (!wait)
		delegate_launch(x);
}

static int check_session(const struct node_exec *x, struct err *e)
{
	const char *id = x->task.agent->session_id;

	if (!id || turn_is_session(id))
		return 0;
	(void)err_set(e, ERR_NODE, EINVAL, "node %s: its input's _session_id is no name of a conversation",
		      x->task.node_id);
	err_hint(e, "pass on the _session_id of an earlier agent's output as it is");
	return -EINVAL;
}

static char *first_words(const struct agent_task *a)
{
	if (a->user && a->user[strspn(a->user, " \t\r\n")])
		return xstrdup(a->user);
	auto_free char *input = json_object_size(a->input) ? json_compact(a->input) : NULL;
	return input ? xasprintf("Your input:\n```json\n%s\n```\n", input) : xstrdup("Do your task.");
}

/* By its name, below HOME, and where this machine has it: a sandbox may show it there and not on its PATH. */
static void plan_places(struct node_exec *x)
{
	const struct backend_program *p = x->ops->program;
	const char *home = strv_get_env(&x->env, "HOME");
	char *real = backend_program_path(p, x->task.host_env);

	strv_add(&x->places, p->name);
	if (home && p->below_home)
		strv_take(&x->places, path_join(home, p->below_home));
	if (real)
		strv_take(&x->places, real);
}

int delegate_start(const struct delegate_ops *ops, const struct node_task *t, const struct node_callbacks *cb,
		   struct node_exec **ret, struct err *e)
{
	const struct agent_task *a = t->agent;
	struct node_exec *x = xcalloc(1, sizeof *x);

	*x = (struct node_exec){.ops = ops, .task = *t, .cb = *cb, .cost_usd = -1, .started_ms = clock_ms()};
	x->sink = (struct agent_sink){.emit = emit, .arg = x};
	x->input = BUF_INIT(DELEGATE_INPUT_MAX);
	x->isolated = !str_eq(session_driver(t->session), "noop");
	x->schema = agent_schema(a);
	turn_init(&x->turn);
	room_init(&x->room, t->loop, t->session, t->env);
	for (const char *const *v = t->env; *v; v++)
		strv_add(&x->env, *v);
	x->say = first_words(a);
	x->fork = a->fork_session;
	x->why = !a->session_id ? "fresh" : x->fork ? "fork" : "inherit";
	turn_set(&x->resume, a->session_id);
	plan_places(x);
	int r = check_session(x, e);
	if (r == 0) {
		r = ops->prepare(x, e);
		if (r < 0)
			(void)err_wrap(e, r, "node %s", t->node_id);
	}
	if (r < 0) {
		delegate_free(x);
		return r;
	}
	const char *eq = strchr(x->room.mark, '=');
	auto_free char *name = xstrndup(x->room.mark, (size_t)(eq - x->room.mark));
	strv_set_env(&x->env, name, eq + 1);
	(void)uv_timer_init(t->loop, &x->timer);
	x->timer.data = x;
	(void)uv_timer_start(&x->timer, begin, 0, 0);
	*ret = x;
	return 0;
}

/* --- cancelling --- */

static void signal_all(struct node_exec *x, int sig)
{
	room_signal(&x->room, sig);
	if (x->child)
		agent_child_signal(x->child, sig);
}

static void on_kill(uv_timer_t *t)
{
	signal_all(t->data, SIGKILL);
}

static void on_soon(uv_timer_t *t)
{
	delegate_launch(t->data);
}

void delegate_cancel(struct node_exec *x, enum node_cancel how)
{
	bool first = !x->cancelled;
	bool runs = x->child || x->room.child;

	if (x->leaving) {
		/* What it comes to is decided; only its cleaning can be cut short. */
		if (how == NODE_CANCEL_KILL)
			room_signal(&x->room, SIGKILL);
		return;
	}
	x->cancelled = true;
	if (!runs) {
		/* It waits: for its beginning, for a retry, or for its very end. */
		if (uv_is_active((uv_handle_t *)&x->timer))
			(void)uv_timer_start(&x->timer, on_soon, 0, 0);
		return;
	}
	if (how == NODE_CANCEL_KILL) {
		signal_all(x, SIGKILL);
	} else if (first) {
		signal_all(x, SIGTERM);
		(void)uv_timer_start(&x->timer, on_kill, NODE_KILL_AFTER_MS, 0);
	}
}
