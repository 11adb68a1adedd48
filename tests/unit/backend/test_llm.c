/* What providers are asked and what their streams come to: every stream is read whole and cut at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "llm/llm.h"
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- streams --- */

#define EV(name, data) "event: " name "\ndata: " data "\n\n"
#define DATA(data) "data: " data "\n\n"

/* One event of a stream; data NULL: a comment. */
struct piece {
	const char *name, *data;
};

static const struct piece anthropic_pieces[] = {
	{NULL, NULL},
	{"message_start", "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"cache_read_input_"
			  "tokens\":7,\"cache_creation_input_tokens\":3,\"output_tokens\":1}}}"},
	{"content_block_start",
	 "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}"},
	{"content_block_delta",
	 "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}"},
	{"content_block_delta", "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\","
				"\"signature\":\"c2ln\"}}"},
	{"content_block_stop", "{\"type\":\"content_block_stop\",\"index\":0}"},
	{"ping", "{\"type\":\"ping\"}"},
	{"content_block_start",
	 "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}"},
	{"content_block_delta",
	 "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\u00e4b\"}}"},
	{"content_block_start", "{\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_"
				"use\",\"id\":\"t1\",\"name\":\"mcp__s__t\",\"input\":{}}}"},
	{"content_block_delta", "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_"
				"delta\",\"partial_json\":\"{\\\"a\\\":\"}}"},
	{"content_block_delta", "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_"
				"delta\",\"partial_json\":\"1}\"}}"},
	{"message_delta",
	 "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":42}}"},
	{"message_stop", "{\"type\":\"message_stop\"}"},
};

static const struct piece responses_pieces[] = {
	{"response.created", "{\"type\":\"response.created\",\"response\":{}}"},
	{"response.output_item.added", "{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":"
				       "\"reasoning\",\"summary\":[]}}"},
	{"response.reasoning_summary_text.delta",
	 "{\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,\"delta\":\"hm\"}"},
	{"response.output_item.done", "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":"
				      "\"reasoning\",\"summary\":[{\"text\":\"hm\"}],\"encrypted_content\":\"c2ln\"}}"},
	{"response.output_item.added",
	 "{\"type\":\"response.output_item.added\",\"output_index\":1,\"item\":{\"type\":\"message\",\"content\":[]}}"},
	{"response.output_text.delta",
	 "{\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"\\u00e4b\"}"},
	{"response.output_item.done",
	 "{\"type\":\"response.output_item.done\",\"output_index\":2,\"item\":{\"type\":\"function_call\",\"call_id\":"
	 "\"t1\",\"name\":\"mcp__s__t\",\"arguments\":\"{\\\"a\\\":1}\"}}"},
	{"response.completed", "{\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":17,\"input_"
			       "tokens_details\":{\"cached_tokens\":7},\"output_tokens\":42}}}"},
};

static const struct piece chat_pieces[] = {
	{NULL, "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"reasoning_content\":\"hm\"}}]}"},
	{NULL, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\u00e4\"}}]}"},
	{NULL, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}"},
	{NULL, "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t1\",\"function\":{"
	       "\"name\":\"mcp__s__t\",\"arguments\":\"\"}}]}}]}"},
	{NULL, "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{"
	       "\\\"a\\\":1}\"}}]}}]}"},
	{NULL, "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}"},
	{NULL, "{\"choices\":[],\"usage\":{\"prompt_tokens\":17,\"prompt_tokens_details\":{\"cached_tokens\":7},"
	       "\"completion_tokens\":42}}"},
	{NULL, "[DONE]"},
};

struct heard {
	struct buf text, thinking;
};

static void on_text(void *arg, bool thinking, const char *text, size_t len)
{
	struct heard *h = arg;

	(void)buf_add(thinking ? &h->thinking : &h->text, text, len);
}

static json_t *own_tools(void)
{
	return json_pack("[{s:s, s:s, s:{s:s}}]", "name", "mcp.s.t", "description", "d", "input_schema", "type",
			 "object");
}

