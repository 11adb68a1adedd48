/* A node's runner: its start, what it is told first, and its end.
 *
 * The runner ends its own tools with itself, unless it is killed; then whatever it started and put into a session of
 * its own is still there, at work in the same workspace. So the end of a runner that was killed is only the end when
 * everything that has its mark is gone (agent/room.h), before a second one starts and before the node answers. */
#include "claw.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/session.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { STARTS_MAX = 2, SHOWN_ID = 64 };

/* A killed runner (memory was out, somebody's kill) has lost nothing but its unfinished step. */
static bool may_start_again(const struct node_exec *x)
{
	return !x->cancelled && !x->err.kind && !x->result && x->n_starts < STARTS_MAX &&
	       x->end.status.end == EXEC_SIGNALED;
}

static void emit_restarted(struct node_exec *x)
{
	json_t *d = json_object();

	json_put_int(d, "signal", x->end.status.code);
	json_put_int(d, "step", json_integer_value(json_object_get(claw_saved_replay(x->saved), "step")));
	claw_emit(x, "claw_runner_restarted", d);
}

/* An earlier life of this run left the conversation. */
static void emit_resumed(struct node_exec *x, const json_t *replay)
{
	const char *id = json_get_str(replay, "session_id");
	json_t *d = json_object();

	if (id)
		json_put(d, "session_id", json_text(id, strnlen(id, SHOWN_ID)));
	json_put_int(d, "step", json_integer_value(json_object_get(replay, "step")));
	claw_emit(x, "claw_resumed", d);
}

/* Nothing of the runner is left. */
static void on_gone(void *arg, const struct err *e)
{
	struct node_exec *x = arg;

	(void)e;
	x->sweeping = false;
	room_free(&x->room);
	x->room = (struct agent_room){0};
	if (!may_start_again(x)) {
		claw_answer(x);
		return;
	}
	emit_restarted(x);
	x->greeted = false;
	x->repaired = false;
	if (!claw_start_runner(x))
		claw_answer(x);
}

static void keep_end(struct node_exec *x, const struct runner_end *end)
{
	free(x->end_words);
	x->end_words = xstrdup(end->stderr_text);
	x->end = (struct runner_end){.status = end->status, .torn = end->torn, .stderr_text = x->end_words};
}

static void on_end(void *arg, const struct runner_end *end)
{
	struct node_exec *x = arg;

	x->runner = NULL;
	(void)uv_timer_stop(&x->timer);
	keep_end(x, end);
	claw_serve_none(x);
	x->sweeping = end->status.end == EXEC_SIGNALED && room_leave(&x->room, true, on_gone, x);
	if (!x->sweeping)
		on_gone(x, NULL);
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
	if (replay && json_get_str(replay, "pending_tool_use_id")) {
		put_answer(task, replay, a->answer);
	} else if (replay) {
		if (x->n_starts == 1)
			emit_resumed(x, replay);
		claw_send(x, "session_replay", NULL, json_deep_copy(replay));
	}
	claw_send(x, "task", NULL, task);
	return 0;
}

/* The runner's environment is the node's, with the mark. */
static int exec_runner(struct node_exec *x, struct err *e)
{
	const char *const argv[] = {x->guest, "__claw-runner", NULL};
	const struct runner_callbacks cb = {
		.on_line = claw_on_line, .on_too_long = on_too_long, .on_end = on_end, .arg = x};
	auto_strv env = {0};

	for (const char *const *v = x->task.env; v && *v; v++)
		strv_add(&env, *v);
	strv_add(&env, x->room.mark);
	return runner_start(x->task.loop, x->task.session, argv, (const char *const *)env.v, x->task.cwd, &cb,
			    &x->runner, e);
}

bool claw_start_runner(struct node_exec *x)
{
	struct err e = ERR_INIT, failed = ERR_INIT;

	x->n_starts++;
	x->runner_ns = clock_ns();
	room_init(&x->room, x->task.loop, x->task.session, x->task.env);
	int r = exec_runner(x, &e);
	if (r < 0) {
		x->err = e;
		(void)err_wrap(&x->err, r, "node %s: start claw's runner", x->task.node_id);
		return false;
	}
	if (tell(x, &failed) < 0)
		claw_fail(x, &failed);
	return true;
}
