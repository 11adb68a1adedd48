/* What each provider's interface is made of, and what they share. */
#pragma once

#include "llm.h"
#include "stream/sse.h"

#include <base/buf.h>

enum block_kind { BLOCK_TEXT, BLOCK_THINKING, BLOCK_TOOL, BLOCK_SEALED };

/* A block of the answer while it comes. */
struct llm_block {
	enum block_kind kind;
	long long index; /* the provider's */
	struct buf text; /* text, thinking, or a tool's input as JSON text */
	struct buf seal; /* a thinking's signature */
	char *id, *name; /* of a tool's call */
	bool whole;	 /* nothing more may come */
};

enum { LLM_BLOCKS_MAX = 256 };

struct llm_reader {
	const struct llm_ops *ops;
	const json_t *tools;
	llm_text_cb on_text;
	void *arg;
	struct sse sse;
	struct llm_block *blocks;
	size_t n, cap;
	size_t total; /* bytes of all texts */
	struct agent_usage usage;
	const char *stop_reason; /* static; NULL: not told */
	bool complete;
	/* What went wrong while events were handed over. */
	int failed, status;
	struct err *e;
};

struct llm_ops {
	json_t *(*body)(const struct llm_ask *a);
	/* One event's data, an object. 0 or -errno. */
	int (*on_event)(struct llm_reader *r, const char *name, const json_t *data);
};
extern const struct llm_ops llm_anthropic, llm_responses, llm_chat;

/* --- reader.c --- */

/* The block with the provider's index; NULL when there is none. */
struct llm_block *reader_block(const struct llm_reader *r, long long index);
/* A new one, or NULL (r->failed) when there are too many. */
struct llm_block *reader_add(struct llm_reader *r, enum block_kind kind, long long index);
/* Appends to a block's text, and says so when it is text or thinking. 0 or -errno. */
int reader_text(struct llm_reader *r, struct llm_block *b, const char *text);
/* Appends to what seals it. 0 or -errno. */
int reader_seal(struct llm_reader *r, struct llm_block *b, const char *text);
/* The stream says that the request failed; the error's "message" and "type" or "code". Returns -EREMOTEIO. */
int reader_refused(struct llm_reader *r, const json_t *error);
/* A count that a provider told: never negative, never absurd. */
int64_t reader_count(const json_t *o, const char *key);

/* --- body.c --- */

/* The blocks of a message, never NULL: a content that is a string is one text block. A new reference. */
json_t *body_blocks(const json_t *message) __attribute__((returns_nonnull));
/* The text of a tool_result's content, whatever its form; the caller frees. */
char *body_result_text(const json_t *block) __attribute__((returns_nonnull));
/* The images of a tool_result's content; a new array. */
json_t *body_result_images(const json_t *block) __attribute__((returns_nonnull));
/* "data:TYPE;base64,…" of an image block, or NULL; the caller frees. */
char *body_image_url(const json_t *block);
/* A call's input as JSON text; the caller frees. */
char *body_input_text(const json_t *block) __attribute__((returns_nonnull));
/* The tools by the names that providers take, each made into what it wants. */
json_t *body_tools(const json_t *tools, json_t *(*make)(const char *name, const json_t *tool))
	__attribute__((returns_nonnull));
/* The name that must be called, as providers take it, or NULL; the caller frees. */
char *body_forced(const struct llm_ask *a);
/* What seals thinking of this provider begins with a mark, so that it is never given to another. */
const char *body_unmark(const char *seal, const char *mark);
