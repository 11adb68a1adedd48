/* A tool's answer is a list of content blocks. Those of a form that is known are kept; each also becomes text, which is
 * all that many models take. A block of another kind is named in the text, and nothing of it is passed on. */
#include "result.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1024 * 1024, BLOCKS_MAX = 1024, WORD_SHOWN = 200 };

static void put(struct buf *to, const char *text)
{
	size_t room = to->max - to->len, len = strlen(text);

	(void)buf_add(to, text, MIN(len, room));
}

/* Bytes behind base64, nearly. */
static size_t decoded(const char *base64)
{
	return strlen(base64) / 4 * 3;
}

static bool image_or_audio(const json_t *b, const char *type, struct buf *to)
{
	const char *data = json_get_str(b, "data"), *mime = json_get_str(b, "mimeType");
	char words[WORD_SHOWN * 2];

	if (!data || !mime)
		return false;
	(void)snprintf(words, sizeof words, "[%s: %.100s, %zu bytes]", type, mime, decoded(data));
	put(to, words);
	return true;
}

static bool resource(const json_t *b, struct buf *to)
{
	const json_t *r = json_object_get(b, "resource");
	const char *uri = json_get_str(r, "uri"), *text = json_get_str(r, "text"), *blob = json_get_str(r, "blob");
	char words[WORD_SHOWN * 2];

	if (!uri || (!text && !blob))
		return false;
	if (text) {
		put(to, text);
		return true;
	}
	(void)snprintf(words, sizeof words, "[resource: %.*s, %zu bytes]", WORD_SHOWN, uri, decoded(blob));
	put(to, words);
	return true;
}

static bool resource_link(const json_t *b, struct buf *to)
{
	const char *uri = json_get_str(b, "uri"), *name = json_get_str(b, "name");
	char words[WORD_SHOWN * 3];

	if (!uri)
		return false;
	(void)snprintf(words, sizeof words, "[link: %.*s %.*s]", WORD_SHOWN, name ? name : "", WORD_SHOWN, uri);
	put(to, words);
	return true;
}

/* Whether the block has the form of its type; its text is added. */
static bool read_block(const json_t *b, struct buf *to)
{
	const char *type = json_get_str(b, "type"), *text = json_get_str(b, "text");

	if (str_eq(type, "text") && text) {
		put(to, text);
		return true;
	}
	if (str_eq(type, "image") || str_eq(type, "audio"))
		return image_or_audio(b, type, to);
	if (str_eq(type, "resource"))
		return resource(b, to);
	return str_eq(type, "resource_link") && resource_link(b, to);
}

static void read_blocks(const json_t *content, json_t *kept, struct buf *to)
{
	size_t i;
	json_t *b;

	json_array_foreach(content, i, b)
	{
		const char *type = json_get_str(b, "type");
		char words[WORD_SHOWN];
		if (to->len > 0)
			put(to, "\n");
		if (read_block(b, to)) {
			(void)json_array_append(kept, b);
			continue;
		}
		(void)snprintf(words, sizeof words, "[content of a kind that is not known: %.60s]", type ? type : "?");
		put(to, words);
	}
}

int mcp_result_read(const char *server, const json_t *result, struct mcp_result *ret, struct err *e)
{
	const json_t *content = json_object_get(result, "content"), *failed = json_object_get(result, "isError");
	json_t *structured = json_object_get(result, "structuredContent");

	if (!json_is_object(result) || (content && !json_is_array(content)) || (!content && !structured) ||
	    json_array_size(content) > BLOCKS_MAX || (failed && !json_is_boolean(failed))) {
		int r = err_set(e, ERR_PROTOCOL, EPROTO, "MCP server %s: its answer is no result of a tool", server);
		err_hint(e, "the server does not keep to the protocol; a newer version of it may");
		return r;
	}
	struct buf text = BUF_INIT(TEXT_MAX);
	json_t *kept = json_array();
	read_blocks(content, kept, &text);
	if (text.len == 0 && json_is_object(structured)) {
		char *words = json_compact(structured);
		put(&text, words);
		free(words);
	}
	/* A cut may have split a character. */
	auto_buf clean = BUF_INIT(3 * (size_t)TEXT_MAX);
	if (text.len == text.max) {
		(void)utf8_sanitize(&clean, text.data, text.len);
		(void)buf_puts(&clean, "\n[the rest is left out: it is too long]");
		buf_done(&text);
		text = clean;
		clean = BUF_INIT(0);
	}
	*ret = (struct mcp_result){
		.text = buf_steal(&text),
		.content = kept,
		.structured = json_is_object(structured) ? json_incref(structured) : NULL,
		.is_error = json_is_true(failed),
	};
	return 0;
}

void mcp_result_failure(const char *text, struct mcp_result *ret)
{
	json_t *block = json_object();

	json_put_str(block, "type", "text");
	json_put_str(block, "text", text);
	*ret = (struct mcp_result){.text = xstrdup(text), .content = json_array(), .is_error = true};
	(void)json_array_append_new(ret->content, block);
}

void mcp_result_done(struct mcp_result *r)
{
	/* The text was allocated here; to others it is not theirs to change. */
	union {
		const char *is;
		char *ours;
	} text = {.is = r->text};

	free(text.ours);
	json_decref(r->content);
	json_decref(r->structured);
	*r = (struct mcp_result){0};
}
