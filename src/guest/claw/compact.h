/* Shortening a conversation that has become too long. */
#pragma once

#include "chat.h"

enum {
	COMPACT_BYTES = 2560 * 1024
}; /* longer than this it is shortened whatever its tokens: it must fit into a line */

/* Whether it is time: tokens reach ratio × window, or the text COMPACT_BYTES. */
bool compact_due(const struct chat *c, long long tokens, double ratio, long long window);

/* Where to cut so that the last `turns` assistant messages, each with what follows it, stay, or fewer of them (at least
 * one) when they have more than COMPACT_BYTES: the index of the first message that stays, always an assistant's. 0 when
 * nothing could be left out. */
size_t compact_cut(const struct chat *c, long long turns);

/* The messages of the request for a summary of [0, cut). */
void compact_request(const struct chat *c, size_t cut, struct jout *o);

/* Puts the task and the summary in place of [0, cut). */
void compact_apply(struct chat *c, size_t cut, const char *task, const char *summary, size_t len);