/* Feeds a stream in two pieces; 0 or the error. */
static int read_stream(enum llm_api api, const char *stream, size_t len, size_t cut, struct llm_answer *ret,
		       struct heard *h, struct err *e)
{
	auto_json tools = own_tools();
	struct llm_reader *r = llm_reader_new(api, tools, on_text, h);
	int status = 0;
	int bad = llm_reader_feed(r, stream, cut, &status, e);

	if (bad == 0)
		bad = llm_reader_feed(r, stream + cut, len - cut, &status, e);
	if (bad == 0)
		bad = llm_reader_end(r, ret, e);
	llm_reader_free(r);
	return bad;
}

static void check_answer(enum llm_api api, const struct llm_answer *a, const struct heard *h)
{
	const json_t *content = json_object_get(a->message, "content");
	const json_t *thought = json_array_get(content, 0), *text = json_array_get(content, 1);
	const json_t *call = json_array_get(content, 2);

	assert_string_equal(json_get_str(a->message, "role"), "assistant");
	assert_int_equal(json_array_size(content), 3);
	assert_string_equal(json_get_str(thought, "thinking"), "hm");
	const char *seal = json_get_str(thought, "signature");
	if (api == LLM_CHAT)
		assert_null(seal);
	else
		assert_string_equal(seal, api == LLM_ANTHROPIC ? "c2ln" : "openai:c2ln");
	assert_string_equal(json_get_str(text, "text"), "\xc3\xa4"
							"b");
	assert_string_equal(json_get_str(call, "type"), "tool_use");
	assert_string_equal(json_get_str(call, "name"), "mcp.s.t");
	assert_string_equal(json_get_str(call, "id"), "t1");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(call, "input"), "a")), 1);
	assert_string_equal(a->stop_reason, "tool_use");
	assert_int_equal(a->usage.input, 10);
	assert_int_equal(a->usage.output, 42);
	assert_int_equal(a->usage.cache_read, 7);
	assert_int_equal(a->usage.cache_write, api == LLM_ANTHROPIC ? 3 : 0);
	assert_string_equal(buf_str(&h->text), "\xc3\xa4"
					       "b");
	assert_string_equal(buf_str(&h->thinking), "hm");
}

static const struct {
	enum llm_api api;
	const struct piece *pieces;
	size_t n;
} streams[] = {
	{LLM_ANTHROPIC, anthropic_pieces, ARRAY_LEN(anthropic_pieces)},
	{LLM_RESPONSES, responses_pieces, ARRAY_LEN(responses_pieces)},
	{LLM_CHAT, chat_pieces, ARRAY_LEN(chat_pieces)},
};

/* A stream as it comes over the wire; the caller frees. */
static char *wire(size_t i)
{
	auto_buf to = BUF_INIT(64 * 1024);

	for (size_t k = 0; k < streams[i].n; k++) {
		const struct piece *p = &streams[i].pieces[k];
		if (p->name)
			(void)buf_printf(&to, "event: %s\n", p->name);
		(void)buf_printf(&to, "%s: %s\n\n", p->data ? "data" : "", p->data ? p->data : "comment");
	}
	return buf_steal(&to);
}

static void test_streams_at_every_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		auto_free char *stream = wire(i);
		size_t len = strlen(stream);
		for (size_t cut = 0; cut <= len; cut++) {
			struct heard h = {BUF_INIT(1000), BUF_INIT(1000)};
			struct llm_answer a = {0};
			struct err e = ERR_INIT;
			if (read_stream(streams[i].api, stream, len, cut, &a, &h, &e) < 0)
				fail_msg("stream %zu cut at %zu: %s", i, cut, e.msg);
			check_answer(streams[i].api, &a, &h);
			llm_answer_done(&a);
			buf_done(&h.text);
			buf_done(&h.thinking);
		}
	}
}

