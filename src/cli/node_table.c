/* What ran in a run, gathered from its events: a row for each time a node was started. A node that was running when the
 * run ended without a word of its own failed or was interrupted with it. */
#include "node_table.h"
#include "event_view.h"
#include "output.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <store/read.h>

#include <stdlib.h>
#include <string.h>

enum { NAME_COLUMN = 24, STATE_COLUMN = 12, TIME_COLUMN = 14 };

static char *copy(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

static void begin(struct node_table *t, const json_t *ev)
{
	const char *kind = json_get_str(json_object_get(ev, "data"), "kind");

	t->rows = grow_array(t->rows, t->n, &t->cap, sizeof *t->rows);
	t->rows[t->n++] = (struct node_row){
		.node = xstrdup(json_get_str(ev, "node_id")),
		.branch = copy(json_get_str(ev, "branch_id")),
		.kind = copy(kind),
		.state = xstrdup("running"),
		.begun_ms = event_time_ms(ev),
	};
}

static void set_state(struct node_row *row, const char *state)
{
	free(row->state);
	row->state = xstrdup(state);
}

/* The row that the event belongs to: the last one of this node and branch that has not ended. */
static struct node_row *open_row(const struct node_table *t, const json_t *ev)
{
	for (size_t i = t->n; i-- > 0;) {
		struct node_row *row = &t->rows[i];
		if (!row->ended_ms && str_eq(row->node, json_get_str(ev, "node_id")) &&
		    str_eq(row->branch, json_get_str(ev, "branch_id")))
			return row;
	}
	return NULL;
}

static void finish(struct node_table *t, const json_t *ev, const char *state)
{
	struct node_row *row = open_row(t, ev);

	if (!row)
		return;
	set_state(row, state);
	row->ended_ms = event_time_ms(ev);
	row->data = json_incref(json_object_get(ev, "data"));
}

static void blocked(struct node_table *t, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data"), *count = json_object_get(data, "count");
	const char *host = json_get_str(data, "host");

	t->n_blocked +=
		json_is_integer(count) && json_integer_value(count) > 0 ? (uint64_t)json_integer_value(count) : 1;
	if (!host || strv_has(&t->hosts, host))
		return;
	strv_add(&t->hosts, host);
	t->n_blocked_hosts++;
}

static void run_ends(struct node_table *t, const char *type, const json_t *ev)
{
	t->ended = true;
	for (size_t i = 0; i < t->n; i++) {
		if (t->rows[i].ended_ms)
			continue;
		t->rows[i].ended_ms = event_time_ms(ev);
		set_state(&t->rows[i], str_eq(type, "run_failed") ? "failed" : "stopped");
	}
}

void node_table_add(struct node_table *t, const json_t *ev)
{
	const char *type = json_get_str(ev, "type");
	bool of_node = json_get_str(ev, "node_id") != NULL;

	if (!type)
		return;
	if (str_eq(type, "node_started") && of_node)
		begin(t, ev);
	else if (str_eq(type, "node_finished") && of_node)
		finish(t, ev, "finished");
	else if (event_fails_node(ev) && of_node)
		finish(t, ev, "failed");
	else if (str_eq(type, "network_blocked"))
		blocked(t, ev);
	else if (event_ends_run(type))
		run_ends(t, type, ev);
}

int node_table_read(struct node_table *t, struct event_reader *reader, struct err *e)
{
	json_t *ev;
	int r;

	while ((r = event_reader_next(reader, &ev, NULL, e)) > 0) {
		node_table_add(t, ev);
		json_decref(ev);
	}
	return r;
}

void node_table_done(struct node_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->rows[i].node);
		free(t->rows[i].branch);
		free(t->rows[i].kind);
		free(t->rows[i].state);
		json_decref(t->rows[i].data);
	}
	free(t->rows);
	strv_done(&t->hosts);
	*t = (struct node_table){0};
}

