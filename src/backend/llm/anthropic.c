/* Anthropic's Messages. The neutral form is nearly this one, what is added are the
 * marks of prompt caching (tools, system, and the two latest turns of the user, which is all the four that there may
 * be) and extended thinking by effort.
 *
 * What goes out is made of the parts that are known and not copied, because messages come from where the agent's tools
 * are: a picture by its address, or a tool of the provider's own, would be a way out that the network rules never see.
 *
 * Models up to 4.5 think by a budget of tokens, later ones by a word; a forced tool call goes without thinking, since
 * the interface does not take both.
 * Source: https://platform.claude.com/docs/en/api/messages, …/build-with-claude/{prompt-caching,extended-thinking} */
#include "api.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CACHED_TURNS = 2, ANSWER_TOKENS = 32000, OLD_ANSWER_TOKENS = 8192, LEAST_BUDGET = 1024, MOST_TOKENS = 64000 };

/* --- the request --- */

static void mark_cached(json_t *block)
{
	json_t *c = json_object();

	json_put_str(c, "type", "ephemeral");
	json_put(block, "cache_control", c);
}

static json_t *make_tool(const char *name, const json_t *tool)
{
	json_t *o = json_object();
	json_t *schema = json_object_get(tool, "input_schema");

	json_put_str(o, "name", name);
	json_put_str(o, "description", json_get_str(tool, "description"));
	json_put(o, "input_schema", schema ? json_incref(schema) : json_pack("{s:s}", "type", "object"));
	return o;
}

/* "claude-opus-4-6" → 4, 6. Names of before put the version first ("claude-3-5-haiku"). A date is no version. */
static void version_of(const char *model, long *major, long *minor)
{
	const char *p = strstr(model, "claude-");

	*major = *minor = 0;
	p = p ? strpbrk(p, "0123456789") : NULL;
	if (!p)
		return;
	char *end;
	*major = strtol(p, &end, 10);
	if (*end == '-' || *end == '.')
		*minor = strtol(end + 1, NULL, 10);
	if (*minor > 99)
		*minor = 0;
}

static bool thinks_by_word(const char *model)
{
	long major, minor;

	version_of(model, &major, &minor);
	return major > 4 || (major == 4 && minor >= 6);
}

static long long budget_of(const char *effort)
{
	static const struct {
		const char *effort;
		long long tokens;
	} budgets[] = {{"low", 4096}, {"medium", 10000}, {"high", 20000}, {"xhigh", 32000}, {"max", 48000}};

	for (size_t i = 0; i < ARRAY_LEN(budgets); i++)
		if (str_eq(effort, budgets[i].effort))
			return budgets[i].tokens;
	return 0;
}

static long long answer_tokens(const char *model)
{
	long major, minor;

	version_of(model, &major, &minor);
	return major == 3 && minor < 7 ? OLD_ANSWER_TOKENS : ANSWER_TOKENS;
}

static bool can_think(const char *model)
{
	long major, minor;

	version_of(model, &major, &minor);
	return major > 3 || (major == 3 && minor >= 7);
}

/* Sets max_tokens, and thinking when there is to be some. Returns whether there is. */
static bool put_thinking(json_t *body, const struct llm_ask *a, bool forced)
{
	long long most = a->max_tokens > 0 ? a->max_tokens : answer_tokens(a->model);
	long long budget = a->effort && !forced && can_think(a->model) ? budget_of(a->effort) : 0;
	bool by_word = budget && thinks_by_word(a->model);

	if (by_word) {
		json_put(body, "thinking", json_pack("{s:s}", "type", "adaptive"));
		json_put(body, "output_config", json_pack("{s:s}", "effort", a->effort));
	} else if (budget) {
		if (a->max_tokens <= 0)
			most = MIN(most + budget, (long long)MOST_TOKENS);
		budget = MIN(budget, most - LEAST_BUDGET);
		if (budget >= LEAST_BUDGET)
			json_put(body, "thinking",
				 json_pack("{s:s, s:I}", "type", "enabled", "budget_tokens", (json_int_t)budget));
		else
			budget = 0;
	}
	json_put_int(body, "max_tokens", most);
	return budget > 0;
}

static bool is_thinking(const json_t *block)
{
	const char *type = json_get_str(block, "type");

	return str_eq(type, "thinking") || str_eq(type, "redacted_thinking");
}

/* Whether a block may be sent: thinking only where thinking is on, and only what this provider sealed. */
static bool may_send(const json_t *block, bool thinking)
{
	const char *seal = json_get_str(block, "signature");

	if (!is_thinking(block))
		return true;
	return thinking && (!str_eq(json_get_str(block, "type"), "thinking") || (seal && !strchr(seal, ':')));
}