/* A stream that ends too early is no answer, wherever it ends. */
static void test_truncated_streams(void **state)
{
	/* What may be missing at the end: the last empty line, and for Chat Completions all behind finish_reason. */
	static const char *const last[] = {"message_stop\"}", "\"output_tokens\":42}}}",
					   "\"finish_reason\":\"tool_"
					   "calls\"}]}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		auto_free char *stream = wire(i);
		const char *end = strstr(stream, last[i]);
		assert_non_null(end);
		size_t enough = (size_t)(end - stream) + strlen(last[i]) + 2;
		for (size_t len = 0; len < enough; len++) {
			struct heard h = {BUF_INIT(1000), BUF_INIT(1000)};
			struct llm_answer a = {0};
			struct err e = ERR_INIT;
			int r = read_stream(streams[i].api, stream, len, 0, &a, &h, &e);
			if (r != -ECONNRESET)
				fail_msg("stream %zu of %zu bytes: %d %s", i, len, r, e.msg);
			assert_true(e.hint[0] != '\0');
			buf_done(&h.text);
			buf_done(&h.thinking);
		}
	}
}

static void test_bad_streams(void **state)
{
	static const struct {
		enum llm_api api;
		const char *stream;
		int want;
		const char *in_msg;
	} rows[] = {
		{LLM_ANTHROPIC, DATA("not json"), -EPROTO, "not a stream"},
		{LLM_ANTHROPIC, DATA("[1]"), -EPROTO, "not a stream"},
		{LLM_ANTHROPIC, EV("content_block_delta", "{\"index\":3,\"delta\":{\"type\":\"text_delta\"}}"), -EPROTO,
		 "not a stream"},
		{LLM_ANTHROPIC, EV("content_block_start", "{\"index\":0,\"content_block\":{\"type\":\"tool_use\"}}"),
		 -EPROTO, "not a stream"},
		{LLM_ANTHROPIC,
		 EV("error", "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}"),
		 -EREMOTEIO, "busy"},
		{LLM_RESPONSES,
		 EV("response.failed", "{\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_"
				       "error\",\"message\":\"oops\"}}}"),
		 -EREMOTEIO, "oops"},
		{LLM_RESPONSES,
		 EV("response.output_text.delta",
		    "{\"type\":\"response.output_text.delta\",\"output_index\":9,\"delta\":"
		    "\"x\"}"),
		 -EPROTO, "not a stream"},
		{LLM_CHAT, DATA("{\"error\":{\"message\":\"no such model\"}}"), -EREMOTEIO, "no such model"},
		{LLM_CHAT, DATA("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"x\"}}]}}]}"),
		 -EPROTO, "not a stream"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct heard h = {BUF_INIT(1000), BUF_INIT(1000)};
		struct llm_answer a = {0};
		struct err e = ERR_INIT;
		assert_int_equal(read_stream(rows[i].api, rows[i].stream, strlen(rows[i].stream), 0, &a, &h, &e),
				 rows[i].want);
		assert_non_null(strstr(e.msg, rows[i].in_msg));
		buf_done(&h.text);
		buf_done(&h.thinking);
	}
}

static void test_answers_are_bounded(void **state)
{
	auto_buf big = BUF_INIT(8 * 1024 * 1024);

	(void)state;
	(void)buf_puts(&big, "data: {\"choices\":[{\"delta\":{\"content\":\"");
	for (unsigned i = 0; i < 1024 * 1024; i++)
		(void)buf_puts(&big, "xxxx");
	(void)buf_puts(&big, "\"}}]}\n\n");
	struct llm_answer a = {0};
	struct err e = ERR_INIT;
	struct heard h = {BUF_INIT(8 * 1024 * 1024), BUF_INIT(100)};
	assert_int_equal(read_stream(LLM_CHAT, buf_str(&big), big.len, 0, &a, &h, &e), -EMSGSIZE);
	buf_done(&h.text);
	/* Many blocks. */
	buf_clear(&big);
	for (unsigned i = 0; i < 400; i++)
		(void)buf_printf(&big,
				 "data: {\"type\":\"content_block_start\",\"index\":%u,\"content_block\":{\"type\":"
				 "\"text\"}}\n\n",
				 i);
	e = ERR_INIT;
	assert_int_equal(read_stream(LLM_ANTHROPIC, buf_str(&big), big.len, 0, &a, &h, &e), -EMSGSIZE);
	buf_done(&h.text);
}

static void test_input_that_is_no_json_is_handed_on(void **state)
{
	static const char stream[] = DATA(
		"{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"Bash\",\"arguments\":\"{bad\"}}]"
		"},\"finish_reason\":\"stop\"}]}");
	struct heard h = {BUF_INIT(1000), BUF_INIT(1000)};
	struct llm_answer a = {0};

	(void)state;
	assert_int_equal(read_stream(LLM_CHAT, stream, strlen(stream), 0, &a, &h, NULL), 0);
	const json_t *call = json_array_get(json_object_get(a.message, "content"), 0);
	assert_string_equal(json_get_str(json_object_get(call, "input"), "_not_json"), "{bad");
	assert_string_equal(a.stop_reason, "tool_use"); /* although the server said stop */
	llm_answer_done(&a);
}

/* --- bodies --- */

static json_t *conversation(void)
{
	return json_loads(
		"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"do it\"},{\"type\":\"image\","
		"\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"AAAA\"}}]},"
		"{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":"
		"\"c2ln\"},{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"openai:abc\"},{\"type\":"
		"\"text\",\"text\":\"ok\"},{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"mcp.s.t\",\"input\":"
		"{\"a\":1}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\","
		"\"content\":\"done\"}]}]",
		0, NULL);
}

static json_t *body(enum llm_api api, const char *model, const char *effort, long long max_tokens, bool forced)
{
	auto_json messages = conversation();
	auto_json tools = own_tools();
	auto_json choice = json_pack("{s:s, s:s}", "type", "tool", "name", "mcp.s.t");
	const struct llm_ask ask = {
		.model = model,
		.system = "be good",
		.messages = messages,
		.tools = tools,
		.tool_choice = forced ? choice : NULL,
		.max_tokens = max_tokens,
		.effort = effort,
	};

	return llm_body(api, &ask);
}

/* The value at a path of keys and indices, as text; NULL: not there. */
static char *at(const json_t *j, const char *path)
{
	auto_free char *copy = xstrdup(path);
	char *state = NULL;

	for (const char *key = strtok_r(copy, ".", &state); j && key; key = strtok_r(NULL, ".", &state))
		j = json_is_array(j) ? json_array_get(j, strtoul(key, NULL, 10)) : json_object_get(j, key);
	return j ? json_compact(j) : NULL;
}

static void test_bodies(void **state)
{
	static const struct {
		enum llm_api api;
		const char *model, *effort;
		long long max_tokens;
		bool forced;
		const char *path, *want; /* want NULL: must not be there */
	} rows[] = {
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "model", "\"claude-sonnet-4-5\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "stream", "true"},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "max_tokens", "32000"},
		{LLM_ANTHROPIC, "claude-3-5-haiku-20241022", NULL, 0, false, "max_tokens", "8192"},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 777, false, "max_tokens", "777"},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "system.0.cache_control.type", "\"ephemeral\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "tools.0.cache_control.type", "\"ephemeral\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "tools.0.name", "\"mcp__s__t\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "messages.2.content.0.cache_control.type",
		 "\"ephemeral\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "messages.0.content.1.cache_control.type",
		 "\"ephemeral\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "messages.0.content.0.cache_control", NULL},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "messages.1.content.0.type", "\"text\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "messages.1.content.1.name", "\"mcp__s__t\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "thinking", NULL},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", NULL, 0, false, "tool_choice", NULL},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", "medium", 0, false, "thinking",
		 "{\"type\":\"enabled\",\"budget_tokens\":10000}"},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", "medium", 0, false, "max_tokens", "42000"},
		/* Only what this provider sealed goes back to it. */
		{LLM_ANTHROPIC, "claude-sonnet-4-5", "medium", 0, false, "messages.1.content.0.signature", "\"c2ln\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", "medium", 0, false, "messages.1.content.1.type", "\"text\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", "max", 4000, false, "thinking.budget_tokens", "2976"},
		{LLM_ANTHROPIC, "claude-sonnet-4-5", "max", 1500, false, "thinking", NULL},
		{LLM_ANTHROPIC, "claude-opus-4-6", "high", 0, false, "thinking", "{\"type\":\"adaptive\"}"},
		{LLM_ANTHROPIC, "claude-opus-4-6", "high", 0, false, "output_config.effort", "\"high\""},
		{LLM_ANTHROPIC, "claude-sonnet-4-20250514", "low", 0, false, "thinking.budget_tokens", "4096"},
		{LLM_ANTHROPIC, "claude-3-5-haiku", "high", 0, false, "thinking", NULL},
		{LLM_ANTHROPIC, "claude-opus-4-6", "high", 0, true, "thinking", NULL},
		{LLM_ANTHROPIC, "claude-opus-4-6", "high", 0, true, "tool_choice",
		 "{\"type\":\"tool\",\"name\":\"mcp__s__t\"}"},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "store", "false"},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "instructions", "\"be good\""},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "input.0.content.1.image_url",
		 "\"data:image/png;base64,AAAA\""},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "input.1.encrypted_content", "\"abc\""},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "input.2.content.0.type", "\"output_text\""},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "input.3",
		 "{\"type\":\"function_call\",\"call_id\":\"t1\",\"name\":\"mcp__s__t\",\"arguments\":\"{\\\"a\\\":1}"
		 "\"}"},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "input.4",
		 "{\"type\":\"function_call_output\",\"call_id\":\"t1\",\"output\":\"done\"}"},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "input.5", NULL},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "include.0", "\"reasoning.encrypted_content\""},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, false, "reasoning", NULL},
		{LLM_RESPONSES, "gpt-4.1", NULL, 0, false, "include", NULL},
		{LLM_RESPONSES, "gpt-5.1", "high", 99, false, "reasoning.effort", "\"high\""},
		{LLM_RESPONSES, "gpt-5.1", "max", 99, false, "reasoning.effort", "\"xhigh\""},
		{LLM_RESPONSES, "gpt-5.1", NULL, 99, false, "max_output_tokens", "99"},
		{LLM_RESPONSES, "gpt-5.1", NULL, 0, true, "tool_choice",
		 "{\"type\":\"function\",\"name\":\"mcp__s__t\"}"},
		{LLM_CHAT, "llama", NULL, 0, false, "messages.0", "{\"role\":\"system\",\"content\":\"be good\"}"},
		{LLM_CHAT, "llama", NULL, 0, false, "messages.1.content.0.text", "\"do it\""},
		{LLM_CHAT, "llama", NULL, 0, false, "messages.2.content", "\"ok\""},
		{LLM_CHAT, "llama", NULL, 0, false, "messages.2.tool_calls.0.function.arguments", "\"{\\\"a\\\":1}\""},
		{LLM_CHAT, "llama", NULL, 0, false, "messages.3",
		 "{\"role\":\"tool\",\"tool_call_id\":\"t1\",\"content\":\"done\"}"},
		{LLM_CHAT, "llama", NULL, 0, false, "messages.4", NULL},
		{LLM_CHAT, "llama", NULL, 55, false, "max_tokens", "55"},
		{LLM_CHAT, "llama", NULL, 0, false, "max_tokens", NULL},
		{LLM_CHAT, "llama", NULL, 0, false, "stream_options.include_usage", "true"},
		{LLM_CHAT, "llama", NULL, 0, true, "tool_choice.function.name", "\"mcp__s__t\""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_json b = body(rows[i].api, rows[i].model, rows[i].effort, rows[i].max_tokens, rows[i].forced);
		auto_free char *got = at(b, rows[i].path);
		if (!str_eq(got, rows[i].want))
			fail_msg("row %zu, %s: %s, not %s", i, rows[i].path, got ? got : "-",
				 rows[i].want ? rows[i].want : "-");
	}
}

