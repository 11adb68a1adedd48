/* One step: an assistant message with tool calls, and what they gave. */
#pragma once

#include "chat.h"
#include "tool.h"

struct loop;

enum call_state { CALL_WAITS, CALL_RUNS, CALL_DONE };

struct call {
	char *id, *name;
	struct jv input;
	enum call_state state;
	struct buf result; /* the tool_result block as JSON, once it is done */
	struct buf image;  /* image blocks as JSON, separated by commas, or empty */

	/* while it runs */
	struct loop *loop;
	struct tool_call tool;
	char ticket[32]; /* the id of the envelope whose answer ends it */
	uint64_t started_ms;
};

struct step {
	struct jdoc *message; /* NULL: no step is open */
	struct call *v;
	size_t n;
	size_t bytes; /* of all results */
};

enum {
	STEP_CALLS = 128,	  /* most calls of one message */
	STEP_BYTES = 1536 * 1024, /* most bytes of results and images of one message */
};

/* Opens the step of an assistant message. Returns how many calls it has; with none it is not open. More than STEP_CALLS
 * are -E2BIG, ids that are not different -EPROTO. */
int step_open(struct step *s, const char *message, size_t len) __attribute__((warn_unused_result));
void step_done(struct step *s);

/* Opens what the conversation ends with, when calls of its last step have no result yet: the message with the results
 * there are is taken off the conversation. Returns 1 when a step was opened, 0 when there is none, or -EPROTO. */
int step_reopen(struct step *s, struct chat *c) __attribute__((warn_unused_result));

/* Sets the result of a call. What is past STEP_BYTES is cut, and said so. */
void step_result(struct step *s, struct call *x, const struct tool_result *r);
void step_result_text(struct step *s, struct call *x, bool error, const char *text);

/* Adds an image block, of data in base64, to a list of such blocks. */
void step_image(struct buf *to, const char *media_type, const char *data, size_t len);

struct call *step_find(struct step *s, const char *tool_use_id);
/* How many results have images, and how many bytes those are. */
size_t step_images(const struct step *s, size_t *ret_bytes);
bool step_complete(const struct step *s);

/* The user message of the results that are there, in the order of the calls. */
void step_message(const struct step *s, struct jout *o);
