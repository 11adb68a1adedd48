/* OpenAI's Responses. Nothing is kept at the provider (store: false): the whole conversation goes with each request,
 * and a model's reasoning comes back sealed, to be handed in again. The seal stands in the neutral form's signature,
 * behind a mark of this provider. Source: https://platform.openai.com/docs/api-reference/responses,
 * …/responses-streaming */
#include "api.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "openai:";

/* --- the request --- */

static json_t *make_tool(const char *name, const json_t *tool)
{
	json_t *o = json_object();
	json_t *schema = json_object_get(tool, "input_schema");

	json_put_str(o, "type", "function");
	json_put_str(o, "name", name);
	json_put_str(o, "description", json_get_str(tool, "description"));
	json_put(o, "parameters", schema ? json_incref(schema) : json_pack("{s:s}", "type", "object"));
	json_put_bool(o, "strict", false);
	return o;
}

static void add_image(json_t *content, const json_t *block)
{
	auto_free char *url = body_image_url(block);

	if (url)
		(void)json_array_append_new(content, json_pack("{s:s, s:s}", "type", "input_image", "image_url", url));
}

static void add_result(json_t *input, json_t *content, const json_t *block)
{
	auto_free char *text = body_result_text(block);
	auto_json images = body_result_images(block);
	const char *id = json_get_str(block, "tool_use_id");
	json_t *o = json_object(), *image;
	size_t i;

	json_put_str(o, "type", "function_call_output");
	json_put_str(o, "call_id", id ? id : "");
	json_put(o, "output", json_text(text, strlen(text)));
	(void)json_array_append_new(input, o);
	json_array_foreach(images, i, image) add_image(content, image);
}

static void add_call(json_t *input, const json_t *block)
{
	const char *id = json_get_str(block, "id"), *name = json_get_str(block, "name");
	auto_free char *wire = llm_tool_name(name ? name : "");
	auto_free char *arguments = body_input_text(block);
	json_t *o = json_object();

	json_put_str(o, "type", "function_call");
	json_put_str(o, "call_id", id ? id : "");
	json_put_str(o, "name", wire);
	json_put(o, "arguments", json_text(arguments, strlen(arguments)));
	(void)json_array_append_new(input, o);
}

static void add_reasoning(json_t *input, const json_t *block)
{
	const char *sealed = body_unmark(json_get_str(block, "signature"), mark);
	const char *text = json_get_str(block, "thinking");
	json_t *summary = json_array(), *o;

	if (!sealed) {
		json_decref(summary);
		return;
	}
	if (text && *text)
		(void)json_array_append_new(summary, json_pack("{s:s, s:s}", "type", "summary_text", "text", text));
	o = json_object();
	json_put_str(o, "type", "reasoning");
	json_put(o, "summary", summary);
	json_put_str(o, "encrypted_content", sealed);
	(void)json_array_append_new(input, o);
}

static void add_message(json_t *input, const char *role, json_t *content)
{
	if (json_array_size(content))
		(void)json_array_append_new(
			input, json_pack("{s:s, s:s, s:O}", "type", "message", "role", role, "content", content));
}

/* The items keep the order of the blocks; texts of one message that stand together are one item. */
static void add_blocks(json_t *input, const json_t *message)
{
	bool user = !str_eq(json_get_str(message, "role"), "assistant");
	const char *role = user ? "user" : "assistant", *kind = user ? "input_text" : "output_text";
	auto_json blocks = body_blocks(message);
	auto_json content = json_array();
	json_t *block;
	size_t i;

	json_array_foreach(blocks, i, block)
	{
		const char *type = json_get_str(block, "type"), *text = json_get_str(block, "text");
		if (str_eq(type, "text") && text && *text) {
			(void)json_array_append_new(content, json_pack("{s:s, s:s}", "type", kind, "text", text));
		} else if (str_eq(type, "image") && user) {
			add_image(content, block);
		} else if (str_eq(type, "tool_result")) {
			add_result(input, content, block);
		} else if (!user && (str_eq(type, "tool_use") || str_eq(type, "thinking"))) {
			add_message(input, role, content);
			json_decref(content);
			content = json_array();
			if (str_eq(type, "tool_use"))
				add_call(input, block);
			else
				add_reasoning(input, block);
		}
	}
	add_message(input, role, content);
}

/* Models that reason, and give it sealed. */
static bool reasons(const struct llm_ask *a)
{
	const char *m = a->model;

	return a->effort || str_starts(m, "gpt-5") || (m[0] == 'o' && m[1] >= '1' && m[1] <= '9');
}

static json_t *make_body(const struct llm_ask *a)
{
	json_t *o = json_object(), *input = json_array();
	const json_t *message;
	auto_free char *forced = body_forced(a);
	size_t i;

	json_put_str(o, "model", a->model);
	json_put_bool(o, "stream", true);
	json_put_bool(o, "store", false);
	json_put_str(o, "instructions", a->system);
	json_array_foreach(a->messages, i, message) add_blocks(input, message);
	json_put(o, "input", input);
	if (json_array_size(a->tools))
		json_put(o, "tools", body_tools(a->tools, make_tool));
	if (forced)
		json_put(o, "tool_choice", json_pack("{s:s, s:s}", "type", "function", "name", forced));
	if (a->max_tokens > 0)
		json_put_int(o, "max_output_tokens", a->max_tokens);
	if (reasons(a))
		json_put(o, "include", json_pack("[s]", "reasoning.encrypted_content"));
	/* xhigh is the highest word that this interface has. */
	if (a->effort)
		json_put(o, "reasoning",
			 json_pack("{s:s, s:s}", "effort", str_eq(a->effort, "max") ? "xhigh" : a->effort, "summary",
				   "auto"));
	return o;
}