/* A hostile conversation makes a body or leaves things out, and never more. */
static void test_senseless_conversations(void **state)
{
	static const char *const texts[] = {
		"[]",
		"[1]",
		"[{}]",
		"[{\"role\":\"user\"}]",
		"[{\"role\":\"user\",\"content\":\"plain\"}]",
		"[{\"role\":\"user\",\"content\":[1,null,{},{\"type\":7},{\"type\":\"image\"},{\"type\":\"tool_"
		"result\"}]}]",
		"[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\"},{\"type\":\"tool_use\",\"input\":3},"
		"{\"type\":\"thinking\"}]}]",
		"[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"x\",\"content\":[{"
		"\"type\":"
		"\"text\",\"text\":\"a\"},{\"type\":\"image\",\"source\":{\"media_type\":\"image/"
		"png\",\"data\":\"A\"}}]}]}"
		"]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		for (enum llm_api api = 0; api < N_LLM_APIS; api++) {
			auto_json messages = json_loads(texts[i], 0, NULL);
			assert_non_null(messages);
			const struct llm_ask ask = {.model = "m", .messages = messages};
			auto_json b = llm_body(api, &ask);
			assert_true(json_is_object(b));
		}
	}
}

/* What the provider would fetch by itself, or carry out, does not reach it: the one name is in everything hostile. */
static void test_only_known_blocks_go_out(void **state)
{
	static const char *const blocks[] = {
		"{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://evil.example/?q\"}}",
		"{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://evil.example/\",\"media_type\":"
		"\"image/png\",\"data\":\"A\"}}",
		"{\"type\":\"document\",\"source\":{\"type\":\"url\",\"url\":\"https://evil.example/\"}}",
		"{\"type\":\"server_tool_use\",\"id\":\"t\",\"name\":\"web_fetch\",\"input\":{\"url\":\"evil.example\"}"
		"}",
		"{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":"
		"\"url\",\"url\":\"https://evil.example/"
		"\"}},{\"type\":\"document\",\"source\":{\"url\":\"evil.example\"}}]}",
		"{\"type\":\"text\",\"text\":\"a\",\"citations\":[{\"url\":\"evil.example\"}]}",
	};
	auto_json tools = json_loads("[{\"type\":\"web_fetch_20250910\",\"name\":\"web_fetch\",\"allowed_domains\":["
				     "\"evil.example\"],\"max_uses\":9}]",
				     0, NULL);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(blocks); i++) {
		auto_free char *text = xasprintf(
			"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"kept\"},%s]}]", blocks[i]);
		for (enum llm_api api = 0; api < N_LLM_APIS; api++) {
			auto_json messages = json_loads(text, 0, NULL);
			assert_non_null(messages);
			const struct llm_ask ask = {.model = "claude-sonnet-4-5", .messages = messages, .tools = tools};
			auto_json b = llm_body(api, &ask);
			auto_free char *sent = json_compact(b);
			assert_non_null(strstr(sent, "kept"));
			if (strstr(sent, "evil.example") || strstr(sent, "web_fetch_20250910"))
				fail_msg("row %zu, interface %d: %s", i, (int)api, sent);
		}
	}
}

