/* The conversation in its neutral form: a list of messages, each kept as its JSON text. */
#pragma once

#include "jout.h"

struct err;

struct chat {
	struct msg *v;
	size_t n;
	size_t cap;
	size_t bytes; /* of all messages' text */
};

struct msg {
	char *json;
	size_t len;
	bool assistant;
};

void chat_done(struct chat *c);

/* Appends every message of an array. 0, or -EPROTO when one is malformed: role, or a block without its fields. */
int chat_load(struct chat *c, struct jv messages, struct err *e) __attribute__((warn_unused_result));
/* Whether it is a message with that role ("assistant", "user") and well-formed blocks. */
bool chat_message_valid(struct jv message, const char *role);
/* Takes the JSON text of one message. */
void chat_add(struct chat *c, bool assistant, char *json, size_t len);
void chat_drop_last(struct chat *c);

/* Says something as the user: a message of its own, or one block more of the last when that is the user's already,
 * since the two sides take turns. */
void chat_say(struct chat *c, const char *text, size_t len);

/* Writes messages [from, to) as an array's elements. */
void chat_write(const struct chat *c, size_t from, size_t to, struct jout *o);

/* The text blocks of a message, joined by newlines; the caller frees. */
char *message_text(struct jv message, size_t *ret_len);
