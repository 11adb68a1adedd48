/* Requests to the model, by way of the launcher, and the pieces of its replies. */
#include "loop_priv.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <string.h>

static const char *const purposes[] = {"step", "format", "compact"};

static void write_request(struct loop *l, struct jout *o)
{
	const struct task *t = &l->task;

	jout_put_str(o, "model", t->model ? t->model : "");
	jout_put_str(o, "system", t->system_prompt ? t->system_prompt : "");
	jout_key(o, "messages");
	jout_open(o, '[');
	if (l->purpose == PURPOSE_COMPACT)
		compact_request(&l->chat, l->cut, o);
	else
		chat_write(&l->chat, 0, l->chat.n, o);
	jout_close(o, ']');
	jout_key(o, "tools");
	jout_raw(o, l->offered, strlen(l->offered));
	jout_put_int(o, "max_tokens", t->max_tokens);
	jout_put_str(o, "reasoning_effort", t->reasoning_effort);
	jout_key(o, "tool_choice");
	jout_open(o, '{');
	jout_put_str(o, "type", l->purpose == PURPOSE_FORMAT ? "tool" : "auto");
	if (l->purpose == PURPOSE_FORMAT)
		jout_put_str(o, "name", TOOL_OUTPUT);
	jout_close(o, '}');
	jout_put_str(o, "purpose", purposes[l->purpose]);
}

void model_request(struct loop *l, enum purpose purpose)
{
	l->phase = PHASE_MODEL;
	l->purpose = purpose;
	loop_ticket(l, l->ticket);
	write_request(l, wire_open(l->wire, "llm_request", l->ticket));
	if (wire_send(l->wire) < 0) {
		l->cut = purpose == PURPOSE_STEP && !l->shortened ? compact_cut(&l->chat, 1) : 0;
		if (l->cut) {
			model_request(l, PURPOSE_COMPACT);
			return;
		}
		end_error(l,
			  "ask the model: the conversation is longer than the %d bytes of a line; shorten what the "
			  "tools give back, or lower compaction.preserve_recent",
			  WIRE_LINE);
		return;
	}
	if (purpose == PURPOSE_STEP)
		l->steps++;
}

void model_ask_output(struct loop *l, const char *words)
{
	chat_say(&l->chat, words, strlen(words));
	l->formatted = true;
	model_request(l, PURPOSE_FORMAT);
}

static long long usage_of(struct jv usage, const char *name)
{
	long long n = 0;

	return jv_int(jv_get(usage, name), &n) && n > 0 ? n : 0;
}

static void count_usage(struct loop *l, struct jv usage, const char *stop_reason)
{
	long long in = usage_of(usage, "input_tokens") + usage_of(usage, "cache_read_input_tokens") +
		       usage_of(usage, "cache_creation_input_tokens");
	long long out = usage_of(usage, "output_tokens");

	l->tokens_in += in;
	l->tokens_out += out;
	/* A provider that counts nothing is estimated by the length. */
	if (l->purpose != PURPOSE_COMPACT)
		l->tokens_now = in + out > 0 ? in + out : (long long)(l->chat.bytes / 4);
	struct jout *o = wire_open(l->wire, "event", NULL);
	jout_put_str(o, "kind", "llm_step_finished");
	jout_put_int(o, "step", l->steps);
	jout_put_str(o, "purpose", purposes[l->purpose]);
	jout_put_str(o, "stop_reason", stop_reason);
	jout_put_int(o, "input_tokens", in);
	jout_put_int(o, "output_tokens", out);
	wire_send_small(l->wire);
}

void model_chunk(struct loop *l, const struct envelope *env)
{
	struct jv kind = jv_get(env->data, "kind");

	if (!env->id || strcmp(env->id, l->ticket) != 0) {
		say_warning(l, "unexpected_envelope", "a piece of a reply that is not awaited was ignored");
		return;
	}
	if (jv_is(kind, "text") || jv_is(kind, "thinking"))
		return;
	if (jv_is(kind, "error")) {
		auto_free char *why = jv_text(jv_get(env->data, "message"), NULL);
		end_error(l, "ask the model: %.800s", why ? why : "the launcher gave no reason");
		return;
	}
	struct jv message = jv_get(env->data, "message");
	if (!jv_is(kind, "done") || !chat_message_valid(message, "assistant")) {
		end_error(l, "read the model's reply: it is malformed");
		return;
	}
	char *stop = jv_cstr(jv_get(env->data, "stop_reason"));
	auto_free char *stop_reason = stop ? stop : xstrdup("end_turn");
	count_usage(l, jv_get(env->data, "usage"), stop_reason);
	reply_take(l, message, stop_reason);
}
