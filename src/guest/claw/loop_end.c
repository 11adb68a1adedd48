/* What the loop says besides requests: events, captures, and how it ended. */
#include "loop_priv.h"
#include "react.h"

#include <base/clock.h>
#include <base/cleanup.h>
#include <base/mem.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void say_warning(struct loop *l, const char *code, const char *message)
{
	struct jout *o = wire_open(l->wire, "event", NULL);

	jout_put_str(o, "kind", "warning");
	jout_put_str(o, "code", code);
	jout_put_str(o, "message", message);
	wire_send_small(l->wire);
}

static bool any_done(const struct step *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].state == CALL_DONE)
			return true;
	return false;
}

void write_conversation(struct loop *l, struct jout *o)
{
	jout_open(o, '[');
	chat_write(&l->chat, 0, l->chat.n, o);
	if (l->step.message && any_done(&l->step))
		step_message(&l->step, o);
	jout_close(o, ']');
}

void say_capture(struct loop *l)
{
	struct jout *o = wire_open(l->wire, "session_capture", NULL);

	jout_put_str(o, "session_id", l->task.session_id);
	jout_put_int(o, "step", l->steps);
	jout_put_int(o, "tokens", l->tokens_in + l->tokens_out);
	jout_key(o, "conversation");
	write_conversation(l, o);
	if (wire_send(l->wire) < 0)
		say_warning(l, "not_captured", "the conversation is too long to be kept for a resume");
}

static struct jout *open_result(struct loop *l, const char *id, int exit_code)
{
	struct jout *o = wire_open(l->wire, "result", id);

	jout_key(o, "tokens");
	jout_open(o, '{');
	jout_put_int(o, "input", l->tokens_in);
	jout_put_int(o, "output", l->tokens_out);
	jout_close(o, '}');
	jout_put_int(o, "duration_ms", (long long)(clock_ms() - l->started_ms));
	jout_put_int(o, "exit_code", exit_code);
	jout_put_str(o, "backend_name", "claw");
	jout_put_int(o, "raw_output_len", (long long)l->text.len);
	jout_put_bool(o, "parse_fallback", l->fallback);
	jout_put_bool(o, "formatting_pass_used", l->formatted);
	jout_put_str(o, "session_id", l->task.session_id);
	return o;
}

static void over(struct loop *l, int exit_code)
{
	l->phase = PHASE_OVER;
	l->exit_code = exit_code;
	/* What waits to be written is written by the runner, when the tools have ended. */
	react_stop(l->react);
}

void end_output(struct loop *l)
{
	bool schema = l->task.output_schema != NULL;

	say_capture(l);
	if (schema)
		loop_ticket(l, l->ticket);
	struct jout *o = open_result(l, schema ? l->ticket : NULL, 0);
	jout_key(o, "output");
	if (schema) {
		jout_raw(o, l->output, strlen(l->output));
	} else {
		jout_open(o, '{');
		jout_key(o, "output");
		jout_text(o, buf_str(&l->text), l->text.len);
		jout_close(o, '}');
	}
	if (wire_send(l->wire) < 0)
		end_error(l, "give the result: it is longer than a line may be");
	else if (schema)
		l->phase = PHASE_ACK;
	else
		over(l, 0);
}

void end_error(struct loop *l, const char *fmt, ...)
{
	va_list ap;

	if (l->phase == PHASE_OVER)
		return;
	va_start(ap, fmt);
	auto_free char *why = xvasprintf(fmt, ap);
	va_end(ap);
	struct jout *o = open_result(l, NULL, 1);
	jout_key(o, "output");
	jout_open(o, '{');
	jout_close(o, '}');
	jout_put_str(o, "error", why);
	wire_send_small(l->wire);
	over(l, 1);
}

void end_paused(struct loop *l, const char *tool_use_id)
{
	struct jout *o = open_result(l, NULL, 0);

	jout_key(o, "output");
	jout_open(o, '{');
	jout_close(o, '}');
	jout_put_str(o, "pending_tool_use_id", tool_use_id);
	jout_key(o, "pending_conversation");
	write_conversation(l, o);
	if (wire_send(l->wire) < 0) {
		end_error(l, "pause: the conversation is longer than a line may be");
		return;
	}
	l->keep_files = true;
	over(l, 0);
}

/* The launcher's word on the structured output: good, or what is wrong with it, once. */
void end_ack(struct loop *l, const struct envelope *env)
{
	bool ok = true;

	if (!env->id || strcmp(env->id, l->ticket) != 0) {
		say_warning(l, "unexpected_envelope", "a word on a result that is not awaited was ignored");
		return;
	}
	if (!jv_bool(jv_get(env->data, "ok"), &ok) || ok || l->repaired) {
		over(l, 0);
		return;
	}
	auto_free char *errors = jv_cstr(jv_get(env->data, "errors"));
	auto_free char *words = xasprintf("The result does not fit what was asked for: %s\nGive it again, mended, by "
					  "calling " TOOL_OUTPUT ".",
					  errors ? errors : "it is not valid");
	l->repaired = true;
	model_ask_output(l, words);
}
