/* Events of a node under claw. Those that the runner reports come out of the sandbox: only known kinds with known
 * fields go on, texts are cut, and there is an end to their number. What the model's answers cost is counted on this
 * side, so the runner's own word about steps is passed over. */
#include "claw.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <string.h>

static const struct kind {
	const char *kind, *event;
	const char *texts[4];	/* NULL-terminated */
	const char *numbers[4]; /* NULL-terminated */
} kinds[] = {
	{"tool_started", "tool_started", {"tool", "tool_use_id", "preview"}, {NULL}},
	{"tool_called", "tool_called", {"tool", "tool_use_id"}, {"duration_ms", "output_len"}},
	{"tool_error", "tool_error", {"tool", "tool_use_id", "error"}, {"duration_ms"}},
	{"llm_compacted", "llm_compacted", {NULL}, {"before_tokens", "after_tokens", "messages"}},
	{"warning", "delegate_warning", {"code", "message"}, {NULL}},
};

/* The first characters of a text, without anything that could move a cursor. */
static json_t *shown(const char *text)
{
	auto_buf b = BUF_INIT(16 * CLAW_PREVIEW);

	(void)text_neutralise(&b, text, strnlen(text, CLAW_PREVIEW));
	return json_text(buf_str(&b), b.len);
}

static json_t *fields(const struct kind *k, const json_t *data)
{
	json_t *d = json_object();

	for (size_t i = 0; i < ARRAY_LEN(k->texts) && k->texts[i]; i++) {
		const char *text = json_get_str(data, k->texts[i]);
		if (text)
			json_put(d, k->texts[i], shown(text));
	}
	for (size_t i = 0; i < ARRAY_LEN(k->numbers) && k->numbers[i]; i++) {
		const json_t *n = json_object_get(data, k->numbers[i]);
		if (json_is_integer(n))
			json_put_int(d, k->numbers[i], MAX(json_integer_value(n), (json_int_t)0));
	}
	return d;
}

void claw_emit(struct node_exec *x, const char *type, json_t *data)
{
	x->cb.on_event(x->cb.arg, type, data);
}

static void too_many(struct node_exec *x)
{
	json_t *d = json_object();

	json_put_str(d, "code", "events_dropped");
	json_put_str(d, "message", "the runner reports too many events; no more are written for this node");
	claw_emit(x, "delegate_warning", d);
}

void claw_on_event(struct node_exec *x, const json_t *data)
{
	const char *kind = json_get_str(data, "kind");

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (!str_eq(kinds[i].kind, kind))
			continue;
		x->n_events++;
		if (x->n_events <= CLAW_EVENTS_MAX)
			claw_emit(x, kinds[i].event, fields(&kinds[i], data));
		else if (x->n_events == CLAW_EVENTS_MAX + 1)
			too_many(x);
	}
}
