/* The backend claw: iterion's own agent (docs/claw.md, docs/internals/claw-protocol.md).
 *
 * The loop of the agent and its tools are a program, the runner, that stands where the node runs: in its sandbox, or on
 * the host when there is none. It is the guest, which every sandbox has. Everything that needs the network or a key is
 * done on this side: the models are asked from here, pages and MCP tools are fetched from here, under the run's rules,
 * so that a sandbox needs neither network nor keys. The two speak in lines of JSON (serve.c).
 *
 * A node goes so: the tools of its MCP servers are asked for, the runner is started (launch.c), it is told its task
 * (and what an earlier runner of this very work left, if there was one), its requests are served until it gives a
 * result, which is checked here and may be sent back once. A runner that a signal ends is started once more with the
 * steps that it finished. The node answers when the runner is gone. */
#include "claw.h"

#include "agent/schema.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/agent.h>
#include <driver/session.h>
#include <dsl/ast.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

static void on_timer_closed(uv_handle_t *h)
{
	struct node_exec *x = h->data;

	llm_target_done(&x->target);
	json_decref(x->schema);
	json_decref(x->tools);
	json_decref(x->result);
	json_decref(x->question);
	json_decref(x->output);
	room_free(&x->room);
	free(x->end_words);
	free(x->guest);
	free(x);
}

/* Whether resume may have more luck: what failed is not the task itself. */
static bool is_resumable(const struct node_exec *x)
{
	return x->provider_failed || x->cancelled || x->end.status.end == EXEC_LOST ||
	       x->end.status.end == EXEC_SIGNALED;
}

void claw_answer(struct node_exec *x)
{
	struct err e = ERR_INIT;
	int r = claw_outcome(x, &x->end, &e);
	bool resumable = r < 0 && is_resumable(x), done = r == 0 && !x->asks;
	auto_json details = claw_details(x);
	const struct node_result result = {
		.output = r == 0 ? x->output : NULL,
		.question = x->asks ? x->question : NULL,
		.details = details,
		.resumable = resumable,
		.cancelled = x->cancelled,
		.tokens = usage_total(&x->usage),
		.cost_usd = x->steps ? x->cost_usd : -1,
	};

	claw_saved_close(x->saved, done ? claw_session_id(x) : NULL, !resumable && !x->asks);
	x->cb.on_done(x->cb.arg, &result, r < 0 ? &e : NULL);
	uv_close((uv_handle_t *)&x->timer, on_timer_closed);
}

static void emit_routed(struct node_exec *x)
{
	json_t *d = json_object();

	if (str_eq(session_driver(x->task.session), "noop")) {
		json_decref(d);
		return;
	}
	json_put_str(d, "reason", "its tools run inside the sandbox, its models are asked from outside");
	json_put_str(d, "binary", x->guest);
	claw_emit(x, "sandbox_claw_routed_via_runner", d);
}

/* What the node says and means nothing here must not be left out silently. */
static void warn_of_ignored(struct node_exec *x)
{
	if (!x->task.agent->node->memory.enabled.v)
		return;
	json_t *d = json_object();
	auto_free char *text =
		xasprintf("node %s: the backend claw does not know memory, and works without", x->task.node_id);
	json_put_str(d, "code", "ignored_properties");
	json_put_str(d, "message", text);
	claw_emit(x, "delegate_warning", d);
}

static void on_tools(void *arg, json_t *tools, const struct err *e)
{
	struct node_exec *x = arg;

	x->listing = NULL;
	if (e) {
		x->err = *e;
		(void)err_wrap(&x->err, 0, "node %s", x->task.node_id);
		claw_answer(x);
		return;
	}
	x->tools = claw_host_tools(x, tools);
	warn_of_ignored(x);
	emit_routed(x);
	if (!claw_start_runner(x))
		claw_answer(x);
}

static void on_toolless(uv_timer_t *timer)
{
	on_tools(timer->data, NULL, NULL);
}

/* on_tools is called from the loop either way. */
static int list_tools(struct node_exec *x, struct err *e)
{
	if (claw_has_tools(x))
		return mcp_list(&x->task, on_tools, x, &x->listing, e);
	(void)uv_timer_start(&x->timer, on_toolless, 0, 0);
	return 0;
}

static int prepare(struct node_exec *x, struct err *e)
{
	const struct agent_task *a = x->task.agent;
	int r = llm_target_find(a->model, a->node->provider.s, x->task.host_env, &x->target, e);

	if (r == 0)
		r = session_guest(x->task.session, &x->guest, e);
	if (r < 0)
		return err_wrap(e, r, "node %s", x->task.node_id);
	x->schema = agent_schema(a);
	x->saved = claw_saved_open(x);
	r = list_tools(x, e);
	if (r < 0) {
		claw_saved_close(x->saved, NULL, false);
		return err_wrap(e, r, "node %s", x->task.node_id);
	}
	return 0;
}

static int start(const struct node_task *t, const struct node_callbacks *cb, struct node_exec **ret, struct err *e)
{
	struct node_exec *x = xcalloc(1, sizeof *x);

	x->task = *t;
	x->cb = *cb;
	x->end = (struct runner_end){.status = {.end = EXEC_EXITED}, .stderr_text = ""};
	(void)uv_timer_init(t->loop, &x->timer);
	x->timer.data = x;
	int r = prepare(x, e);
	if (r < 0) {
		uv_close((uv_handle_t *)&x->timer, on_timer_closed);
		return r;
	}
	*ret = x;
	return 0;
}

static void on_unstarted(uv_timer_t *timer)
{
	claw_answer(timer->data);
}

static void cancel(struct node_exec *x, enum node_cancel how)
{
	bool first = !x->cancelled;

	x->cancelled = true;
	claw_serve_none(x);
	if (!x->n_starts) {
		if (x->listing)
			mcp_cancel(TAKE_PTR(x->listing));
		(void)uv_timer_start(&x->timer, on_unstarted, 0, 0);
	} else if (x->sweeping && how == NODE_CANCEL_KILL) {
		room_signal(&x->room, SIGKILL);
	} else if (x->runner && how == NODE_CANCEL_KILL) {
		runner_stop(x->runner);
		runner_signal(x->runner, SIGKILL);
	} else if (x->runner && first) {
		runner_stop(x->runner);
		runner_signal(x->runner, SIGTERM);
		(void)uv_timer_start(&x->timer, claw_on_late, NODE_KILL_AFTER_MS, 0);
	}
}

static int check(const struct dsl_node *n, const char *model, const char *const *host_env, struct err *e)
{
	struct llm_target t = {0};
	int r = llm_target_find(model, n->provider.s, host_env, &t, e);

	if (r == 0)
		llm_target_done(&t);
	return r;
}

const struct backend_ops backend_claw = {
	.name = "claw", .start = start, .cancel = cancel, .check = check, .asks = true};
