/* The runner's envelopes: each line is read, checked and given to who serves it.
 *
 * A line that is no envelope ends the node with a named error, since nothing after it can be trusted; an envelope of a
 * kind that is not known is passed over with a warning, so that runner and launcher of neighbouring releases still
 * understand each other. A result comes once: what follows is an error, unless this side asked for another one. */
#include "claw.h"

#include <http/http.h>

#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

void claw_fail(struct node_exec *x, const struct err *e)
{
	if (x->err.kind == ERR_NONE)
		x->err = *e;
	x->over = true;
	claw_serve_none(x);
	if (x->runner) {
		/* TERM first: without a sandbox only the runner itself can end all that its tools started. */
		runner_stop(x->runner);
		runner_signal(x->runner, SIGTERM);
		(void)uv_timer_start(&x->timer, claw_on_late, CLAW_END_MS, 0);
	}
}

static void bad_line(struct node_exec *x, const char *what)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_PROTOCOL, EPROTO, "node %s: claw's runner %s", x->task.node_id, what);
	err_hint(&e,
		 "iterion and iterion-guest must be of one release; an agent that disturbs its own runner is stopped "
		 "like this too");
	claw_fail(x, &e);
}

void claw_send(struct node_exec *x, const char *type, const char *id, json_t *data)
{
	json_t *o = json_object();
	struct err e = ERR_INIT;

	json_put_str(o, "type", type);
	json_put_str(o, "id", id);
	json_put(o, "data", data);
	int r = x->runner ? runner_send(x->runner, o) : 0;
	json_decref(o);
	if (r == -EMSGSIZE)
		(void)err_set(&e, ERR_NODE, E2BIG, "node %s: a message to claw's runner (%s) has more than %d bytes",
			      x->task.node_id, type, RUNNER_LINE_MAX);
	else if (r < 0)
		(void)err_set(&e, ERR_PROTOCOL, ENOBUFS, "node %s: claw's runner does not read what it asked for",
			      x->task.node_id);
	if (r < 0) {
		err_hint(&e, "pass large values by files in $ITERION_ARTIFACT_FILES_DIR");
		claw_fail(x, &e);
	}
}

/* --- requests under way --- */

static void forget(struct claw_serving *s)
{
	s->x->n_serving--;
	free(s->id);
	free(s->name);
	free(s);
}

void claw_served(struct claw_serving *s)
{
	struct claw_serving **p = &s->x->serving;

	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	forget(s);
}

void claw_serve_none(struct node_exec *x)
{
	struct claw_serving *s;

	while ((s = x->serving)) {
		x->serving = s->next;
		if (s->call)
			llm_call_cancel(s->call);
		if (s->op)
			mcp_cancel(s->op);
		if (s->fetch)
			fetch_cancel(s->fetch);
		forget(s);
	}
}

static void serve(struct node_exec *x, const char *id, const json_t *data,
		  void (*how)(struct claw_serving *s, const json_t *data))
{
	if (!id) {
		bad_line(x, "sent a request without an id");
		return;
	}
	if (x->n_serving == CLAW_SERVING_MAX) {
		bad_line(x, "has too many requests under way at once");
		return;
	}
	struct claw_serving *s = xcalloc(1, sizeof *s);
	*s = (struct claw_serving){.x = x, .id = xstrdup(id), .started_ms = clock_ms(), .next = x->serving};
	x->serving = s;
	x->n_serving++;
	how(s, data);
}

/* --- each kind of envelope --- */

static void on_llm_request(struct node_exec *x, const char *id, const json_t *data)
{
	serve(x, id, data, claw_ask_model);
}

/* What a call leads to may be an event (a host that is denied), so their number has an end too. */
static void on_tool_call(struct node_exec *x, const char *id, const json_t *data)
{
	if (x->n_called++ >= CLAW_SERVING_MAX * claw_max_steps(x)) {
		bad_line(x, "calls more tools than tool_max_steps allows");
		return;
	}
	serve(x, id, data, claw_call_tool);
}

