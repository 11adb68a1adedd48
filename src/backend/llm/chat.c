/* Chat Completions, as OpenAI made it and many servers speak it (vLLM, Ollama, OpenRouter, …). They differ in small
 * things, so this asks for little and takes much: calls without ids or indices, counts that come late or never, a
 * stream that ends without its last word once it said why it stopped.
 * Source: https://platform.openai.com/docs/api-reference/chat */
#include "api.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- the request --- */

static json_t *make_tool(const char *name, const json_t *tool)
{
	json_t *f = json_object(), *o = json_object();
	json_t *schema = json_object_get(tool, "input_schema");

	json_put_str(f, "name", name);
	json_put_str(f, "description", json_get_str(tool, "description"));
	json_put(f, "parameters", schema ? json_incref(schema) : json_pack("{s:s}", "type", "object"));
	json_put_str(o, "type", "function");
	json_put(o, "function", f);
	return o;
}

static void add_image(json_t *content, const json_t *block)
{
	auto_free char *url = body_image_url(block);

	if (url)
		(void)json_array_append_new(content,
					    json_pack("{s:s, s:{s:s}}", "type", "image_url", "image_url", "url", url));
}

static void add_user(json_t *list, json_t *content)
{
	const json_t *first = json_array_get(content, 0);
	json_t *o = json_object();

	if (!first) {
		json_decref(o);
		return;
	}
	json_put_str(o, "role", "user");
	/* Servers without images take a plain string only. */
	if (json_array_size(content) == 1 && str_eq(json_get_str(first, "type"), "text"))
		json_put(o, "content", json_incref(json_object_get(first, "text")));
	else
		json_put(o, "content", json_incref(content));
	(void)json_array_append_new(list, o);
}

static void add_result(json_t *list, json_t *content, const json_t *block)
{
	auto_free char *text = body_result_text(block);
	auto_json images = body_result_images(block);
	const char *id = json_get_str(block, "tool_use_id");
	json_t *o = json_object(), *image;
	size_t i;

	json_put_str(o, "role", "tool");
	json_put_str(o, "tool_call_id", id ? id : "");
	json_put(o, "content", json_text(text, strlen(text)));
	(void)json_array_append_new(list, o);
	json_array_foreach(images, i, image) add_image(content, image);
}

/* Results first: they must stand right behind the calls. */
static void add_users_turn(json_t *list, const json_t *message)
{
	auto_json blocks = body_blocks(message);
	auto_json content = json_array();
	json_t *block;
	size_t i;

	json_array_foreach(blocks, i, block)
	{
		const char *type = json_get_str(block, "type"), *text = json_get_str(block, "text");
		if (str_eq(type, "tool_result"))
			add_result(list, content, block);
		else if (str_eq(type, "image"))
			add_image(content, block);
		else if (text && *text)
			(void)json_array_append_new(content, json_pack("{s:s, s:s}", "type", "text", "text", text));
	}
	add_user(list, content);
}

static json_t *make_call(const json_t *block)
{
	const char *id = json_get_str(block, "id"), *name = json_get_str(block, "name");
	auto_free char *wire = llm_tool_name(name ? name : "");
	auto_free char *arguments = body_input_text(block);
	json_t *f = json_object(), *o = json_object();

	json_put_str(f, "name", wire);
	json_put(f, "arguments", json_text(arguments, strlen(arguments)));
	json_put_str(o, "id", id ? id : "");
	json_put_str(o, "type", "function");
	json_put(o, "function", f);
	return o;
}

static void add_models_turn(json_t *list, const json_t *message)
{
	auto_json blocks = body_blocks(message);
	auto_buf text = BUF_INIT(LLM_ANSWER_MAX);
	json_t *o = json_object(), *calls = json_array(), *block;
	size_t i;

	json_array_foreach(blocks, i, block)
	{
		const char *type = json_get_str(block, "type"), *said = json_get_str(block, "text");
		if (str_eq(type, "tool_use"))
			(void)json_array_append_new(calls, make_call(block));
		else if (str_eq(type, "text") && said)
			(void)buf_puts(&text, said);
	}
	json_put_str(o, "role", "assistant");
	json_put(o, "content", text.len ? json_text(text.data, text.len) : json_null());
	if (json_array_size(calls))
		json_put(o, "tool_calls", json_incref(calls));
	if (text.len || json_array_size(calls))
		(void)json_array_append(list, o);
	json_decref(calls);
	json_decref(o);
}

