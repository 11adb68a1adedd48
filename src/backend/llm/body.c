/* What the providers' bodies share: reading the neutral conversation. It comes from the sandbox, so nothing about it is
 * taken for granted; what has no sense is left out, and the provider's answer to the rest is an error like others. */
#include "api.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 64, RESULT_MOST = 4 * 1024 * 1024 };

char *llm_tool_name(const char *name)
{
	auto_buf to = BUF_INIT(4096);
	uint32_t hash = 2166136261u; /* FNV-1a: a long name's end still tells it from others */

	for (const char *c = name; *c; c++) {
		bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
			     *c == '_' || *c == '-';
		(void)buf_puts(&to, plain ? (char[]){*c, '\0'} : *c == '.' ? "__" : "_");
		hash = (hash ^ (unsigned char)*c) * 16777619u;
	}
	if (to.len > NAME_MOST)
		return xasprintf("%.*s_%08x", NAME_MOST - 9, buf_str(&to), hash);
	return to.len ? buf_steal(&to) : xstrdup("_");
}

json_t *body_blocks(const json_t *message)
{
	json_t *content = json_object_get(message, "content");

	if (json_is_array(content))
		return json_incref(content);
	json_t *list = json_array();
	if (json_is_string(content)) {
		json_t *b = json_object();
		json_put_str(b, "type", "text");
		json_put(b, "text", json_incref(content));
		(void)json_array_append_new(list, b);
	}
	return list;
}

char *body_result_text(const json_t *block)
{
	const json_t *content = json_object_get(block, "content");
	auto_buf text = BUF_INIT(RESULT_MOST);
	const json_t *part;
	size_t i;

	if (json_is_string(content))
		(void)buf_add(&text, json_string_value(content), json_string_length(content));
	json_array_foreach(content, i, part)
	{
		const char *s = json_get_str(part, "text");
		if (s && text.len)
			(void)buf_putc(&text, '\n');
		if (s)
			(void)buf_puts(&text, s);
	}
	return buf_steal(&text);
}

json_t *body_result_images(const json_t *block)
{
	json_t *list = json_array(), *part;
	const json_t *content = json_object_get(block, "content");
	size_t i;

	json_array_foreach(content, i, part) if (str_eq(json_get_str(part, "type"), "image"))(void)
		json_array_append(list, part);
	return list;
}

char *body_image_url(const json_t *block)
{
	const json_t *source = json_object_get(block, "source");
	const char *type = json_get_str(source, "media_type"), *data = json_get_str(source, "data");

	return type && data ? xasprintf("data:%s;base64,%s", type, data) : NULL;
}

char *body_input_text(const json_t *block)
{
	const json_t *input = json_object_get(block, "input");

	return json_is_object(input) ? json_compact(input) : xstrdup("{}");
}

json_t *body_tools(const json_t *tools, json_t *(*make)(const char *name, const json_t *tool))
{
	json_t *list = json_array();
	const json_t *tool;
	size_t i;

	json_array_foreach(tools, i, tool)
	{
		const char *name = json_get_str(tool, "name");
		if (!name)
			continue;
		auto_free char *wire = llm_tool_name(name);
		(void)json_array_append_new(list, make(wire, tool));
	}
	return list;
}

char *body_forced(const struct llm_ask *a)
{
	const char *name = json_get_str(a->tool_choice, "name");

	return name && str_eq(json_get_str(a->tool_choice, "type"), "tool") ? llm_tool_name(name) : NULL;
}

const char *body_unmark(const char *seal, const char *mark)
{
	return seal && str_starts(seal, mark) ? seal + strlen(mark) : NULL;
}

json_t *llm_body(enum llm_api api, const struct llm_ask *a)
{
	static const struct llm_ops *const all[N_LLM_APIS] = {&llm_anthropic, &llm_responses, &llm_chat};

	return all[api]->body(a);
}

long long llm_context_window(const char *model)
{
	/* By the makers' model pages; what is not known is taken for a middling one, so that a compaction comes too
	 * early rather than too late. */
	static const struct {
		const char *part;
		long long tokens;
	} known[] = {
		{"[1m]", 1000000},  {"claude", 200000}, {"gpt-4.1", 1047576}, {"gpt-5", 400000}, {"codex", 200000},
		{"gpt-4o", 128000}, {"o1", 200000},	{"o3", 200000},	      {"o4", 200000},	 {"gemini", 1000000},
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strstr(model, known[i].part))
			return known[i].tokens;
	return 128000;
}