static json_t *text_out(const json_t *block)
{
	const char *text = json_get_str(block, "text");

	return text ? json_pack("{s:s, s:s}", "type", "text", "text", text) : NULL;
}

static json_t *image_out(const json_t *block)
{
	const json_t *source = json_object_get(block, "source");
	const char *type = json_get_str(source, "media_type"), *data = json_get_str(source, "data");

	return type && data ? json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "image", "source", "type", "base64",
					"media_type", type, "data", data)
			    : NULL;
}

static json_t *use_out(const json_t *block)
{
	const char *name = json_get_str(block, "name");
	json_t *input = json_object_get(block, "input"), *o = json_object();
	auto_free char *wire = llm_tool_name(name ? name : "");

	json_put_str(o, "type", "tool_use");
	json_put_str(o, "id", json_get_str(block, "id"));
	json_put_str(o, "name", wire);
	json_put(o, "input", json_is_object(input) ? json_incref(input) : json_object());
	return o;
}

static json_t *result_out(const json_t *block)
{
	json_t *content = json_object_get(block, "content"), *o = json_object(), *list, *part;
	size_t i;

	json_put_str(o, "type", "tool_result");
	json_put_str(o, "tool_use_id", json_get_str(block, "tool_use_id"));
	if (json_is_true(json_object_get(block, "is_error")))
		json_put_bool(o, "is_error", true);
	if (json_is_string(content)) {
		json_put(o, "content", json_incref(content));
		return o;
	}
	list = json_array();
	json_array_foreach(content, i, part)
	{
		json_t *one = str_eq(json_get_str(part, "type"), "image") ? image_out(part) : text_out(part);
		if (one)
			(void)json_array_append_new(list, one);
	}
	json_put(o, "content", list);
	return o;
}

static json_t *thinking_out(const json_t *block)
{
	json_t *o = json_object();

	json_put_str(o, "type", "thinking");
	json_put_str(o, "thinking", json_get_str(block, "thinking"));
	json_put_str(o, "signature", json_get_str(block, "signature"));
	return o;
}

static json_t *sealed_out(const json_t *block)
{
	const char *data = json_get_str(block, "data");

	return data ? json_pack("{s:s, s:s}", "type", "redacted_thinking", "data", data) : NULL;
}

/* NULL: nothing that is known. */
static json_t *block_out(const json_t *block)
{
	static const struct {
		const char *type;
		json_t *(*out)(const json_t *block);
	} kinds[] = {
		{"text", text_out},	     {"image", image_out},	 {"tool_use", use_out},
		{"tool_result", result_out}, {"thinking", thinking_out}, {"redacted_thinking", sealed_out},
	};
	const char *type = json_get_str(block, "type");

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eq(kinds[i].type, type))
			return kinds[i].out(block);
	return NULL;
}

static json_t *messages_out(const struct llm_ask *a, bool thinking)
{
	json_t *list = json_array(), *message, *block;
	size_t i, k;

	json_array_foreach(a->messages, i, message)
	{
		auto_json from = body_blocks(message);
		json_t *to = json_array();
		json_array_foreach(from, k, block)
		{
			json_t *out = may_send(block, thinking) ? block_out(block) : NULL;
			if (out)
				(void)json_array_append_new(to, out);
		}
		if (!json_array_size(to)) {
			json_decref(to);
			continue;
		}
		json_t *o = json_object();
		json_put_str(o, "role", json_get_str(message, "role"));
		json_put(o, "content", to);
		(void)json_array_append_new(list, o);
	}
	return list;
}

static void mark_turns(const json_t *messages)
{
	unsigned marked = 0;

	for (size_t i = json_array_size(messages); i > 0 && marked < CACHED_TURNS; i--) {
		const json_t *m = json_array_get(messages, i - 1);
		const json_t *content = json_object_get(m, "content");
		if (!str_eq(json_get_str(m, "role"), "user"))
			continue;
		mark_cached(json_array_get(content, json_array_size(content) - 1));
		marked++;
	}
}

