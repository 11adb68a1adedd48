/* TodoWrite: the model's own list. It is checked, kept and told back; nothing else depends on it. */
#include "args.h"

#include <base/mem.h>

#include <stdlib.h>

enum { MAX_TODOS = 200 };

static bool check_entry(struct jv x, size_t at, struct tool_result *r)
{
	struct jv status = jv_get(x, "status");

	if (jv_type(jv_get(x, "content")) != J_STRING)
		return tool_fail(r, "todos[%zu].content must be a string.", at);
	if (!jv_is(status, "pending") && !jv_is(status, "in_progress") && !jv_is(status, "completed"))
		return tool_fail(r, "todos[%zu].status must be pending, in_progress or completed.", at);
	return true;
}

static void todo_run(struct tools *t, struct jv input, struct tool_result *r)
{
	struct jv todos;
	size_t n = 0, done = 0, len;

	if (!arg_list(input, "todos", &todos, r))
		return;
	for (struct jv x = jv_first(todos); x.doc; x = jv_next(x), n++) {
		if (!check_entry(x, n, r))
			return;
		done += jv_is(jv_get(x, "status"), "completed");
	}
	const char *raw = jv_raw(todos, &len);
	if (n > MAX_TODOS || len > RESULT_MAX) {
		tool_fail(r, "The list is too long: at most %d entries.", MAX_TODOS);
		return;
	}
	free(t->todos);
	t->todos = xstrndup(raw, len);
	(void)buf_printf(&r->text, "The list is noted: %zu entries, %zu completed.", n, done);
}

const struct tool tool_todo_write = {
	.name = "TodoWrite",
	.description =
		"Notes your list of tasks; each call gives the whole list. Use it for work of several steps, with "
		"one entry in_progress at a time.",
	.schema = "{\"type\":\"object\",\"properties\":{\"todos\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
		  "\"properties\":{\"content\":{\"type\":\"string\"},\"status\":{\"type\":\"string\",\"enum\":["
		  "\"pending\",\"in_progress\",\"completed\"]},\"activeForm\":{\"type\":\"string\"}},\"required\":["
		  "\"content\",\"status\"]}}},\"required\":[\"todos\"]}",
	.flags = TOOL_READS,
	.run = todo_run,
};
