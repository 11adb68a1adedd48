/* What a start of an agent's program comes to, and the end of the node.
 *
 * A start ends well when the program's exit code is 0 and it said that the turn ended well; then the answer is looked
 * for and shown to the engine, which may refuse it once. Else the program's own words are the error, unless they mean
 * that the provider refuses at the moment. The node is over when its leftovers and its files are gone. */
#include "delegate_priv.h"

#include "answer.h"
#include "child.h"
#include "retry.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/id.h>
#include <base/json.h>
#include <base/mem.h>
#include <driver/limits.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_MAX = 400 };

static json_t *details(const struct node_exec *x)
{
	json_t *d = json_object();

	json_put_str(d, "backend", x->ops->backend);
	json_put_str(d, "model", x->turn.model);
	json_put_str(d, "_session_id", x->turn.session);
	if (x->schema && x->output) {
		json_put_bool(d, "parse_fallback", x->fallback);
		json_put_bool(d, "formatting_pass_used", x->repaired);
	}
	if (x->ops->add_details)
		x->ops->add_details(x, d);
	return d;
}

void delegate_free(struct node_exec *x)
{
	turn_done(&x->turn);
	room_free(&x->room);
	for (size_t i = 0; i < ROOM_FILES_MAX; i++)
		free(x->files[i]);
	strv_done(&x->secrets);
	strv_done(&x->env);
	strv_done(&x->argv);
	strv_done(&x->mcp_tools);
	strv_done(&x->places);
	buf_done(&x->input);
	free(x->permission_mode);
	free(x->file_text);
	free(x->say);
	free(x->resume);
	json_decref(x->schema);
	json_decref(x->output);
	free(x);
}

static void on_timer_closed(uv_handle_t *h)
{
	struct node_exec *x = h->data;
	json_t *d = details(x);
	const struct node_result r = {
		.output = x->output,
		.details = d,
		.resumable = x->resumable,
		.cancelled = x->cancelled,
		.tokens = x->starts > 0 ? usage_total(&x->usage) : -1,
		.cost_usd = x->cost_usd,
	};

	x->cb.on_done(x->cb.arg, &r, x->output ? NULL : &x->err);
	json_decref(d);
	delegate_free(x);
}

static void on_left(void *arg, const struct err *e)
{
	struct node_exec *x = arg;

	(void)e;
	uv_close((uv_handle_t *)&x->timer, on_timer_closed);
}

static void on_long_leaving(uv_timer_t *t)
{
	struct node_exec *x = t->data;

	room_signal(&x->room, SIGKILL);
}

static void emit_end(const struct node_exec *x)
{
	json_t *d = json_object();

	json_put_str(d, "backend", x->ops->backend);
	json_put_str(d, "session_id", x->turn.session);
	json_put_int(d, "duration_ms", (long long)(clock_ms() - x->started_ms));
	json_put_int(d, "steps", x->steps);
	json_put_int(d, "input_tokens", x->usage.input);
	json_put_int(d, "output_tokens", x->usage.output);
	json_put_int(d, "cache_read_tokens", x->usage.cache_read);
	json_put_int(d, "cache_write_tokens", x->usage.cache_write);
	if (x->cost_usd >= 0)
		json_put(d, "cost_usd", json_real(x->cost_usd));
	if (x->turn.denied > 0)
		json_put_int(d, "permission_denials", x->turn.denied);
	if (!x->output) {
		json_put_str(d, "error", x->err.msg);
		if (x->turn.status)
			json_put_int(d, "status", x->turn.status);
	}
	x->cb.on_event(x->cb.arg, x->output ? "delegate_finished" : "delegate_error", d);
}

/* The output or the error stands: what is left to do is cleaning. */
void delegate_finish(struct node_exec *x)
{
	uv_timer_stop(&x->timer);
	x->leaving = true;
	if (x->cancelled) {
		json_decref(TAKE_PTR(x->output));
		(void)err_set(&x->err, ERR_CANCELLED, ECANCELED, "node %s: cancelled", x->task.node_id);
	}
	if (x->starts > 0)
		emit_end(x);
	if (room_leave(&x->room, x->starts > 0 && !x->output, on_left, x))
		(void)uv_timer_start(&x->timer, on_long_leaving, NODE_KILL_AFTER_MS, 0);
	else
		on_left(x, NULL);
}

