/* Runs a workflow text to its end, with the fake session, and keeps everything it did. */
#pragma once

#include <base/err.h>
#include <engine/engine.h>
#include <jansson.h>
#include <sandbox/spec.h>
#include <stdbool.h>
#include <stdint.h>

struct flow_opts {
	/* Questions are answered from the loop with these lists, one after the other, the last again and again:
	 * "field=value" …, or NULL for nobody answers. */
	const char *const *const *answers;
	size_t n_answers;
	const char *const *vars;
	const char *const *attachments;
	/* A sandbox of its own for each node that is named: "node=VALUE", where nodes with equal values have equal
	 * specs (the value is in their env as OWN). */
	const char *const *own;
	const char *preset;
	enum sandbox_mode mode; /* SANDBOX_INHERIT (0): none */
	uint64_t timeout_ms;
	const char *run_id;
	const char *workspace; /* NULL: the test's own folder */
	/* engine_interrupt is called so often, from the loop, when the event with this type and node comes. */
	const char *interrupt_at;
	const char *interrupt_node;
	unsigned interrupts;
	int signal;
	unsigned between_ms; /* from the first interrupt to the second */
};

struct flow {
	char *top;
	int new_result; /* of engine_new, then of engine_run */
	struct err new_err;
	unsigned ends;
	unsigned asked;	       /* questions */
	struct err answer_err; /* of the latest engine_answer that was refused */
	struct engine_result result;
	json_t *events; /* as the listener saw them */
	json_t *record; /* run.json at the end */
	uint64_t took_ms;
};

/* Parses, checks, runs. A text with errors fails the test, unless engine_new is to see it. */
void flow_run(struct flow *f, const char *text, const struct flow_opts *o);
void flow_done(struct flow *f);

/* The types of the events, with their node, as "run_started node_started:a …"; the caller frees. */
char *flow_trace(const struct flow *f);
/* Only events of one type: their nodes, separated by spaces; the caller frees. */
char *flow_nodes(const struct flow *f, const char *type);
/* The first event of a type (and node, unless NULL), or NULL. */
json_t *flow_event(const struct flow *f, const char *type, const char *node);
unsigned flow_count(const struct flow *f, const char *type);
/* The output of a node's latest node_finished. */
json_t *flow_output(const struct flow *f, const char *node);
