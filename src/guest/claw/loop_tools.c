/* Carrying out the calls of one message.
 *
 * In their order, but calls that only read run at the same time: a call that may write waits for all before it, and all
 * behind it wait for it. It also waits until all that was said is written, so that the launcher knows of every call
 * that changed something before the next one does, and never has more than one of those behind it to read. What tools
 * of the launcher do is unknown, so they count as writing, WebFetch excepted. */
#include "loop_priv.h"

#include <base/clock.h>
#include <base/cleanup.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

/* About what an image of usual size costs. */
enum { IMAGE_TOKENS = 1600 };

static const struct tool *builtin_of(const struct loop *l, const char *name)
{
	return offer_is_host(&l->task, name) ? NULL : builtin_find(name);
}

static bool only_reads(const struct loop *l, const struct call *x)
{
	const struct tool *t = builtin_of(l, x->name);

	return t ? t->flags & TOOL_READS : strcmp(x->name, TOOL_FETCH) == 0;
}

/* What a call is about, in a few words. */
static char *preview_of(const struct call *x)
{
	static const char *const keys[] = {"command", "file_path", "pattern", "path", "url", "question", "description"};
	char *text = NULL;

	for (size_t i = 0; !text && i < ARRAY_LEN(keys); i++)
		text = jv_cstr(jv_get(x->input, keys[i]));
	if (text && strlen(text) > PREVIEW)
		text[PREVIEW - 3] = '\0';
	return text ? text : xstrdup("");
}

static void say_started(struct loop *l, const struct call *x)
{
	auto_free char *preview = preview_of(x);
	struct jout *o = wire_open(l->wire, "event", NULL);

	jout_put_str(o, "kind", "tool_started");
	jout_put_str(o, "tool", x->name);
	jout_put_str(o, "tool_use_id", x->id);
	jout_put_str(o, "preview", preview);
	wire_send_small(l->wire);
}

static void say_ended(struct loop *l, const struct call *x, const struct tool_result *r)
{
	size_t output_len = r->text.len + r->image.len + r->blocks.len;
	struct jout *o = wire_open(l->wire, "event", NULL);

	jout_put_str(o, "kind", r->error ? "tool_error" : "tool_called");
	jout_put_str(o, "tool", x->name);
	jout_put_str(o, "tool_use_id", x->id);
	jout_put_int(o, "duration_ms", (long long)(clock_ms() - x->started_ms));
	jout_put_int(o, "output_len", (long long)output_len);
	if (r->error) {
		jout_key(o, "error");
		jout_text(o, buf_str(&r->text), MIN(r->text.len, (size_t)PREVIEW));
	}
	wire_send_small(l->wire);
}

static void end_call(struct loop *l, struct call *x)
{
	say_ended(l, x, &x->tool.result);
	step_result(&l->step, x, &x->tool.result);
	tool_result_done(&x->tool.result);
	/* Kept at once when others are still to come: a runner that is killed must not repeat this one. What only read
	 * may be repeated. */
	if (!step_complete(&l->step) && !only_reads(l, x))
		say_capture(l);
}

static void on_done(struct tool_call *call)
{
	struct call *x = call->arg;
	struct loop *l = x->loop;

	if (l->phase == PHASE_OVER)
		return;
	end_call(l, x);
	tools_pump(l);
}

static bool ask(struct loop *l, struct call *x, struct jv question, struct jv options)
{
	if (!l->task.interaction)
		return tool_fail(&x->tool.result, "Nobody can be asked here: decide yourself.");
	if (jv_type(question) != J_STRING)
		return tool_fail(&x->tool.result, "question must be a string.");
	loop_ticket(l, x->ticket);
	struct jout *o = wire_open(l->wire, "ask_user", x->ticket);
	jout_put_value(o, "question", question);
	if (jv_type(options) == J_ARRAY)
		jout_put_value(o, "options", options);
	jout_put_str(o, "pending_tool_use_id", x->id);
	jout_key(o, "conversation");
	write_conversation(l, o);
	return wire_send(l->wire) == 0 || tool_fail(&x->tool.result, "The conversation is too long to ask somebody.");
}

static bool call_host(struct loop *l, struct call *x)
{
	loop_ticket(l, x->ticket);
	struct jout *o = wire_open(l->wire, "tool_call", x->ticket);
	jout_put_str(o, "name", x->name);
	jout_put_value(o, "input", x->input);
	jout_put_str(o, "tool_use_id", x->id);
	return wire_send(l->wire) == 0 || tool_fail(&x->tool.result, "The input is too long.");
}

static bool note_output(struct loop *l, struct call *x)
{
	size_t len;
	const char *raw = jv_raw(x->input, &len);

	free(l->output);
	l->output = xstrndup(raw, len);
	(void)buf_puts(&x->tool.result.text, "The result is noted.");
	return false;
}

