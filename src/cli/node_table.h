/* What ran in a run, gathered from its events. */
#pragma once

#include <base/str.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct event_reader;

struct node_row {
	char *node;
	char *branch; /* NULL: none */
	char *kind;
	char *state; /* "running", "finished", "failed" */
	uint64_t begun_ms;
	uint64_t ended_ms; /* 0: it did not end */
	json_t *data;	   /* of the event that ended it; NULL: none */
};

struct node_table {
	struct node_row *rows; /* in the order they began */
	size_t n, cap;
	size_t n_blocked_hosts;
	uint64_t n_blocked; /* refused connections */
	struct strv hosts;
	bool ended; /* the run's last event was seen: nothing runs any more */
};

/* Takes one event in; node_table_read does so with all that are left. */
void node_table_add(struct node_table *t, const json_t *ev);
int node_table_read(struct node_table *t, struct event_reader *reader, struct err *e)
	__attribute__((warn_unused_result));
void node_table_done(struct node_table *t);

bool node_table_has(const struct node_table *t, const char *node);
/* The node that ran whose name is nearest, or NULL. Borrowed. */
const char *node_table_nearest(const struct node_table *t, const char *node);

void node_table_show(const struct node_table *t);
void node_table_show_node(const struct node_table *t, const char *node);
/* {"nodes":[…]}, all or those of one node; the caller decrefs. */
json_t *node_table_json(const struct node_table *t, const char *node);