/* A question to a person pauses the run, whether somebody sits there or not: the answer starts the runner anew with
 * the conversation. */
static void on_ask_user(struct node_exec *x, const char *id, const json_t *data)
{
	json_t *d = json_object();

	json_decref(x->question);
	x->question = json_deep_copy(data);
	json_put_bool(d, "pause", true);
	claw_send(x, "ask_user_answer", id, d);
}

static void on_capture(struct node_exec *x, const char *id, const json_t *data)
{
	struct err e = ERR_INIT;

	(void)id;
	if (claw_saved_take(x->saved, data, &e) < 0) {
		(void)err_wrap(&e, 0, "node %s: keep its conversation", x->task.node_id);
		claw_fail(x, &e);
	}
}

static void on_event(struct node_exec *x, const char *id, const json_t *data)
{
	(void)id;
	claw_on_event(x, data);
}

static void keep_result(struct node_exec *x, const json_t *data)
{
	json_decref(x->result);
	x->result = json_deep_copy(data);
	x->over = true;
	(void)uv_timer_start(&x->timer, claw_on_late, CLAW_END_MS, 0);
}

/* The one repair: the runner asks its model once more, with what is wrong. */
static void repair(struct node_exec *x, const char *id, const struct err *wrong)
{
	json_t *d = json_object();

	x->repaired = true;
	json_put_bool(d, "ok", false);
	json_put_str(d, "errors", wrong->msg);
	claw_send(x, "result_ack", id, d);
}

static void on_result(struct node_exec *x, const char *id, const json_t *data)
{
	struct err wrong = ERR_INIT;
	json_t *output = json_object_get(data, "output");
	bool failed = json_get_str(data, "error") || json_get_str(data, "pending_tool_use_id");

	if (id && !failed && json_is_object(output) && !x->repaired) {
		json_t *copy = json_deep_copy(output);
		int r = x->cb.check(x->cb.arg, copy, &wrong);
		json_decref(copy);
		if (r < 0) {
			repair(x, id, &wrong);
			return;
		}
	}
	keep_result(x, data);
	if (id) {
		json_t *d = json_object();
		json_put_bool(d, "ok", true);
		claw_send(x, "result_ack", id, d);
	}
}

static void unknown(struct node_exec *x, const char *type)
{
	json_t *d = json_object();

	json_put_str(d, "kind", "warning");
	json_put_str(d, "code", "unknown_envelope");
	json_put_str(d, "message", type);
	claw_on_event(x, d);
	json_decref(d);
}

static const struct {
	const char *type;
	void (*on)(struct node_exec *x, const char *id, const json_t *data);
} types[] = {
	{"llm_request", on_llm_request}, {"tool_call", on_tool_call}, {"ask_user", on_ask_user},
	{"session_capture", on_capture}, {"event", on_event},	      {"result", on_result},
};

static void dispatch(struct node_exec *x, const json_t *o)
{
	const char *type = json_get_str(o, "type");
	const json_t *data = json_object_get(o, "data");

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (!str_eq(types[i].type, type))
			continue;
		if (!json_is_object(data))
			bad_line(x, "sent an envelope without data");
		else
			types[i].on(x, json_get_str(o, "id"), data);
		return;
	}
	unknown(x, type);
}

void claw_on_line(void *arg, const char *line, size_t len)
{
	struct node_exec *x = arg;
	struct err e = ERR_INIT;

	if (x->err.kind != ERR_NONE)
		return;
	if (!x->greeted) {
		x->greeted = true;
		x->runner_ns = clock_ns() - x->runner_ns;
	}
	json_t *o = json_parse(line, len, &e);
	const char *type = json_get_str(o, "type");
	if (!json_is_object(o) || !type)
		bad_line(x, "sent a line that is no envelope");
	else if (x->over && str_eq(type, "result"))
		bad_line(x, "sent a second result");
	else if (!x->over || str_eq(type, "event"))
		dispatch(x, o);
	json_decref(o);
}
