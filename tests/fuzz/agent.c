/* Fuzz target: what an agent's program prints. The first byte of the input chooses the reader: claude's lines, codex's
 * lines, or the text in which the answer is looked for. Whatever they are: no crash, counts that add up, texts in
 * events that are short. */
#include <agent/answer.h>
#include <agent/child.h>
#include <agent/turn.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <claude_code/stream.h>
#include <codex/stream.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void on_event(void *arg, const char *type, json_t *data)
{
	const char *preview = json_get_str(data, "preview"), *tool = json_get_str(data, "tool");
	const json_t *delay = json_object_get(data, "delay_ms");

	(void)arg;
	require(*type && json_is_object(data));
	require(!preview || strlen(preview) <= (size_t)PREVIEW_MAX * 4);
	require(!tool || strlen(tool) <= 512);
	require(!delay || json_integer_value(delay) >= 0);
	json_decref(data);
}

static void check(const struct agent_turn *t)
{
	require(t->usage.input >= 0 && t->usage.output >= 0 && usage_total(&t->usage) >= 0);
	require(t->cost_usd >= -1 && t->status >= 0 && t->status <= 999);
	require(!t->failed || t->ended);
}

static void each_line(const char *text, size_t len, bool codex)
{
	const struct agent_sink sink = {.emit = on_event};
	struct agent_usage total = {0};
	struct agent_turn t;

	turn_init(&t);
	for (const char *p = text, *end = text + len; p < end;) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((stop ? stop : end) - p);
		auto_json j = json_parse_value(p, n, NULL);
		if (json_is_object(j) && codex)
			codex_line(&t, &sink, j, &total);
		else if (json_is_object(j))
			claude_line(&t, &sink, j);
		p += n + 1;
	}
	if (codex)
		codex_end(&t, "");
	else
		claude_end(&t, "");
	require(total.input >= 0 && usage_total(&total) >= 0);
	check(&t);
	turn_done(&t);
}

static void try_answer(const char *text, size_t len)
{
	auto_strv secrets = {0};
	auto_json j = answer_last_json(text, len);
	auto_json whole = answer_text(text, len);
	auto_free char *copy = xstrndup(text, len);

	require(!j || json_is_object(j));
	require(json_get_str(whole, "output") || memchr(text, 0, len));
	strv_add(&secrets, "SECRETXX");
	agent_hide(&secrets, copy, strlen(copy));
	require(!strstr(copy, "SECRETXX"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (size == 0)
		return 0;
	if (data[0] % 3 == 2)
		try_answer(text, size - 1);
	else
		each_line(text, size - 1, data[0] % 3 == 1);
	return 0;
}