static json_t *make_body(const struct llm_ask *a)
{
	json_t *o = json_object();
	auto_free char *forced = body_forced(a);

	json_put_str(o, "model", a->model);
	json_put_bool(o, "stream", true);
	bool thinking = put_thinking(o, a, forced != NULL);
	if (a->system && a->system[0]) {
		json_t *block = json_pack("{s:s, s:s}", "type", "text", "text", a->system);
		mark_cached(block);
		json_put(o, "system", json_pack("[o]", block));
	}
	if (json_array_size(a->tools)) {
		json_t *tools = body_tools(a->tools, make_tool);
		mark_cached(json_array_get(tools, json_array_size(tools) - 1));
		json_put(o, "tools", tools);
	}
	if (forced)
		json_put(o, "tool_choice", json_pack("{s:s, s:s}", "type", "tool", "name", forced));
	json_t *messages = messages_out(a, thinking);
	mark_turns(messages);
	json_put(o, "messages", messages);
	return o;
}

/* --- the answer --- */

static int block_start(struct llm_reader *r, const json_t *data)
{
	const json_t *from = json_object_get(data, "content_block");
	const char *type = json_get_str(from, "type");
	enum block_kind kind = str_eq(type, "tool_use")		   ? BLOCK_TOOL
			       : str_eq(type, "thinking")	   ? BLOCK_THINKING
			       : str_eq(type, "redacted_thinking") ? BLOCK_SEALED
								   : BLOCK_TEXT;
	struct llm_block *b = reader_add(r, kind, json_integer_value(json_object_get(data, "index")));
	const char *id = json_get_str(from, "id"), *name = json_get_str(from, "name");

	if (!b)
		return r->failed;
	if (kind == BLOCK_SEALED)
		return reader_seal(r, b, json_get_str(from, "data"));
	if (kind != BLOCK_TOOL)
		return reader_text(r, b, json_get_str(from, kind == BLOCK_TEXT ? "text" : "thinking"));
	if (!id || !name)
		return -EPROTO;
	b->id = xstrdup(id);
	b->name = xstrdup(name);
	return 0;
}

static int block_delta(struct llm_reader *r, const json_t *data)
{
	struct llm_block *b = reader_block(r, json_integer_value(json_object_get(data, "index")));
	const json_t *delta = json_object_get(data, "delta");
	const char *type = json_get_str(delta, "type");

	if (!b || !type)
		return -EPROTO;
	if (str_eq(type, "signature_delta"))
		return reader_seal(r, b, json_get_str(delta, "signature"));
	/* A tool's input grows by its own kind of delta only. */
	const char *key = str_eq(type, "text_delta") && b->kind == BLOCK_TEXT		? "text"
			  : str_eq(type, "thinking_delta") && b->kind == BLOCK_THINKING ? "thinking"
			  : str_eq(type, "input_json_delta") && b->kind == BLOCK_TOOL	? "partial_json"
											: NULL;
	return key ? reader_text(r, b, json_get_str(delta, key)) : 0;
}

/* Counts come in parts; what comes later stands for the whole. */
static void take_usage(struct llm_reader *r, const json_t *u)
{
	const struct {
		const char *key;
		int64_t *to;
	} rows[] = {
		{"input_tokens", &r->usage.input},
		{"output_tokens", &r->usage.output},
		{"cache_read_input_tokens", &r->usage.cache_read},
		{"cache_creation_input_tokens", &r->usage.cache_write},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (json_is_integer(json_object_get(u, rows[i].key)))
			*rows[i].to = reader_count(u, rows[i].key);
}

static const char *stop_reason(const char *word)
{
	return str_eq(word, "tool_use")							     ? "tool_use"
	       : str_eq(word, "refusal")						     ? "refusal"
	       : str_eq(word, "max_tokens") || str_eq(word, "model_context_window_exceeded") ? "max_tokens"
											     : "end_turn";
}

static int on_event(struct llm_reader *r, const char *name, const json_t *data)
{
	const char *type = json_get_str(data, "type");

	if (!type)
		type = name;
	if (str_eq(type, "content_block_start"))
		return block_start(r, data);
	if (str_eq(type, "content_block_delta"))
		return block_delta(r, data);
	if (str_eq(type, "error"))
		return reader_refused(r, json_object_get(data, "error"));
	if (str_eq(type, "message_start")) {
		take_usage(r, json_object_get(json_object_get(data, "message"), "usage"));
	} else if (str_eq(type, "message_delta")) {
		const char *reason = json_get_str(json_object_get(data, "delta"), "stop_reason");
		take_usage(r, json_object_get(data, "usage"));
		if (reason)
			r->stop_reason = stop_reason(reason);
	} else if (str_eq(type, "message_stop")) {
		r->complete = true;
	}
	return 0; /* ping, content_block_stop, and what is added one day */
}

const struct llm_ops llm_anthropic = {.body = make_body, .on_event = on_event};
