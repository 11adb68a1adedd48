/* The stream of claude's JSON, line by line.
 *
 * Known lines: system (init: the conversation's id and the model; api_retry: it waits for the provider by itself),
 * assistant (one block of an answer; answers are told apart by message.id), user (results of tools), result (the end).
 * An answer's own counts are those of its beginning, so they are too low for what it puts out; the result has the real
 * ones. The counts of result.usage leave out side calls, which modelUsage has, so that comes first. An API error is a
 * result whose subtype is success and whose is_error is true. */
#include "stream.h"

#include "../agent/retry.h"

#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <string.h>

static void on_retry(const struct agent_sink *sink, const json_t *line)
{
	json_t *d = json_object();
	const json_t *status = json_object_get(line, "error_status");
	const json_t *delay = json_object_get(line, "retry_delay_ms");

	json_put_str(d, "backend", "claude_code");
	json_put_int(d, "attempt", json_integer_value(json_object_get(line, "attempt")));
	json_put_int(d, "delay_ms", (long long)MAX(0, MIN(json_number_value(delay), 1e9)));
	json_put_str(d, "by", "claude");
	if (json_is_integer(status))
		json_put_int(d, "status", json_integer_value(status));
	sink->emit(sink->arg, "delegate_retry", d);
}

static void on_system(struct agent_turn *t, const struct agent_sink *sink, const json_t *line)
{
	const char *subtype = json_get_str(line, "subtype");

	if (str_eq(subtype, "init")) {
		turn_set_session(t, json_get_str(line, "session_id"));
		turn_set(&t->model, json_get_str(line, "model"));
		turn_asks(t, sink, "claude_code", t->model);
	} else if (str_eq(subtype, "api_retry") && t->events++ < 1000) {
		on_retry(sink, line);
	}
}

static struct agent_usage usage_of(const json_t *u)
{
	return (struct agent_usage){
		.input = turn_tokens(json_object_get(u, "input_tokens")),
		.output = turn_tokens(json_object_get(u, "output_tokens")),
		.cache_read = turn_tokens(json_object_get(u, "cache_read_input_tokens")),
		.cache_write = turn_tokens(json_object_get(u, "cache_creation_input_tokens")),
	};
}

static void on_assistant(struct agent_turn *t, const struct agent_sink *sink, const json_t *line)
{
	const json_t *message = json_object_get(line, "message");
	size_t i;
	const json_t *block;

	const json_t *told = json_object_get(message, "usage");
	const struct agent_usage u = usage_of(told);
	turn_step(t, sink, json_get_str(message, "id"), json_get_str(message, "model"), told ? &u : NULL);
	json_array_foreach(json_object_get(message, "content"), i, block)
	{
		const char *type = json_get_str(block, "type");
		if (str_eq(type, "text"))
			turn_set(&t->text, json_get_str(block, "text"));
		else if (str_eq(type, "tool_use"))
			turn_tool_begins(t, sink, json_get_str(block, "id"), json_get_str(block, "name"),
					 json_object_get(block, "input"));
	}
}

static size_t text_length(const json_t *content)
{
	size_t i, n = json_string_length(content);
	const json_t *part;

	json_array_foreach(content, i, part) n += json_string_length(json_object_get(part, "text"));
	return n;
}

static void on_user(struct agent_turn *t, const struct agent_sink *sink, const json_t *line)
{
	size_t i;
	const json_t *block;
	bool results = false;

	json_array_foreach(json_object_get(json_object_get(line, "message"), "content"), i, block)
	{
		if (!str_eq(json_get_str(block, "type"), "tool_result"))
			continue;
		results = true;
		turn_tool_ends(t, sink, json_get_str(block, "tool_use_id"),
			       text_length(json_object_get(block, "content")),
			       json_is_true(json_object_get(block, "is_error")));
	}
	/* With the last of its results the model is asked again. */
	if (results && json_object_size(t->calls) == 0)
		turn_asks(t, sink, "claude_code", t->model);
}

static void count_models(struct agent_turn *t, json_t *models)
{
	const char *name;
	const json_t *m;

	json_object_foreach(models, name, m)
	{
		const struct agent_usage u = {
			.input = turn_tokens(json_object_get(m, "inputTokens")),
			.output = turn_tokens(json_object_get(m, "outputTokens")),
			.cache_read = turn_tokens(json_object_get(m, "cacheReadInputTokens")),
			.cache_write = turn_tokens(json_object_get(m, "cacheCreationInputTokens")),
		};
		usage_add(&t->usage, &u);
	}
}

static void count(struct agent_turn *t, const json_t *line)
{
	const json_t *u = json_object_get(line, "usage"), *cost = json_object_get(line, "total_cost_usd");

	t->usage = (struct agent_usage){0};
	if (json_object_size(json_object_get(line, "modelUsage")) > 0)
		count_models(t, json_object_get(line, "modelUsage"));
	else
		t->usage = usage_of(u);
	if (json_is_number(cost))
		t->cost_usd = MAX(0, MIN(json_number_value(cost), 1e9));
}

static void take_error(struct agent_turn *t, const json_t *line)
{
	const json_t *status = json_object_get(line, "api_error_status");
	const char *first = json_string_value(json_array_get(json_object_get(line, "errors"), 0));
	const char *subtype = json_get_str(line, "subtype"), *said = json_get_str(line, "result");

	t->status = (int)MAX(0, MIN(json_integer_value(status), (json_int_t)999));
	t->retryable = t->status > 0 && retry_status(t->status);
	t->at_limit = str_eq(subtype, "error_max_turns");
	turn_set(&t->error, said && *said ? said : first ? first : subtype ? subtype : "an error without a name");
}

static void on_result(struct agent_turn *t, const json_t *line)
{
	json_t *structured = json_object_get(line, "structured_output");

	t->ended = true;
	t->failed = !json_is_false(json_object_get(line, "is_error"));
	turn_set_session(t, json_get_str(line, "session_id"));
	turn_set(&t->text, json_get_str(line, "result"));
	if (json_is_object(structured)) {
		json_decref(t->structured);
		t->structured = json_incref(structured);
	}
	t->denied = (unsigned)MIN(json_array_size(json_object_get(line, "permission_denials")), (size_t)100000);
	count(t, line);
	if (t->failed)
		take_error(t, line);
}

void claude_line(struct agent_turn *t, const struct agent_sink *sink, const json_t *line)
{
	const char *type = json_get_str(line, "type");

	if (str_eq(type, "system"))
		on_system(t, sink, line);
	else if (str_eq(type, "assistant"))
		on_assistant(t, sink, line);
	else if (str_eq(type, "user"))
		on_user(t, sink, line);
	else if (str_eq(type, "result"))
		on_result(t, line);
}

void claude_end(struct agent_turn *t, const char *stderr_text)
{
	static const char missing[] = "No conversation found with session ID";

	t->lost_session = strstr(stderr_text, missing) || (t->error && strstr(t->error, missing));
}
