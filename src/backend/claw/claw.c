/* The backend claw: iterion's own agent (docs/backends.md, docs/internals/claw-protocol.md).
 *
 * The loop of the agent and its tools are a program, the runner, that stands where the node runs: in its sandbox, or on
 * the host when there is none. It is the guest, which every sandbox has. Everything that needs the network or a key is
 * done on this side: the models are asked from here, pages and MCP tools are fetched from here, under the run's rules,
 * so that a sandbox needs neither network nor keys. The two speak in lines of JSON (serve.c).
 *
 * A node goes so: the tools of its MCP servers are asked for, the runner is started, it is told its task (and what an
 * earlier runner of this very work left, if there was one), its requests are served until it gives a result, which is
 * checked here and may be sent back once. A runner that a signal ends is started once more with the steps that it
 * finished. The node answers when the runner is gone. */
#include "claw.h"

#include "agent/schema.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/agent.h>
#include <driver/session.h>
#include <dsl/ast.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum { STARTS_MAX = 2 };

static void on_timer_closed(uv_handle_t *h)
{
	struct node_exec *x = h->data;

	llm_target_done(&x->target);
	json_decref(x->schema);
	json_decref(x->tools);
	json_decref(x->result);
	json_decref(x->question);
	json_decref(x->output);
	free(x->guest);
	free(x);
}

/* Whether resume may have more luck: what failed is not the task itself. */
static bool is_resumable(const struct node_exec *x, const struct runner_end *end)
{
	return x->provider_failed || end->status.end == EXEC_LOST || end->status.end == EXEC_SIGNALED;
}

static void answer(struct node_exec *x, const struct runner_end *end)
{
	struct err e = ERR_INIT;
	int r = claw_outcome(x, end, &e);
	bool resumable = r < 0 && (is_resumable(x, end) || x->cancelled);
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

	claw_serve_none(x);
	bool done = r == 0 && !x->asks;
	claw_saved_close(x->saved, done ? json_get_str(x->result, "session_id") : NULL, !resumable && !x->asks);
	x->cb.on_done(x->cb.arg, &result, r < 0 ? &e : NULL);
	uv_close((uv_handle_t *)&x->timer, on_timer_closed);
}

static bool try_runner(struct node_exec *x);

/* A killed runner (memory was out, somebody's kill) has lost nothing but its unfinished step. */
static bool may_start_again(const struct node_exec *x, const struct runner_end *end)
{
	return !x->cancelled && !x->err.kind && !x->result && x->n_starts < STARTS_MAX &&
	       end->status.end == EXEC_SIGNALED;
}

static void emit_restarted(struct node_exec *x, const struct runner_end *end)
{
	json_t *d = json_object();

	json_put_int(d, "signal", end->status.code);
	json_put_int(d, "step", json_integer_value(json_object_get(claw_saved_replay(x->saved), "step")));
	claw_emit(x, "claw_runner_restarted", d);
}

static void on_end(void *arg, const struct runner_end *end)
{
	struct node_exec *x = arg;

	x->runner = NULL;
	(void)uv_timer_stop(&x->timer);
	if (!may_start_again(x, end)) {
		answer(x, end);
		return;
	}
	claw_serve_none(x);
	emit_restarted(x, end);
	x->greeted = false;
	x->repaired = false;
	if (!try_runner(x))
		answer(x, end);
}

static void on_too_long(void *arg)
{
	const struct node_exec *x = arg;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_PROTOCOL, EMSGSIZE, "node %s: claw's runner sent a line of more than %d bytes",
		      x->task.node_id, RUNNER_LINE_MAX);
	err_hint(&e, "pass large values by files in $ITERION_ARTIFACT_FILES_DIR");
	claw_fail(arg, &e);
}

