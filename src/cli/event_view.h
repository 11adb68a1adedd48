/* Events as lines that people read: `run` while it goes on, `logs` and `inspect` afterwards. */
#pragma once

#include <base/str.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_view {
	bool detailed; /* every event, with its time in front; else what somebody who waits wants to know */
	struct {
		char *key;
		uint64_t begun_ms;
	} * open; /* nodes that run now */
	size_t n_open;
	size_t cap_open;
	uint64_t begun_ms;
	size_t n_nodes; /* that finished */
	bool learning;
};

/* Prints what the event is worth, or nothing. ev is borrowed. */
void event_view_show(struct event_view *v, const json_t *ev);
void event_view_done(struct event_view *v);

/* Whether this type is the last event of a run. */
bool event_ends_run(const char *type);

/* Whether a node failed by it. A tool that an agent called may fail without that: its tool_error names the tool. */
bool event_fails_node(const json_t *ev);

/* Milliseconds since 1970 of an event's timestamp; 0 when it has none that can be read. */
uint64_t event_time_ms(const json_t *ev);

enum { DURATION_TEXT_SIZE = 32 };
/* "7 ms", "1.25 s", "3 min 20 s". */
void duration_text(char ret[DURATION_TEXT_SIZE], uint64_t ms);
