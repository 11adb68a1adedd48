/* The models' interfaces: one neutral form of a request and of its answer, and what each provider makes of it. Nothing
 * here makes a system call.
 *
 * A conversation is a JSON array of {"role", "content": [block…]} with blocks as Anthropic's Messages have them:
 * text, thinking, tool_use, tool_result, image. */
#pragma once

#include "agent/price.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct llm_reader;

enum llm_api { LLM_ANTHROPIC, LLM_RESPONSES, LLM_CHAT, N_LLM_APIS };

/* A request; everything is borrowed. */
struct llm_ask {
	const char *model;
	const char *system; /* NULL: none */
	json_t *messages;
	json_t *tools;	      /* [{"name","description","input_schema"}], or NULL */
	json_t *tool_choice;  /* {"type":"auto"} or {"type":"tool","name"}, or NULL */
	long long max_tokens; /* 0: what suits the model */
	const char *effort;   /* low, medium, high, xhigh, max; NULL: the model's own */
	bool official;	      /* the maker's own server, not one that is compatible */
};

/* The body that the provider takes, always streaming; a new reference. Things that a provider cannot be given are left
 * out (another's thinking), never guessed. */
json_t *llm_body(enum llm_api api, const struct llm_ask *a) __attribute__((returns_nonnull));

/* The tokens that fit into the model's context, by its name. */
long long llm_context_window(const char *model);

/* Names of tools as providers take them ([A-Za-z0-9_-], at most 64): others are spelled differently, "." as "__". The
 * caller frees. */
char *llm_tool_name(const char *name) __attribute__((returns_nonnull));

enum { LLM_ANSWER_MAX = 3 * 1024 * 1024 }; /* bytes of one answer's texts */

/* What is said while an answer comes; text is borrowed. May be NULL. */
typedef void (*llm_text_cb)(void *arg, bool thinking, const char *text, size_t len);

struct llm_answer {
	json_t *message;	 /* {"role":"assistant","content":[…]} */
	const char *stop_reason; /* static: end_turn, tool_use, max_tokens, refusal */
	struct agent_usage usage;
};
void llm_answer_done(struct llm_answer *a);

/* Reads one streamed answer. tools (borrowed, may be NULL) gives the names their own spelling back. */
struct llm_reader *llm_reader_new(enum llm_api api, const json_t *tools, llm_text_cb on_text, void *arg)
	__attribute__((returns_nonnull));
void llm_reader_free(struct llm_reader *r);

/* Takes more of the stream: 0, or -errno: -EMSGSIZE (too much), -EPROTO (not what the provider documents), -EREMOTEIO
 * (the provider reports an error in the stream; *ret_status is the HTTP status that stands for it, 0: none). */
int llm_reader_feed(struct llm_reader *r, const char *data, size_t len, int *ret_status, struct err *e)
	__attribute__((warn_unused_result));

/* The end of the stream: 0 with the answer (llm_answer_done), or -ECONNRESET when the stream broke off before the
 * answer was complete. */
int llm_reader_end(struct llm_reader *r, struct llm_answer *ret, struct err *e) __attribute__((warn_unused_result));

/* What a failed request's body says, as one line without control characters; the caller frees. */
char *llm_error_text(const char *body, size_t len) __attribute__((returns_nonnull));
