/* The conversation.
 *
 * A message is kept as the text it came in: it goes out again with every request, and thinking blocks carry signatures
 * that a re-encoding might break. Parsed is only the message at hand. What comes from outside (a replayed conversation,
 * the model's message) is checked here once, so that the rest may rely on its shape. */
#include "chat.h"

#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void chat_done(struct chat *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].json);
	free(c->v);
	*c = (struct chat){0};
}

static bool is_string(struct jv v)
{
	return jv_type(v) == J_STRING;
}

static bool block_valid(struct jv b)
{
	struct jv type = jv_get(b, "type");

	if (jv_is(type, "text"))
		return is_string(jv_get(b, "text"));
	if (jv_is(type, "tool_use"))
		return is_string(jv_get(b, "id")) && is_string(jv_get(b, "name")) &&
		       jv_type(jv_get(b, "input")) == J_OBJECT;
	if (jv_is(type, "tool_result"))
		return is_string(jv_get(b, "tool_use_id"));
	/* thinking, image, and what a provider may add: passed on. */
	return is_string(type);
}

bool chat_message_valid(struct jv message, const char *role)
{
	struct jv content = jv_get(message, "content");

	if (!jv_is(jv_get(message, "role"), role))
		return false;
	if (jv_type(content) == J_STRING)
		return true;
	if (jv_type(content) != J_ARRAY)
		return false;
	for (struct jv b = jv_first(content); b.doc; b = jv_next(b))
		if (!block_valid(b))
			return false;
	return true;
}

int chat_load(struct chat *c, struct jv messages, struct err *e)
{
	size_t at = 0;

	for (struct jv m = jv_first(messages); m.doc; m = jv_next(m), at++) {
		bool assistant = chat_message_valid(m, "assistant");
		if (!assistant && !chat_message_valid(m, "user"))
			return err_set(e, ERR_PROTOCOL, EPROTO, "read the conversation: message %zu is malformed", at);
		size_t len;
		const char *raw = jv_raw(m, &len);
		chat_add(c, assistant, xstrndup(raw, len), len);
	}
	return 0;
}

void chat_add(struct chat *c, bool assistant, char *json, size_t len)
{
	c->v = grow_array(c->v, c->n, &c->cap, sizeof *c->v);
	c->v[c->n++] = (struct msg){.json = json, .len = len, .assistant = assistant};
	c->bytes += len;
}

void chat_drop_last(struct chat *c)
{
	if (!c->n)
		return;
	c->bytes -= c->v[--c->n].len;
	free(c->v[c->n].json);
}

static void text_block(struct jout *o, const char *text, size_t len)
{
	jout_open(o, '{');
	jout_put_str(o, "type", "text");
	jout_key(o, "text");
	jout_text(o, text, len);
	jout_close(o, '}');
}

/* The blocks of the last message, when that is the user's. */
static void old_blocks(const struct chat *c, struct jout *o)
{
	const struct msg *last = c->n && !c->v[c->n - 1].assistant ? &c->v[c->n - 1] : NULL;
	auto_jdoc d = last ? jdoc_parse(last->json, last->len, NULL) : NULL;
	struct jv content = d ? jv_get(jdoc_root(d), "content") : (struct jv){0};

	if (jv_type(content) == J_STRING) {
		jout_open(o, '{');
		jout_put_str(o, "type", "text");
		jout_put_value(o, "text", content);
		jout_close(o, '}');
		return;
	}
	for (struct jv b = jv_first(content); b.doc; b = jv_next(b))
		jout_value(o, b);
}

void chat_say(struct chat *c, const char *text, size_t len)
{
	struct buf b = BUF_INIT(SIZE_MAX);
	struct jout o = {.b = &b};

	jout_open(&o, '{');
	jout_put_str(&o, "role", "user");
	jout_key(&o, "content");
	jout_open(&o, '[');
	old_blocks(c, &o);
	text_block(&o, text, len);
	jout_close(&o, ']');
	jout_close(&o, '}');
	if (c->n && !c->v[c->n - 1].assistant)
		chat_drop_last(c);
	size_t json_len = b.len;
	chat_add(c, false, buf_steal(&b), json_len);
}

void chat_write(const struct chat *c, size_t from, size_t to, struct jout *o)
{
	for (size_t i = from; i < to; i++)
		jout_raw(o, c->v[i].json, c->v[i].len);
}

char *message_text(struct jv message, size_t *ret_len)
{
	struct jv content = jv_get(message, "content");
	struct buf b = BUF_INIT(SIZE_MAX);

	if (jv_type(content) == J_STRING)
		return jv_text(content, ret_len);
	for (struct jv x = jv_first(content); x.doc; x = jv_next(x)) {
		if (!jv_is(jv_get(x, "type"), "text"))
			continue;
		size_t len;
		char *text = jv_text(jv_get(x, "text"), &len);
		if (b.len)
			(void)buf_putc(&b, '\n');
		(void)buf_add(&b, text, len);
		free(text);
	}
	if (ret_len)
		*ret_len = b.len;
	return buf_steal(&b);
}