bool node_table_has(const struct node_table *t, const char *node)
{
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->rows[i].node, node))
			return true;
	return false;
}

const char *node_table_nearest(const struct node_table *t, const char *node)
{
	auto_free const char **names = xcalloc(t->n + 1, sizeof *names);

	for (size_t i = 0; i < t->n; i++)
		names[i] = t->rows[i].node;
	return str_nearest(node, names, t->n);
}

static void row_duration(const struct node_row *row, char text[DURATION_TEXT_SIZE])
{
	text[0] = '\0';
	if (row->ended_ms >= row->begun_ms && row->begun_ms)
		duration_text(text, row->ended_ms - row->begun_ms);
}

static void column(const char *text, size_t width)
{
	size_t len = strlen(text);

	out_value(text, 0);
	out_printf("%*s", (int)(len < width ? width - len : 1), "");
}

static void show_row(const struct node_row *row)
{
	char time[DURATION_TEXT_SIZE];
	const json_t *tokens = json_object_get(row->data, "_tokens"), *cost = json_object_get(row->data, "_cost_usd");

	row_duration(row, time);
	column(row->node, NAME_COLUMN);
	column(row->kind ? row->kind : "-", STATE_COLUMN);
	out_style(str_eq(row->state, "finished")  ? STYLE_GREEN
		  : str_eq(row->state, "running") ? STYLE_PLAIN
						  : STYLE_RED);
	column(row->state, STATE_COLUMN);
	out_style(STYLE_PLAIN);
	column(time, TIME_COLUMN);
	if (json_is_integer(tokens))
		out_printf("%lld tokens ", (long long)json_integer_value(tokens));
	if (json_is_number(cost))
		out_printf("$%.4f ", json_number_value(cost));
	if (row->branch)
		out_printf("branch %s", row->branch);
	out_printf("\n");
}

void node_table_show(const struct node_table *t)
{
	if (t->n == 0) {
		out_printf("no node was started\n");
		return;
	}
	out_style(STYLE_BOLD);
	out_printf("%-*s%-*s%-*s%s\n", NAME_COLUMN, "NODE", STATE_COLUMN, "KIND", STATE_COLUMN, "STATE", "TIME");
	out_style(STYLE_PLAIN);
	for (size_t i = 0; i < t->n; i++)
		show_row(&t->rows[i]);
}

void node_table_show_node(const struct node_table *t, const char *node)
{
	for (size_t i = 0; i < t->n; i++) {
		if (!str_eq(t->rows[i].node, node))
			continue;
		show_row(&t->rows[i]);
		const json_t *output = json_object_get(t->rows[i].data, "output"), *value;
		const char *key;
		/* jansson's iteration wants what is not const, and does not write. */
		json_object_foreach((json_t *)(uintptr_t)output, key, value)
		{
			auto_free char *text =
				json_is_string(value) ? xstrdup(json_string_value(value)) : json_compact(value);
			out_printf("  %s: %s%s", key, strchr(text, '\n') ? "\n" : "", text);
			out_printf("%s", str_ends(text, "\n") ? "" : "\n");
		}
	}
}

json_t *node_table_json(const struct node_table *t, const char *node)
{
	json_t *doc = json_object(), *all = json_array();

	for (size_t i = 0; i < t->n; i++) {
		const struct node_row *row = &t->rows[i];
		if (node && !str_eq(row->node, node))
			continue;
		json_t *j = json_object();
		json_put_str(j, "node", row->node);
		json_put_str(j, "branch", row->branch);
		json_put_str(j, "kind", row->kind);
		json_put_str(j, "state", row->state);
		if (row->ended_ms)
			json_put_int(j, "duration_ms", (long long)(row->ended_ms - row->begun_ms));
		if (row->data)
			json_put(j, "data", json_incref(row->data));
		(void)json_array_append_new(all, j);
	}
	json_put(doc, "nodes", all);
	return doc;
}
