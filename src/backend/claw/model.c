/* Questions to the model. The runner says what it wants to know; to whom the question goes, with what key and what it
 * may cost is decided here: the model is the node's, whatever the runner names, and so is the bound of tokens. The
 * texts go on to the runner as they come; the whole message follows at the end. */
#include "claw.h"

#include <http/http.h>
#include "run.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/ast.h>

#include <errno.h>

enum { MORE_QUESTIONS = 8 };

static json_t *usage_json(const struct agent_usage *u)
{
	json_t *o = json_object();

	json_put_int(o, "input_tokens", u->input);
	json_put_int(o, "output_tokens", u->output);
	json_put_int(o, "cache_read_input_tokens", u->cache_read);
	json_put_int(o, "cache_creation_input_tokens", u->cache_write);
	return o;
}

static void send_chunk(const struct claw_serving *s, json_t *data)
{
	claw_send(s->x, "llm_chunk", s->id, data);
}

static void on_text(void *arg, bool thinking, const char *text, size_t len)
{
	const struct claw_serving *s = arg;
	json_t *d = json_object();

	json_put_str(d, "kind", thinking ? "thinking" : "text");
	json_put(d, "text", json_text(text, len));
	send_chunk(s, d);
}

static void on_retry(void *arg, unsigned attempt, int status, int64_t delay_ms, const struct err *why)
{
	const struct claw_serving *s = arg;
	json_t *d = json_object();

	json_put_int(d, "attempt", attempt);
	json_put_int(d, "status", status);
	json_put_int(d, "delay_ms", delay_ms);
	json_put_str(d, "error", why->msg);
	claw_emit(s->x, "llm_retry", d);
}

static void tell_usage(struct node_exec *x, bool goes_on)
{
	if (x->cb.on_usage)
		x->cb.on_usage(x->cb.arg, usage_total(&x->usage), x->cost_usd, goes_on);
}

static void count(struct node_exec *x, const struct agent_usage *u)
{
	double cost = price_usd(x->target.model, u);

	usage_add(&x->usage, u);
	/* A part that has no price makes the sum unknown. */
	x->cost_usd = cost < 0 || x->cost_usd < 0 ? -1 : x->cost_usd + cost;
	x->steps++;
	tell_usage(x, false);
}

static void emit_step(const struct claw_serving *s, const struct llm_answer *a)
{
	json_t *d = json_object();
	double cost = price_usd(s->x->target.model, &a->usage);

	json_put_int(d, "step", s->x->steps);
	json_put_int(d, "input_tokens", a->usage.input);
	json_put_int(d, "output_tokens", a->usage.output);
	json_put_int(d, "cache_read_tokens", a->usage.cache_read);
	json_put_int(d, "cache_write_tokens", a->usage.cache_write);
	json_put_str(d, "model", s->x->target.model);
	json_put_str(d, "purpose", s->name);
	json_put_str(d, "stop_reason", a->stop_reason);
	json_put_int(d, "duration_ms", (long long)(clock_ms() - s->started_ms));
	if (cost >= 0)
		json_put(d, "cost_usd", json_real(cost));
	claw_emit(s->x, "llm_step_finished", d);
}

static json_t *done_chunk(const struct llm_answer *a)
{
	json_t *d = json_object();

	json_put_str(d, "kind", "done");
	json_put(d, "message", json_incref(a->message));
	json_put_str(d, "stop_reason", a->stop_reason);
	json_put(d, "usage", usage_json(&a->usage));
	return d;
}

static json_t *error_chunk(const struct err *e, int status)
{
	json_t *d = json_object();

	json_put_str(d, "kind", "error");
	json_put_str(d, "message", e->msg);
	if (status)
		json_put_int(d, "status", status);
	return d;
}

/* The failure is the node's, in our own words, whatever the runner makes of it. */
static void failed(struct claw_serving *s, const struct err *e, int status)
{
	struct node_exec *x = s->x;

	x->provider_failed = true;
	x->provider_err = *e;
	send_chunk(s, error_chunk(e, status));
}

static void on_done(void *arg, const struct llm_answer *a, int status, const struct err *e)
{
	struct claw_serving *s = arg;

	s->call = NULL;
	if (a) {
		/* Whatever failed before was got over. */
		s->x->provider_failed = false;
		count(s->x, &a->usage);
		emit_step(s, a);
		send_chunk(s, done_chunk(a));
	} else {
		failed(s, e, status);
	}
	/* A message that could not be sent has ended every request, this one too. */
	if (s->x->serving && !s->x->err.kind)
		claw_served(s);
}

static const char *purpose_of(const json_t *data)
{
	static const char *const known[] = {"step", "format", "compact"};
	const char *word = json_get_str(data, "purpose");

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq(known[i], word))
			return known[i];
	return "step";
}

static void emit_request(const struct claw_serving *s, const json_t *messages)
{
	json_t *d = json_object();

	json_put_str(d, "model", s->x->target.model);
	json_put_str(d, "provider", s->x->target.provider);
	json_put_str(d, "purpose", s->name);
	json_put_int(d, "messages", (long long)json_array_size(messages));
	claw_emit(s->x, "llm_request", d);
}

/* A runner that keeps to its steps asks once for each, at most once more before each to shorten the conversation, and
 * a few times for the answer's form. One that asks more is not ours any more. */
static bool asks_too_often(struct node_exec *x)
{
	struct err e = ERR_INIT;

	if (++x->n_asked <= 2 * claw_max_steps(x) + MORE_QUESTIONS)
		return false;
	(void)err_set(&e, ERR_PROTOCOL, EPROTO,
		      "node %s: claw's runner asks its model more often than %lld steps allow", x->task.node_id,
		      claw_max_steps(x));
	err_hint(&e, "an agent that disturbs its own runner is stopped like this; tool_max_steps sets the bound");
	claw_fail(x, &e);
	return true;
}

void claw_ask_model(struct claw_serving *s, const json_t *data)
{
	struct node_exec *x = s->x;
	const struct dsl_node *n = x->task.agent->node;
	struct err e = ERR_INIT;
	const struct llm_call_callbacks cb = {.on_text = on_text, .on_retry = on_retry, .on_done = on_done, .arg = s};
	long long wanted = json_integer_value(json_object_get(data, "max_tokens"));

	tell_usage(x, true);
	/* s is gone then. */
	if (x->cancelled || asks_too_often(x))
		return;
	s->name = xstrdup(purpose_of(data));
	long long most = n->max_tokens.set ? n->max_tokens.v : str_eq(s->name, "compact") ? wanted : 0;
	const struct llm_ask ask = {
		.model = x->target.model,
		.system = json_get_str(data, "system"),
		.messages = json_object_get(data, "messages"),
		.tools = json_object_get(data, "tools"),
		.tool_choice = json_object_get(data, "tool_choice"),
		.max_tokens = MAX(most, 0LL),
		.effort = n->reasoning_effort.s,
		.official = x->target.official,
	};
	emit_request(s, ask.messages);
	if (llm_call_start(x->task.loop, backend_run_http(x->task.shared), &x->target, &ask, &cb, &s->call, &e) < 0) {
		failed(s, &e, 0);
		if (!x->err.kind)
			claw_served(s);
	}
}
