/* What one run of an agent's program told: filled in line by line, judged at its end. */
#pragma once

#include "price.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	PREVIEW_MAX = 200, /* characters of a tool's input in an event */
	ANSWERS_MAX = 16,
};

struct agent_turn {
	char *session;	    /* of the conversation; NULL: not told */
	char *model;	    /* that answered */
	char *text;	    /* the last thing that the model said */
	json_t *structured; /* what the program itself took for the answer */
	char *error;	    /* what it says went wrong */
	int status;	    /* HTTP status behind the error; 0: none known */
	bool ended;	    /* it said that the turn is over */
	bool failed;	    /* … and that it did not end well */
	bool at_limit;	    /* the number of steps was used up */
	bool retryable;	    /* its error is one that may pass */
	bool lost_session;  /* the conversation to go on with is not there */
	struct agent_usage usage;
	struct agent_usage told; /* by the answers so far, which may be less than usage in the end */
	double cost_usd;	 /* as the program says; < 0: it does not */
	unsigned steps;		 /* answers of the model */
	unsigned denied;	 /* tool calls that were not permitted */
	/* The latest answers, whose pieces may come mixed: those of an agent and of those that it sent out. */
	struct agent_answer {
		char *id;
		struct agent_usage usage;
	} answers[ANSWERS_MAX];
	unsigned n_answers;
	bool asking;   /* the model is being asked */
	json_t *calls; /* of tools under way: id → {tool, preview} */
	unsigned events;
};

void turn_init(struct agent_turn *t);
void turn_done(struct agent_turn *t);

/* Where events go; data is taken. */
struct agent_sink {
	void (*emit)(void *arg, const char *type, json_t *data);
	void *arg;
};

/* Replaces a string of the turn by a copy of text (any bytes); NULL leaves it. */
void turn_set(char **field, const char *text);

/* Whether a conversation may be called so: the name goes into argv, so nothing that could be an option or a path. */
bool turn_is_session(const char *id);
/* The program names its conversation; what cannot be a name is not taken. */
void turn_set_session(struct agent_turn *t, const char *id);

/* The program asks the model: llm_request, unless it does so already. */
void turn_asks(struct agent_turn *t, const struct agent_sink *sink, const char *backend, const char *model);
/* The model answered once more: llm_step_finished, unless id (NULL: it has none) is one of the latest already; u is
 * what the program says that the answer used (NULL: nothing yet). */
void turn_step(struct agent_turn *t, const struct agent_sink *sink, const char *id, const char *model,
	       const struct agent_usage *u);
/* What the turn used, as far as it is known by now; cost < 0: unknown (model: for a program that named none). */
const struct agent_usage *turn_usage(const struct agent_turn *t);
double turn_cost(const struct agent_turn *t, const char *model);
/* tool_started, with the beginning of its input, and tool_called once it has a result. */
void turn_tool_begins(struct agent_turn *t, const struct agent_sink *sink, const char *id, const char *tool,
		      const json_t *input);
void turn_tool_ends(struct agent_turn *t, const struct agent_sink *sink, const char *id, size_t output_len,
		    bool is_error);

/* A number of tokens as a program says it: at least 0, and within what adds up without overflow. */
int64_t turn_tokens(const json_t *number);
