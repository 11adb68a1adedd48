/* One step of the loop: the calls of an assistant message and their results.
 *
 * A conversation is only valid when every call has its result in the message that follows; so that message is made when
 * all are there, in the order of the calls whatever the order of their ends. A conversation that was kept in the middle
 * of a step (the runner was killed, somebody was asked) ends with the results so far: those are taken as they are, and
 * only the other calls run. */
#include "step.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int fill(struct step *s)
{
	struct jv content = jv_get(jdoc_root(s->message), "content");
	size_t n = 0;

	for (struct jv b = jv_first(content); b.doc; b = jv_next(b))
		n += jv_is(jv_get(b, "type"), "tool_use");
	if (n > STEP_CALLS)
		return -E2BIG;
	s->v = xcalloc(n + 1, sizeof *s->v);
	for (struct jv b = jv_first(content); b.doc; b = jv_next(b)) {
		if (!jv_is(jv_get(b, "type"), "tool_use"))
			continue;
		auto_free char *id = jv_cstr(jv_get(b, "id"));
		auto_free char *name = jv_cstr(jv_get(b, "name"));
		if (!id || !name || step_find(s, id))
			return -EPROTO;
		s->v[s->n++] = (struct call){
			.id = TAKE_PTR(id),
			.name = TAKE_PTR(name),
			.input = jv_get(b, "input"),
			.result = BUF_INIT(SIZE_MAX),
			.image = BUF_INIT(SIZE_MAX),
		};
	}
	return (int)s->n;
}

int step_open(struct step *s, const char *message, size_t len)
{
	*s = (struct step){.message = jdoc_parse(message, len, NULL)};

	int r = s->message ? fill(s) : -EPROTO;
	if (r <= 0)
		step_done(s);
	return r;
}

void step_done(struct step *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].id);
		free(s->v[i].name);
		buf_done(&s->v[i].result);
		buf_done(&s->v[i].image);
		tool_result_done(&s->v[i].tool.result);
	}
	free(s->v);
	jdoc_free(s->message);
	*s = (struct step){0};
}

struct call *step_find(struct step *s, const char *tool_use_id)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i].id, tool_use_id) == 0)
			return &s->v[i];
	return NULL;
}

size_t step_images(const struct step *s, size_t *ret_bytes)
{
	size_t n = 0;

	*ret_bytes = 0;
	for (size_t i = 0; i < s->n; i++) {
		n += s->v[i].image.len > 0;
		*ret_bytes += s->v[i].image.len;
	}
	return n;
}

bool step_complete(const struct step *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].state != CALL_DONE)
			return false;
	return true;
}

/* Takes over the results of a user message; false when it holds something else than results of this step. */
static bool take_results(struct step *s, struct jv message)
{
	struct call *last = NULL;

	for (struct jv b = jv_first(jv_get(message, "content")); b.doc; b = jv_next(b)) {
		auto_free char *id = jv_cstr(jv_get(b, "tool_use_id"));
		struct call *x = id ? step_find(s, id) : NULL;
		size_t len;
		const char *raw = jv_raw(b, &len);
		if (x && x->state == CALL_WAITS) {
			(void)buf_add(&x->result, raw, len);
			x->state = CALL_DONE;
			last = x;
		} else if (last && jv_is(jv_get(b, "type"), "image")) {
			if (last->image.len)
				(void)buf_putc(&last->image, ',');
			(void)buf_add(&last->image, raw, len);
		} else {
			return false;
		}
		s->bytes += len;
	}
	return last != NULL;
}

int step_reopen(struct step *s, struct chat *c)
{
	*s = (struct step){0};
	if (!c->n)
		return 0;
	if (c->v[c->n - 1].assistant) {
		int r = step_open(s, c->v[c->n - 1].json, c->v[c->n - 1].len);
		return r < 0 ? -EPROTO : r > 0;
	}
	if (c->n < 2 || !c->v[c->n - 2].assistant)
		return 0;
	auto_jdoc results = jdoc_parse(c->v[c->n - 1].json, c->v[c->n - 1].len, NULL);
	int r = step_open(s, c->v[c->n - 2].json, c->v[c->n - 2].len);
	if (r <= 0)
		return r < 0 ? -EPROTO : 0;
	/* With all its results, or with words of the user behind them, it is over. */
	if (!results || !take_results(s, jdoc_root(results)) || step_complete(s)) {
		step_done(s);
		return 0;
	}
	chat_drop_last(c);
	return 1;
}

void step_image(struct buf *to, const char *media_type, const char *data, size_t len)
{
	struct jout o = {.b = to};

	if (to->len)
		(void)buf_putc(to, ',');
	jout_open(&o, '{');
	jout_put_str(&o, "type", "image");
	jout_key(&o, "source");
	jout_open(&o, '{');
	jout_put_str(&o, "type", "base64");
	jout_put_str(&o, "media_type", media_type);
	jout_key(&o, "data");
	jout_text(&o, data, len);
	jout_close(&o, '}');
	jout_close(&o, '}');
}

static void write_result(struct call *x, bool error, const char *text, size_t len)
{
	struct jout o = {.b = &x->result};

	jout_open(&o, '{');
	jout_put_str(&o, "type", "tool_result");
	jout_put_str(&o, "tool_use_id", x->id);
	jout_key(&o, "content");
	jout_text(&o, text, len);
	if (error)
		jout_put_bool(&o, "is_error", true);
	jout_close(&o, '}');
	x->state = CALL_DONE;
}

void step_result(struct step *s, struct call *x, const struct tool_result *r)
{
	static const char cut[] = "\n[cut off: the results of one message are limited; ask for less at once]";
	size_t room = STEP_BYTES - MIN(s->bytes, (size_t)STEP_BYTES), most = MIN(room, (size_t)RESULT_MAX + 8192);

	bool fits = r->blocks.len + r->image.len + r->text.len <= room;

	if (r->media_type && !fits) {
		step_result_text(s, x, true,
				 "The image does not fit beside the other results of this message: ask for it alone.");
		return;
	}
	if (r->text.len <= most) {
		write_result(x, r->error, buf_str(&r->text), r->text.len);
	} else {
		auto_buf shorter = BUF_INIT(SIZE_MAX);
		(void)buf_add(&shorter, r->text.data, most);
		(void)buf_puts(&shorter, cut);
		write_result(x, r->error, shorter.data, shorter.len);
	}
	if (r->media_type)
		step_image(&x->image, r->media_type, r->image.data, r->image.len);
	else if (fits)
		(void)buf_add(&x->image, buf_str(&r->blocks), r->blocks.len);
	s->bytes += x->result.len + x->image.len;
}

void step_result_text(struct step *s, struct call *x, bool error, const char *text)
{
	write_result(x, error, text, strlen(text));
	s->bytes += x->result.len;
}

void step_message(const struct step *s, struct jout *o)
{
	jout_open(o, '{');
	jout_put_str(o, "role", "user");
	jout_key(o, "content");
	jout_open(o, '[');
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].state == CALL_DONE)
			jout_raw(o, s->v[i].result.data, s->v[i].result.len);
	/* Images stand behind all results: those must come first in the message. */
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].state == CALL_DONE && s->v[i].image.len)
			jout_raw(o, s->v[i].image.data, s->v[i].image.len);
	jout_close(o, ']');
	jout_close(o, '}');
}
