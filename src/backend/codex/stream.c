/* codex's events, line by line.
 *
 * thread.started names the conversation; item.started and item.completed are commands, changes of files, calls of MCP
 * tools and what the model says; turn.completed has the counts, turn.failed the error. An error event by itself means
 * nothing: codex goes on by itself after most of them. The HTTP status behind an error stands in its text only. */
#include "stream.h"

#include "../agent/retry.h"

#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>
#include <string.h>

/* Items that are the use of a tool, and what of them is its input. */
static const struct tool {
	const char *type, *input;
} tools[] = {
	{"command_execution", "command"}, {"file_change", "changes"}, {"mcp_tool_call", "arguments"},
	{"web_search", "query"},	  {"todo_list", "items"},
};

static const struct tool *tool_of(const char *type)
{
	for (size_t i = 0; type && i < ARRAY_LEN(tools); i++)
		if (str_eq(tools[i].type, type))
			return &tools[i];
	return NULL;
}

static void tool_begins(struct agent_turn *t, const struct agent_sink *sink, const json_t *item,
			const struct tool *tool)
{
	const char *id = json_get_str(item, "id"), *server = json_get_str(item, "server");
	json_t *input = json_object_get(item, tool->input);
	auto_json shown = json_object();

	if (json_is_string(input))
		json_put(shown, "command", json_incref(input));
	else if (input)
		json_put(shown, tool->input, json_incref(input));
	char *name = server ? xasprintf("mcp.%.60s.%.60s", server,
					json_get_str(item, "tool") ? json_get_str(item, "tool") : "")
			    : xstrdup(tool->type);
	turn_tool_begins(t, sink, id, name, shown);
	free(name);
}

static void on_item(struct agent_turn *t, const struct agent_sink *sink, const json_t *item, bool completed)
{
	const char *type = json_get_str(item, "type"), *id = json_get_str(item, "id");
	const struct tool *tool = tool_of(type);
	const json_t *code = json_object_get(item, "exit_code");

	if (tool) {
		if (!completed || !id || !json_object_get(t->calls, id))
			tool_begins(t, sink, item, tool);
		if (completed)
			turn_tool_ends(t, sink, id, json_string_length(json_object_get(item, "aggregated_output")),
				       (json_is_integer(code) && json_integer_value(code) != 0) ||
					       str_eq(json_get_str(item, "status"), "failed"));
		if (completed && json_object_size(t->calls) == 0)
			turn_asks(t, sink, "codex", t->model);
	} else if (completed && str_eq(type, "agent_message")) {
		turn_set(&t->text, json_get_str(item, "text"));
		turn_step(t, sink, NULL, NULL, NULL);
	}
}

static void on_usage(const json_t *u, struct agent_usage *ret)
{
	int64_t cached = turn_tokens(json_object_get(u, "cached_input_tokens"));
	int64_t input = turn_tokens(json_object_get(u, "input_tokens"));

	*ret = (struct agent_usage){
		.input = MAX(0, input - cached),
		.output = turn_tokens(json_object_get(u, "output_tokens")),
		.cache_read = MIN(cached, input),
	};
}

/* "… last status: 429 Too Many Requests", "unexpected status 401 Unauthorized: …" */
static int status_in(const char *text)
{
	const char *at = strstr(text, "status");

	while (at) {
		at += strlen("status");
		at += strspn(at, ": ");
		long n = strtol(at, NULL, 10);
		if (n >= 100 && n <= 599)
			return (int)n;
		at = strstr(at, "status");
	}
	return 0;
}

static bool may_pass(const char *text)
{
	static const char *const words[] = {"stream disconnected", "high demand", "error sending request", "timed out"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

/* The error's text may be the provider's whole answer, whose own words say more. */
static void set_error(struct agent_turn *t, const char *message)
{
	auto_json answer = json_parse_value(message, strlen(message), NULL);
	const char *inner = json_get_str(json_object_get(answer, "error"), "message");

	turn_set(&t->error, inner ? inner : message);
}

static void on_failed(struct agent_turn *t, const json_t *line)
{
	const char *message = json_get_str(json_object_get(line, "error"), "message");

	t->ended = t->failed = true;
	set_error(t, message ? message : "the turn failed, and codex did not say why");
	t->status = status_in(t->error);
	t->retryable = t->status ? retry_status(t->status) : may_pass(t->error);
}

void codex_line(struct agent_turn *t, const struct agent_sink *sink, const json_t *line, struct agent_usage *ret_total)
{
	const char *type = json_get_str(line, "type");

	if (str_eq(type, "thread.started")) {
		turn_set_session(t, json_get_str(line, "thread_id"));
	} else if (str_eq(type, "turn.started")) {
		turn_asks(t, sink, "codex", t->model);
	} else if (str_eq(type, "item.started") || str_eq(type, "item.completed")) {
		on_item(t, sink, json_object_get(line, "item"), str_eq(type, "item.completed"));
	} else if (str_eq(type, "turn.completed")) {
		t->ended = true;
		on_usage(json_object_get(line, "usage"), ret_total);
	} else if (str_eq(type, "turn.failed")) {
		on_failed(t, line);
	}
}

void codex_end(struct agent_turn *t, const char *stderr_text)
{
	t->lost_session = strstr(stderr_text, "no rollout found for thread id") != NULL;
	if (t->text)
		t->structured = json_parse_value(t->text, strlen(t->text), NULL);
}
