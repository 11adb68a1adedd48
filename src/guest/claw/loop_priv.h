/* The parts of the agent loop. */
#pragma once

#include "compact.h"
#include "loop.h"
#include "offer.h"
#include "step.h"

enum phase {
	PHASE_TASK,  /* nothing was asked yet */
	PHASE_MODEL, /* a request is with the launcher */
	PHASE_TOOLS, /* tools run */
	PHASE_ACK,   /* the result was sent and may come back */
	PHASE_OVER,
};

enum purpose { PURPOSE_STEP, PURPOSE_FORMAT, PURPOSE_COMPACT };

enum { MAX_CONTINUES = 3, PREVIEW = 200, MAX_PARALLEL = 8 };

struct loop {
	struct react *react;
	struct procs *procs;
	struct wire *wire;
	struct tools tools;
	struct task task;
	struct policy *policy;
	char *offered; /* the list of tools as JSON */
	enum phase phase;
	unsigned tickets; /* ids that were given out */
	uint64_t started_ms;

	struct chat chat;
	bool replayed; /* the conversation came by session_replay */
	struct step step;
	bool tools_ready;
	bool keep_files; /* of the tools, for a conversation that goes on */

	/* the request that is out */
	enum purpose purpose;
	char ticket[32];
	size_t cut;	/* what a summary is for */
	bool shortened; /* or tried to, since the last reply of a step */

	long long steps;			     /* requests for a step so far, as captures count them */
	long long tokens_in, tokens_out, tokens_now; /* now: about the size of the conversation */
	int continues;				     /* times that an answer was cut off */
	struct buf text;			     /* the answer so far */

	char *output; /* the structured output as JSON, NULL before it was given */
	bool repaired, formatted, fallback;
	int exit_code;
};

/* loop.c: a fresh id for an envelope. */
void loop_ticket(struct loop *l, char ret[32]);
/* Goes on with whatever is next: an open step, the end, a shorter conversation, the next request. */
void loop_proceed(struct loop *l);

/* loop_model.c */
void model_request(struct loop *l, enum purpose purpose);
void model_chunk(struct loop *l, const struct envelope *env);
/* Asks for the structured output by a forced call. */
void model_ask_output(struct loop *l, const char *words);

/* loop_reply.c: the whole message of a reply, and what its purpose makes of it. */
void reply_take(struct loop *l, struct jv message, const char *stop_reason);
void reply_conclude(struct loop *l);

/* loop_tools.c: the open step. */
void tools_pump(struct loop *l);
void tools_result(struct loop *l, const struct envelope *env);
void tools_answer(struct loop *l, const struct envelope *env);

/* loop_end.c */
void say_warning(struct loop *l, const char *code, const char *message);
/* The conversation as an array, with the results so far of an open step. */
void write_conversation(struct loop *l, struct jout *o);
void say_capture(struct loop *l);
void end_output(struct loop *l);
void end_error(struct loop *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void end_paused(struct loop *l, const char *tool_use_id);
void end_ack(struct loop *l, const struct envelope *env);