void claw_on_late(uv_timer_t *timer)
{
	const struct node_exec *x = timer->data;

	if (x->runner)
		runner_signal(x->runner, SIGKILL);
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

/* The runner of before asked a person, and goes on with what the person said. */
static void put_answer(json_t *task, const json_t *replay, const char *answer)
{
	json_put_str(task, "session_id", json_get_str(replay, "session_id"));
	(void)json_object_del(task, "fork_session");
	json_put(task, "resume_conversation", json_deep_copy(json_object_get(replay, "conversation")));
	json_put_str(task, "resume_pending_tool_use_id", json_get_str(replay, "pending_tool_use_id"));
	json_put_str(task, "resume_answer", answer ? answer : "(There is no answer.)");
}

/* What is told first: what was there before, then the task. */
static int tell(struct node_exec *x, struct err *e)
{
	const json_t *replay = claw_saved_replay(x->saved);
	const struct agent_task *a = x->task.agent;
	json_t *task = claw_task(x);
	json_t *earlier = NULL;

	if (!replay && a->session_id) {
		earlier = claw_saved_load(x, a->session_optional ? NULL : e);
		if (!earlier && !a->session_optional) {
			json_decref(task);
			return -ENOENT;
		}
	}
	if (earlier)
		json_put(task, "resume_conversation", earlier);
	else if (!replay)
		(void)json_object_del(task, "session_id");
	if (replay && json_get_str(replay, "pending_tool_use_id"))
		put_answer(task, replay, a->answer);
	else if (replay)
		claw_send(x, "session_replay", NULL, json_deep_copy(replay));
	claw_send(x, "task", NULL, task);
	return 0;
}

static int start_runner(struct node_exec *x, struct err *e)
{
	const char *const argv[] = {x->guest, "__claw-runner", NULL};
	const struct runner_callbacks cb = {
		.on_line = claw_on_line, .on_too_long = on_too_long, .on_end = on_end, .arg = x};

	x->n_starts++;
	x->runner_ns = clock_ns();
	int r = runner_start(x->task.loop, x->task.session, argv, x->task.env, x->task.cwd, &cb, &x->runner, e);
	if (r < 0)
		return err_wrap(e, r, "node %s: start claw's runner", x->task.node_id);
	struct err failed = ERR_INIT;
	if (tell(x, &failed) < 0)
		claw_fail(x, &failed);
	return 0;
}

/* Whether it was started; else x->err says why not. */
static bool try_runner(struct node_exec *x)
{
	struct err e = ERR_INIT;

	if (start_runner(x, &e) == 0)
		return true;
	x->err = e;
	return false;
}

/* From the loop: the node ends without a runner. */
static void end_early(struct node_exec *x)
{
	const struct runner_end none = {.status = {.end = EXEC_EXITED}, .stderr_text = ""};

	answer(x, &none);
}

static void begin(struct node_exec *x, json_t *mcp_tools)
{
	x->tools = claw_host_tools(x, mcp_tools);
	emit_routed(x);
	if (!try_runner(x))
		end_early(x);
}

static void on_tools(void *arg, json_t *tools, const struct err *e)
{
	struct node_exec *x = arg;

	x->listing = NULL;
	if (!e) {
		begin(x, tools);
		return;
	}
	x->err = *e;
	(void)err_wrap(&x->err, 0, "node %s", x->task.node_id);
	end_early(x);
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
	r = mcp_list(&x->task, on_tools, x, &x->listing, e);
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
	end_early(timer->data);
}

static void cancel(struct node_exec *x, enum node_cancel how)
{
	bool first = !x->cancelled;

	x->cancelled = true;
	claw_serve_none(x);
	if (x->listing) {
		mcp_cancel(TAKE_PTR(x->listing));
		(void)uv_timer_start(&x->timer, on_unstarted, 0, 0);
		return;
	}
	if (!x->runner)
		return;
	runner_stop(x->runner);
	if (how == NODE_CANCEL_KILL) {
		runner_signal(x->runner, SIGKILL);
	} else if (first) {
		runner_signal(x->runner, SIGTERM);
		(void)uv_timer_start(&x->timer, claw_on_late, NODE_KILL_AFTER_MS, 0);
	}
}

const struct backend_ops backend_claw = {.name = "claw", .start = start, .cancel = cancel};