static json_t *make_body(const struct llm_ask *a)
{
	json_t *o = json_object(), *list = json_array();
	auto_free char *forced = body_forced(a);
	const json_t *message;
	size_t i;

	json_put_str(o, "model", a->model);
	json_put_bool(o, "stream", true);
	json_put(o, "stream_options", json_pack("{s:b}", "include_usage", true));
	if (a->system && a->system[0])
		(void)json_array_append_new(list, json_pack("{s:s, s:s}", "role", "system", "content", a->system));
	json_array_foreach(a->messages, i, message)
	{
		if (str_eq(json_get_str(message, "role"), "assistant"))
			add_models_turn(list, message);
		else
			add_users_turn(list, message);
	}
	json_put(o, "messages", list);
	if (json_array_size(a->tools))
		json_put(o, "tools", body_tools(a->tools, make_tool));
	if (forced)
		json_put(o, "tool_choice", json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", forced));
	/* OpenAI's own reasoning models refuse the older name, other servers do not know the newer one. */
	if (a->max_tokens > 0)
		json_put_int(o, a->official ? "max_completion_tokens" : "max_tokens", a->max_tokens);
	if (a->effort)
		json_put_str(o, "reasoning_effort", str_eq(a->effort, "max") ? "xhigh" : a->effort);
	return o;
}

/* --- the answer --- */

enum { TEXT_INDEX = -1, THINKING_INDEX = -2 };

static int take_text(struct llm_reader *r, enum block_kind kind, long long index, const char *text)
{
	struct llm_block *b = reader_block(r, index);

	if (!text || !*text)
		return 0;
	if (!b)
		b = reader_add(r, kind, index);
	return b ? reader_text(r, b, text) : r->failed;
}

/* A piece of a call. Without an index it is a new call when it has a name, else more of the latest. */
static int take_call(struct llm_reader *r, const json_t *piece)
{
	const json_t *f = json_object_get(piece, "function"), *at = json_object_get(piece, "index");
	const char *id = json_get_str(piece, "id"), *name = json_get_str(f, "name");
	long long latest = -1;

	for (size_t i = 0; i < r->n; i++)
		latest = MAX(latest, r->blocks[i].index);
	long long index = json_is_integer(at) ? json_integer_value(at) : name && *name ? latest + 1 : latest;
	struct llm_block *b = index >= 0 ? reader_block(r, index) : NULL;
	if (!b) {
		if (index < 0 || !name || !*name)
			return -EPROTO;
		b = reader_add(r, BLOCK_TOOL, index);
		if (!b)
			return r->failed;
		b->id = id && *id ? xstrdup(id) : xasprintf("call_%zu", r->n);
		b->name = xstrdup(name);
	}
	return reader_text(r, b, json_get_str(f, "arguments"));
}

static int take_delta(struct llm_reader *r, const json_t *delta)
{
	const json_t *calls = json_object_get(delta, "tool_calls"), *call;
	const char *thought = json_get_str(delta, "reasoning_content");
	size_t i;

	if (!thought)
		thought = json_get_str(delta, "reasoning");
	int bad = take_text(r, BLOCK_THINKING, THINKING_INDEX, thought);
	if (bad == 0)
		bad = take_text(r, BLOCK_TEXT, TEXT_INDEX, json_get_str(delta, "content"));
	if (bad == 0)
		bad = take_text(r, BLOCK_TEXT, TEXT_INDEX, json_get_str(delta, "refusal"));
	json_array_foreach(calls, i, call) if (bad == 0) bad = take_call(r, call);
	return bad;
}

static const char *stop_reason(const char *word)
{
	return str_eq(word, "tool_calls") || str_eq(word, "function_call") ? "tool_use"
	       : str_eq(word, "length")					   ? "max_tokens"
	       : str_eq(word, "content_filter")				   ? "refusal"
									   : "end_turn";
}

static void take_usage(struct llm_reader *r, const json_t *u)
{
	int64_t cached = reader_count(json_object_get(u, "prompt_tokens_details"), "cached_tokens");
	int64_t input = reader_count(u, "prompt_tokens");

	if (!json_is_object(u))
		return;
	r->usage = (struct agent_usage){
		.input = input > cached ? input - cached : 0,
		.output = reader_count(u, "completion_tokens"),
		.cache_read = cached,
	};
}

static int on_event(struct llm_reader *r, const char *name, const json_t *data)
{
	const json_t *choice = json_array_get(json_object_get(data, "choices"), 0);
	const json_t *error = json_object_get(data, "error");
	const char *reason = json_get_str(choice, "finish_reason");

	(void)name;
	if (json_is_object(error))
		return reader_refused(r, error);
	int bad = take_delta(r, json_object_get(choice, "delta"));
	take_usage(r, json_object_get(data, "usage"));
	if (reason) {
		r->stop_reason = stop_reason(reason);
		r->complete = true;
	}
	return bad;
}

const struct llm_ops llm_chat = {.body = make_body, .on_event = on_event};
