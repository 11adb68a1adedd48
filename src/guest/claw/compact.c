/* Shortening a conversation: the older part is replaced by the model's own summary of it.
 *
 * The cut lies before an assistant message. Its calls and their results follow it, so none is ever separated from the
 * other; and what stands before the cut ends with the user, so that the request for the summary joins it. The task
 * stays in its own words: of all that was said it is what must not be retold. */
#include "compact.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>

#include <stdlib.h>

static const char instructions[] =
	"The conversation is about to be shortened: this part of it will be replaced by your summary. Do not call a "
	"tool. Write what is needed to go on with the task without it: what was asked, what was found out (with paths, "
	"names, commands and their outcomes), which files were changed and how, what was decided and why, what is left "
	"to do.";

bool compact_due(const struct chat *c, long long tokens, double ratio, long long window)
{
	return (double)tokens >= ratio * (double)window || c->bytes > COMPACT_BYTES;
}

size_t compact_cut(const struct chat *c, long long turns)
{
	size_t at = c->n, bytes = 0;

	for (size_t i = c->n; i > 0 && turns > 0; i--) {
		bytes += c->v[i - 1].len;
		if (!c->v[i - 1].assistant)
			continue;
		if (at < c->n && bytes > COMPACT_BYTES)
			turns = 1;
		else
			at = i - 1;
		turns--;
	}
	/* The first message alone is the task, which stays anyhow. */
	return turns > 0 || at < 2 || at == c->n || c->v[at - 1].assistant ? 0 : at;
}

void compact_request(const struct chat *c, size_t cut, struct jout *o)
{
	struct chat last = {0};

	chat_write(c, 0, cut - 1, o);
	chat_add(&last, false, xmemdup(c->v[cut - 1].json, c->v[cut - 1].len), c->v[cut - 1].len);
	chat_say(&last, instructions, sizeof instructions - 1);
	chat_write(&last, 0, 1, o);
	chat_done(&last);
}

void compact_apply(struct chat *c, size_t cut, const char *task, const char *summary, size_t len)
{
	struct chat shorter = {0};
	auto_buf text = BUF_INIT(SIZE_MAX);

	(void)buf_printf(&text,
			 "%s\n\n<summary>\nThe beginning of this conversation was replaced by this summary of it:\n",
			 task);
	(void)buf_add(&text, summary, len);
	(void)buf_puts(&text, "\n</summary>");
	chat_say(&shorter, text.data, text.len);
	for (size_t i = cut; i < c->n; i++) {
		chat_add(&shorter, c->v[i].assistant, c->v[i].json, c->v[i].len);
		c->v[i].json = NULL;
	}
	chat_done(c);
	*c = shorter;
}