void delegate_fail(struct node_exec *x)
{
	(void)err_wrap(&x->err, -EPROTO, "node %s", x->task.node_id);
	delegate_finish(x);
}

/* --- what a start comes to --- */

static void on_wait(uv_timer_t *t)
{
	delegate_launch(t->data);
}

static void next_start(struct node_exec *x, const char *why, char *say)
{
	x->why = why;
	free(x->say);
	x->say = say;
}

/* The provider refuses at the moment: whether another start was planned. */
static bool plan_retry(struct node_exec *x)
{
	uint32_t random;

	random_bytes(&random, sizeof random);
	int64_t delay = x->turn.retryable ? retry_delay_ms(++x->attempt, x->turn.status, -1, random) : -1;
	if (delay < 0)
		return false;
	/* What was done is in the conversation; asking again from the start would do it twice. */
	if (x->turn.session && x->turn.steps > 0) {
		turn_set(&x->resume, x->turn.session);
		x->fork = false;
		next_start(
			x, "retry",
			xstrdup("The connection to the model was interrupted. Go on with your task where you were."));
	} else {
		x->why = "retry";
	}
	json_t *d = json_object();
	json_put_str(d, "backend", x->ops->backend);
	json_put_int(d, "attempt", x->attempt);
	json_put_int(d, "delay_ms", delay);
	json_put_str(d, "by", "iterion");
	if (x->turn.status)
		json_put_int(d, "status", x->turn.status);
	json_put_str(d, "error", x->turn.error);
	x->cb.on_event(x->cb.arg, "delegate_retry", d);
	(void)uv_timer_start(&x->timer, on_wait, (uint64_t)delay, 0);
	return true;
}

/* Of what it said on its standard error the end tells why it failed. */
static const char *last_words(const char *text)
{
	size_t len = strlen(text);

	return len > WHY_MAX ? text + len - WHY_MAX : text;
}

static void set_failure(struct node_exec *x, const struct agent_child_end *end)
{
	const char *why = x->turn.error ? x->turn.error : last_words(end->stderr_text);
	bool refused = x->turn.status == 401 || x->turn.status == 403;
	auto_buf shown = BUF_INIT(4 * WHY_MAX + 4);

	(void)text_neutralise(&shown, why, strnlen(why, WHY_MAX));
	if (end->status.end == EXEC_SIGNALED)
		(void)err_set(&x->err, ERR_NODE, EPROTO, "%s ended by signal %d: %s", x->ops->words, end->status.code,
			      shown.len ? buf_str(&shown) : "it did not say why");
	else
		(void)err_set(&x->err, ERR_NODE, EPROTO, "%s ended with exit code %d: %s", x->ops->words,
			      end->status.code, shown.len ? buf_str(&shown) : "it did not say why");
	limits_explain(&end->status, &x->err);
	if (x->turn.at_limit)
		err_hint(&x->err, "raise tool_max_steps of the node, or give it a smaller task");
	else if (refused)
		err_hint(&x->err, "%s", x->ops->auth_hint);
	else if (x->turn.lost_session)
		err_hint(&x->err, "a conversation lives as long as the HOME of its sandbox: use `host_state: auto`, or "
				  "`session: inherit_if_available`");
	else if (x->turn.status == 429 || x->turn.status >= 500)
		err_hint(&x->err, "the provider refuses at the moment: `iterion resume` runs the node again");
	else
		err_hint(&x->err, "run %s by hand in the same place to see more: `iterion sandbox exec`",
			 x->ops->program->name);
	x->resumable = x->turn.retryable;
}

/* The answer as an object, or NULL. */
static json_t *answer_of(struct node_exec *x)
{
	const char *text = x->turn.text ? x->turn.text : "";

	if (!x->schema)
		return answer_text(text, strlen(text));
	if (json_is_object(x->turn.structured))
		return json_incref(x->turn.structured);
	x->fallback = true;
	return answer_last_json(text, strlen(text));
}