/* --- the answer --- */

static int item_added(struct llm_reader *r, const json_t *data)
{
	const json_t *item = json_object_get(data, "item");
	const char *type = json_get_str(item, "type");
	const char *id = json_get_str(item, "call_id"), *name = json_get_str(item, "name");
	long long index = json_integer_value(json_object_get(data, "output_index"));
	bool call = str_eq(type, "function_call");

	if (reader_block(r, index) || (!call && !str_eq(type, "message") && !str_eq(type, "reasoning")))
		return 0;
	struct llm_block *b = reader_add(r,
					 call			     ? BLOCK_TOOL
					 : str_eq(type, "reasoning") ? BLOCK_THINKING
								     : BLOCK_TEXT,
					 index);
	if (!b)
		return r->failed;
	if (call && (!id || !name))
		return -EPROTO;
	b->id = call ? xstrdup(id) : NULL;
	b->name = call ? xstrdup(name) : NULL;
	return 0;
}

static int text_delta(struct llm_reader *r, const json_t *data, enum block_kind kind)
{
	struct llm_block *b = reader_block(r, json_integer_value(json_object_get(data, "output_index")));

	return b && b->kind == kind ? reader_text(r, b, json_get_str(data, "delta")) : -EPROTO;
}

/* Servers that do not stream a part tell it whole here. */
static int item_text(struct llm_reader *r, struct llm_block *b, const json_t *item)
{
	bool reasoning = b->kind == BLOCK_THINKING;
	const json_t *parts = json_object_get(item, reasoning ? "summary" : "content"), *part;
	int bad = 0;
	size_t i;

	if (b->kind == BLOCK_TOOL)
		return reader_text(r, b, json_get_str(item, "arguments"));
	json_array_foreach(parts, i, part)
	{
		const char *text = json_get_str(part, "text");
		if (!text)
			text = json_get_str(part, "refusal");
		if (bad == 0)
			bad = reader_text(r, b, text);
	}
	return bad;
}

static int item_done(struct llm_reader *r, const json_t *data)
{
	const json_t *item = json_object_get(data, "item");
	const char *sealed = json_get_str(item, "encrypted_content");
	int bad = item_added(r, data);
	struct llm_block *b = reader_block(r, json_integer_value(json_object_get(data, "output_index")));

	if (bad < 0 || !b || b->whole)
		return bad;
	b->whole = true;
	if (!b->text.len)
		bad = item_text(r, b, item);
	if (bad == 0 && sealed && b->kind == BLOCK_THINKING) {
		bad = reader_seal(r, b, mark);
		if (bad == 0)
			bad = reader_seal(r, b, sealed);
	}
	return bad;
}

static int completed(struct llm_reader *r, const json_t *data)
{
	const json_t *response = json_object_get(data, "response");
	const json_t *u = json_object_get(response, "usage");
	const char *why = json_get_str(json_object_get(response, "incomplete_details"), "reason");
	int64_t cached = reader_count(json_object_get(u, "input_tokens_details"), "cached_tokens");
	int64_t input = reader_count(u, "input_tokens");

	r->usage = (struct agent_usage){
		.input = input > cached ? input - cached : 0,
		.output = reader_count(u, "output_tokens"),
		.cache_read = cached,
	};
	r->complete = true;
	if (why)
		r->stop_reason = str_eq(why, "content_filter") ? "refusal" : "max_tokens";
	return 0;
}

static int on_event(struct llm_reader *r, const char *name, const json_t *data)
{
	const char *type = json_get_str(data, "type");

	if (!type)
		type = name;
	if (str_eq(type, "response.output_item.added"))
		return item_added(r, data);
	if (str_eq(type, "response.output_text.delta") || str_eq(type, "response.refusal.delta"))
		return text_delta(r, data, BLOCK_TEXT);
	if (str_eq(type, "response.reasoning_summary_text.delta"))
		return text_delta(r, data, BLOCK_THINKING);
	if (str_eq(type, "response.function_call_arguments.delta"))
		return text_delta(r, data, BLOCK_TOOL);
	if (str_eq(type, "response.output_item.done"))
		return item_done(r, data);
	if (str_eq(type, "response.completed") || str_eq(type, "response.incomplete"))
		return completed(r, data);
	if (str_eq(type, "response.failed"))
		return reader_refused(r, json_object_get(json_object_get(data, "response"), "error"));
	if (str_eq(type, "error"))
		return reader_refused(r, json_is_object(json_object_get(data, "error")) ? json_object_get(data, "error")
											: data);
	return 0;
}

const struct llm_ops llm_responses = {.body = make_body, .on_event = on_event};