static void test_tool_names(void **state)
{
	static const char *const rows[][2] = {
		{"Bash", "Bash"}, {"mcp.git.status", "mcp__git__status"}, {"a b/c", "a_b_c"}, {"", "_"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = llm_tool_name(rows[i][0]);
		assert_string_equal(got, rows[i][1]);
	}
	char a[201], b[201];
	memset(a, 'x', 200);
	memset(b, 'x', 200);
	a[200] = b[200] = '\0';
	b[199] = 'y';
	auto_free char *long_a = llm_tool_name(a);
	auto_free char *long_b = llm_tool_name(b);
	assert_int_equal(strlen(long_a), 64);
	assert_string_not_equal(long_a, long_b);
}

static void test_error_texts(void **state)
{
	static const char *const rows[][2] = {
		{"{\"error\":{\"message\":\"no\\nway\"}}", "no way"},
		{"{\"error\":\"plain\"}", "plain"},
		{"{\"message\":\"m\"}", "m"},
		{"<html>\x1b[31m", "<html>\\x1b[31m"},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = llm_error_text(rows[i][0], strlen(rows[i][0]));
		assert_string_equal(got, rows[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams_at_every_cut),
		cmocka_unit_test(test_truncated_streams),
		cmocka_unit_test(test_bad_streams),
		cmocka_unit_test(test_answers_are_bounded),
		cmocka_unit_test(test_input_that_is_no_json_is_handed_on),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_senseless_conversations),
		cmocka_unit_test(test_only_known_blocks_go_out),
		cmocka_unit_test(test_tool_names),
		cmocka_unit_test(test_error_texts),
	};

	return cmocka_run_group_tests_name("llm", tests, NULL, NULL);
}