static char *repair_text(const char *wrong)
{
	return xasprintf("Your answer cannot be used: %s. Give the whole answer again in the required form, without "
			 "doing the task again.",
			 wrong);
}

static void succeeded(struct node_exec *x)
{
	struct err e = ERR_INIT;
	auto_json output = answer_of(x);

	if (!output)
		(void)err_set(&e, ERR_NODE, EINVAL, "it holds no JSON object");
	else if (!x->cb.check || x->cb.check(x->cb.arg, output, &e) == 0) {
		x->output = json_incref(output);
		delegate_finish(x);
		return;
	}
	if (!x->repaired && x->turn.session) {
		x->repaired = true;
		turn_set(&x->resume, x->turn.session);
		x->fork = false;
		next_start(x, "repair", repair_text(e.msg));
		delegate_launch(x);
		return;
	}
	err_copy(&x->err, &e);
	err_hint(&x->err, "change the schema, or say in the prompt what the fields are");
	(void)err_wrap(&x->err, -EINVAL, "%s's answer", x->ops->words);
	delegate_fail(x);
}

static void not_started(struct node_exec *x, int errnum)
{
	if ((errnum == ENOENT || errnum == ENOTDIR || errnum == EACCES) && x->place + 1 < x->places.n) {
		x->place++;
		delegate_launch(x);
		return;
	}
	(void)err_sys(&x->err, errnum == ENOTDIR ? ENOENT : errnum, "run %s", x->ops->program->name);
	err_set_kind(&x->err, ERR_NODE);
	if (errnum == E2BIG)
		err_hint(&x->err, "its arguments and environment are too long for the kernel: shorten the schema");
	else
		err_hint(&x->err, "%s", x->ops->get_hint);
	delegate_fail(x);
}

static void add_up(struct node_exec *x)
{
	double cost = turn_cost(&x->turn, x->task.agent->model);

	usage_add(&x->usage, turn_usage(&x->turn));
	x->steps += x->turn.steps;
	if (cost >= 0)
		x->cost_usd = MAX(x->cost_usd, 0) + cost;
	x->turn.usage = x->turn.told = (struct agent_usage){0};
	x->turn.cost_usd = -1;
}

/* Whether the conversation is gone and the node does without. */
static bool begin_anew(struct node_exec *x)
{
	if (!x->turn.lost_session || !x->resume || !x->task.agent->session_optional || x->turn.steps > 0)
		return false;
	free(TAKE_PTR(x->resume));
	x->why = "fresh";
	delegate_launch(x);
	return true;
}

void delegate_ended(void *arg, const struct agent_child_end *end)
{
	struct node_exec *x = arg;

	x->child = NULL;
	uv_timer_stop(&x->timer);
	if (end->status.end == EXEC_NOT_FOUND && !x->cancelled) {
		not_started(x, end->status.code);
		return;
	}
	x->announced = false;
	x->ops->on_end(x, end->stderr_text);
	add_up(x);
	x->err = ERR_INIT;
	if (x->cancelled) {
		delegate_finish(x);
	} else if (end->status.end == EXEC_LOST) {
		(void)err_set(&x->err, ERR_SANDBOX, ECONNRESET, "the sandbox ended while it ran");
		err_hint(&x->err, "`iterion resume` starts a new sandbox and runs this node again");
		x->resumable = true;
		delegate_fail(x);
	} else if (end->too_long || x->broken.kind) {
		if (end->too_long)
			(void)err_set(&x->err, ERR_PROTOCOL, EPROTO, "%s printed a line of more than %d bytes",
				      x->ops->words, DELEGATE_LINE_MAX);
		else
			err_copy(&x->err, &x->broken);
		err_hint(&x->err, "is the program on the PATH the real %s, in a version that knows this output?",
			 x->ops->program->name);
		delegate_fail(x);
	} else if (end->status.end == EXEC_EXITED && end->status.code == 0 && x->turn.ended && !x->turn.failed) {
		succeeded(x);
	} else if (!begin_anew(x) && !plan_retry(x)) {
		set_failure(x, end);
		delegate_fail(x);
	}
}
