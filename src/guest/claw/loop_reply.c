/* What a reply of the model leads to: tools, the end, a summary, the structured output. */
#include "loop_priv.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void add_message(struct loop *l, struct jv message)
{
	size_t len;
	const char *raw = jv_raw(message, &len);

	chat_add(&l->chat, true, xmemdup(raw, len), len);
}

static bool is_empty(struct jv message)
{
	struct jv content = jv_get(message, "content");

	return jv_type(content) == J_ARRAY ? !jv_first(content).doc : jv_is(content, "");
}

static void add_text(struct loop *l, struct jv message)
{
	size_t len;
	auto_free char *text = message_text(message, &len);

	(void)buf_add(&l->text, text, len);
}

/* The model has more to say than one reply may hold. */
static void on_cut_off(struct loop *l)
{
	static const char more[] = "Your answer was cut off at the output limit. Go on exactly where it stopped.";

	if (++l->continues > MAX_CONTINUES) {
		end_error(l,
			  "ask the model: its answer was cut off at max_tokens %d times; raise max_tokens or ask "
			  "for less",
			  l->continues);
		return;
	}
	chat_say(&l->chat, more, sizeof more - 1);
	loop_proceed(l);
}

static void on_step(struct loop *l, struct jv message, const char *stop_reason)
{
	bool cut_off = strcmp(stop_reason, "max_tokens") == 0;
	size_t len;
	const char *raw = jv_raw(message, &len);

	if (!l->continues)
		buf_clear(&l->text);
	add_text(l, message);
	if (is_empty(message)) {
		reply_conclude(l);
		return;
	}
	add_message(l, message);
	int calls = step_open(&l->step, raw, len);
	if (calls < 0) {
		end_error(l, "read the model's reply: %s",
			  calls == -E2BIG ? "more calls than one message may hold" : "its tool calls are malformed");
	} else if (calls > 0) {
		/* Half a call could be the half of a file. */
		for (size_t i = 0; cut_off && i < l->step.n; i++)
			step_result_text(&l->step, &l->step.v[i], true,
					 "The message was cut off at max_tokens, so none of its calls was carried out. "
					 "Make smaller calls.");
		l->continues = 0;
		loop_proceed(l);
	} else if (cut_off) {
		on_cut_off(l);
	} else {
		loop_proceed(l);
	}
}

/* The answer is complete: it is the result, or the result is asked for. */
void reply_conclude(struct loop *l)
{
	l->continues = 0;
	if (l->task.output_schema && !l->output) {
		model_ask_output(l, "Now give the result of this task by calling " TOOL_OUTPUT ".");
		return;
	}
	if (!l->text.len && l->chat.n && l->chat.v[l->chat.n - 1].assistant) {
		/* A replayed conversation had come to its end already. */
		const struct msg *last = &l->chat.v[l->chat.n - 1];
		auto_jdoc d = jdoc_parse(last->json, last->len, NULL);
		if (d)
			add_text(l, jdoc_root(d));
	}
	end_output(l);
}

/* The end of the object that starts at s, seen by its braces outside of strings; NULL when it does not end. */
static const char *object_end(const char *s, const char *end)
{
	bool quoted = false;
	int depth = 0;

	for (; s < end; s++) {
		if (quoted && *s == '\\')
			s++;
		else if (*s == '"')
			quoted = !quoted;
		else if (!quoted && *s == '{')
			depth++;
		else if (!quoted && *s == '}' && --depth == 0)
			return s + 1;
	}
	return NULL;
}

/* The last whole JSON object of a text, for a model that cannot be made to call a tool. The caller frees. */
static char *last_object(const char *text, size_t len)
{
	const char *end = text + len;
	char *found = NULL;

	for (const char *s = text; s < end && (s = memchr(s, '{', (size_t)(end - s)));) {
		const char *stop = object_end(s, end);
		auto_jdoc d = stop ? jdoc_parse(s, (size_t)(stop - s), NULL) : NULL;
		if (!stop)
			break;
		if (d) {
			free(found);
			found = xstrndup(s, (size_t)(stop - s));
		}
		s = d ? stop : s + 1;
	}
	return found;
}

/* Calls of a reply that was only asked for the output: that one counts, the others are not carried out. */
static void close_format_step(struct loop *l)
{
	struct buf b = BUF_INIT(SIZE_MAX);
	struct jout o = {.b = &b};

	for (size_t i = 0; i < l->step.n; i++) {
		struct call *x = &l->step.v[i];
		bool output = strcmp(x->name, TOOL_OUTPUT) == 0;
		step_result_text(&l->step, x, !output,
				 output ? "The result is noted." : "Only the result was asked for.");
		if (!output)
			continue;
		size_t len;
		const char *raw = jv_raw(x->input, &len);
		free(l->output);
		l->output = xstrndup(raw, len);
	}
	step_message(&l->step, &o);
	step_done(&l->step);
	size_t len = b.len;
	chat_add(&l->chat, false, buf_steal(&b), len);
}

static void on_format(struct loop *l, struct jv message)
{
	size_t len;
	const char *raw = jv_raw(message, &len);

	free(l->output);
	l->output = NULL;
	if (!is_empty(message))
		add_message(l, message);
	if (step_open(&l->step, raw, len) > 0)
		close_format_step(l);
	if (!l->output) {
		auto_free char *text = message_text(message, &len);
		l->output = last_object(text, len);
		l->fallback = l->output != NULL;
	}
	if (l->output)
		end_output(l);
	else
		end_error(l, "read the model's reply: it gave no structured output, neither by a call of " TOOL_OUTPUT
			     " nor as JSON in its text");
}

static void on_summary(struct loop *l, struct jv message)
{
	size_t len;
	long long tokens = l->tokens_now;
	auto_free char *text = message_text(message, &len);

	if (!len) {
		say_warning(l, "not_compacted", "the conversation was not shortened: the model gave no summary");
		l->shortened = true;
		loop_proceed(l);
		return;
	}
	compact_apply(&l->chat, l->cut, l->task.user_prompt, text, len);
	l->tokens_now = (long long)(l->chat.bytes / 4);
	struct jout *o = wire_open(l->wire, "event", NULL);
	jout_put_str(o, "kind", "llm_compacted");
	jout_put_int(o, "messages", (long long)l->cut);
	jout_put_int(o, "before_tokens", tokens);
	jout_put_int(o, "after_tokens", l->tokens_now);
	wire_send_small(l->wire);
	say_capture(l);
	/* Once is enough before the next reply counts the tokens anew: what is still too long cannot be cut. */
	l->shortened = true;
	loop_proceed(l);
}

void reply_take(struct loop *l, struct jv message, const char *stop_reason)
{
	if (l->purpose != PURPOSE_COMPACT && strcmp(stop_reason, "refusal") == 0) {
		end_error(l, "ask the model: it refused to go on with this conversation");
		return;
	}
	switch (l->purpose) {
	case PURPOSE_STEP:
		l->shortened = false;
		on_step(l, message, stop_reason);
		break;
	case PURPOSE_FORMAT:
		on_format(l, message);
		break;
	case PURPOSE_COMPACT:
		on_summary(l, message);
		break;
	}
}