/* true when its end will come. */
static bool start(struct loop *l, struct call *x)
{
	const struct tool *builtin = builtin_of(l, x->name);
	struct tool_result *r = &x->tool.result;

	if (l->task.output_schema && strcmp(x->name, TOOL_OUTPUT) == 0)
		return note_output(l, x);
	if (!builtin && strcmp(x->name, TOOL_ASK) == 0 && !offer_is_host(&l->task, x->name))
		return ask(l, x, jv_get(x->input, "question"), jv_get(x->input, "options"));
	if (!builtin && !offer_is_host(&l->task, x->name))
		return tool_fail(r, "There is no tool %.100s.", x->name);
	if (!policy_allows(l->policy, x->name, builtin, x->input, r))
		return false;
	return builtin ? tool_start(builtin, &l->tools, x->input, &x->tool) : call_host(l, x);
}

static void start_call(struct loop *l, struct call *x)
{
	x->loop = l;
	x->state = CALL_RUNS;
	x->started_ms = clock_ms();
	x->tool = (struct tool_call){.result = TOOL_RESULT_INIT, .done = on_done, .arg = x};
	say_started(l, x);
	if (!start(l, x))
		end_call(l, x);
}

/* All results are there. */
static void finish_step(struct loop *l)
{
	struct buf b = BUF_INIT(SIZE_MAX);
	struct jout o = {.b = &b};
	size_t images, n = step_images(&l->step, &images);

	step_message(&l->step, &o);
	step_done(&l->step);
	size_t len = b.len;
	chat_add(&l->chat, false, buf_steal(&b), len);
	/* An image costs by its size in pixels, not in bytes. */
	l->tokens_now += (long long)((len - images) / 4 + n * IMAGE_TOKENS);
	if (l->output) {
		end_output(l);
		return;
	}
	say_capture(l);
	if (l->steps >= l->task.max_steps)
		end_error(l,
			  "the agent did not come to an end within %lld steps (tool_max_steps); raise it, or make "
			  "the task smaller",
			  l->task.max_steps);
	else
		loop_proceed(l);
}

static void start_what_may(struct loop *l)
{
	size_t running = 0;

	for (size_t i = 0; i < l->step.n; i++) {
		struct call *x = &l->step.v[i];
		bool reads = only_reads(l, x);
		if (x->state == CALL_WAITS) {
			if (running >= MAX_PARALLEL || (!reads && (running || wire_waits(l->wire))))
				return;
			start_call(l, x);
		}
		if (x->state == CALL_RUNS && !reads)
			return;
		running += x->state == CALL_RUNS;
	}
}

void tools_pump(struct loop *l)
{
	start_what_may(l);
	if (step_complete(&l->step))
		finish_step(l);
}

static struct call *find_ticket(struct loop *l, const char *id)
{
	for (size_t i = 0; id && id[0] && i < l->step.n; i++)
		if (l->step.v[i].state == CALL_RUNS && strcmp(l->step.v[i].ticket, id) == 0)
			return &l->step.v[i];
	return NULL;
}

/* What is no image is passed over. */
static void take_images(struct tool_result *r, struct jv images)
{
	for (struct jv x = jv_type(images) == J_ARRAY ? jv_first(images) : (struct jv){0}; x.doc; x = jv_next(x)) {
		size_t len = 0;
		auto_free char *type = jv_cstr(jv_get(x, "media_type"));
		auto_free char *data = jv_text(jv_get(x, "data"), &len);
		if (type && data && len <= 2 * (size_t)IMAGE_MAX)
			step_image(&r->blocks, type, data, len);
	}
}

void tools_result(struct loop *l, const struct envelope *env)
{
	struct call *x = find_ticket(l, env->id);
	struct jv asks = jv_get(env->data, "ask_user");
	size_t len = 0;

	if (!x) {
		say_warning(l, "unexpected_envelope", "a tool's result that is not awaited was ignored");
		return;
	}
	struct tool_result *r = &x->tool.result;
	if (jv_type(asks) == J_OBJECT) {
		if (ask(l, x, jv_get(asks, "question"), jv_get(asks, "options")))
			return;
	} else {
		auto_free char *error = jv_cstr(jv_get(env->data, "error"));
		auto_free char *output = jv_text(jv_get(env->data, "output"), &len);
		if (error && error[0])
			tool_fail(r, "%.*s", RESULT_MAX, error);
		else if (output)
			(void)buf_add(&r->text, output, MIN(len, (size_t)RESULT_MAX + 8193));
		else
			tool_fail(r, "The tool gave no output.");
		if (!r->error)
			take_images(r, jv_get(env->data, "images"));
	}
	end_call(l, x);
	tools_pump(l);
}

void tools_answer(struct loop *l, const struct envelope *env)
{
	struct call *x = find_ticket(l, env->id);
	struct jv answer = jv_get(env->data, "answer");
	bool pause = false;
	size_t len;

	if (!x) {
		say_warning(l, "unexpected_envelope", "an answer that is not awaited was ignored");
		return;
	}
	if (jv_bool(jv_get(env->data, "pause"), &pause) && pause) {
		end_paused(l, x->id);
		return;
	}
	char *text = jv_text(answer, &len);
	if (text) {
		(void)buf_add(&x->tool.result.text, text, MIN(len, (size_t)RESULT_MAX));
		free(text);
	} else {
		const char *raw = jv_raw(answer, &len);
		(void)buf_add(&x->tool.result.text, raw, MIN(len, (size_t)RESULT_MAX));
	}
	end_call(l, x);
	tools_pump(l);
}
