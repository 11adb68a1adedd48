/* `inspect`: the runs of a store, and one run from its record and its events. Reads only, also while the run goes on.
 */
#include "commands.h"
#include "event_view.h"
#include "node_table.h"
#include "output.h"
#include "place.h"
#include "recovery_words.h"
#include "run_choice.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/read.h>

#include <errno.h>
#include <string.h>

struct inspect_opts {
	bool events;
	bool nodes;
	const char *node;
	bool json;
	const char *store_dir;
};

enum { SHORT_ID = 36, NAME_COLUMN = 20, STATUS_COLUMN = 22, RECOVERY_COLUMN = 24 };

/* A value in a column of this width: longer ones push the rest to the right. */
static void column(const char *text, size_t width)
{
	size_t len = strlen(text);

	out_value(text, 0);
	out_printf("%*s", (int)(len < width ? width - len : 1), "");
}

static enum style status_style(const char *status)
{
	if (str_eq(status, "finished"))
		return STYLE_GREEN;
	if (str_eq(status, "running") || str_eq(status, "queued"))
		return STYLE_PLAIN;
	return str_starts(status, "paused") ? STYLE_YELLOW : STYLE_RED;
}

static void print_status(const char *status, size_t width)
{
	out_style(status_style(status));
	column(status, width);
	out_style(STYLE_PLAIN);
}

static json_t *entry_json(const struct store_entry *en)
{
	json_t *j = json_object();

	json_put_str(j, "id", en->id);
	json_put_str(j, "name", en->name);
	json_put_str(j, "workflow", en->workflow);
	json_put_str(j, "status", en->status);
	json_put_str(j, "created_at", en->created_at);
	json_put_str(j, "finished_at", en->finished_at);
	return j;
}

static int list(const char *store, bool json, struct err *e)
{
	struct store_entry *runs;
	size_t n;
	int r = store_list(store, &runs, &n, e);

	if (r < 0)
		return r;
	if (json) {
		auto_json doc = json_object();
		json_t *all = json_array();
		for (size_t i = 0; i < n; i++)
			(void)json_array_append_new(all, entry_json(&runs[i]));
		json_put_str(doc, "store", store);
		json_put(doc, "runs", all);
		out_json(doc);
	} else if (n == 0) {
		out_printf("no runs in %s\n", store);
	} else {
		out_style(STYLE_BOLD);
		out_printf("%-*s  %-*s%-*s%-*s%s\n", SHORT_ID, "RUN", STATUS_COLUMN, "STATUS", NAME_COLUMN, "WORKFLOW",
			   NAME_COLUMN, "NAME", "CREATED");
		out_style(STYLE_PLAIN);
		for (size_t i = 0; i < n; i++) {
			column(runs[i].id, SHORT_ID + 2);
			print_status(runs[i].status, STATUS_COLUMN);
			column(runs[i].workflow, NAME_COLUMN);
			column(runs[i].name ? runs[i].name : "-", NAME_COLUMN);
			out_printf("%s\n", runs[i].created_at);
		}
	}
	store_list_free(runs, n);
	return 0;
}

static void field(const json_t *record, const char *key, const char *label)
{
	const char *text = json_get_str(record, key);

	if (!text)
		return;
	out_printf("%-10s", label);
	out_value(text, 0);
	out_printf("\n");
}

static void show_recoveries(const char *store, const char *id)
{
	auto_json all = store_read_recoveries(store, id);
	const json_t *record;
	size_t i;

	if (!json_array_size(all))
		return;
	out_printf("\n");
	out_style(STYLE_BOLD);
	out_printf("%-*s%s\n", RECOVERY_COLUMN, "BEGAN AGAIN", "WHY, AND WHAT BECAME OF IT");
	out_style(STYLE_PLAIN);
	json_array_foreach(all, i, record)
	{
		auto_free char *words = recovery_words(record);
		column(json_get_str(record, "node_id"), RECOVERY_COLUMN);
		out_value(words, 0);
		out_printf("\n");
	}
}

static void show_run(const char *store, const char *id, const json_t *record, const struct node_table *t)
{
	const char *status = json_get_str(record, "status");

	field(record, "id", "run");
	field(record, "name", "name");
	field(record, "workflow_name", "workflow");
	out_printf("%-10s", "status");
	print_status(status ? status : "unknown", 0);
	out_printf("\n");
	field(record, "error", "error");
	field(record, "error_hint", "hint");
	field(record, "file", "file");
	field(record, "workspace", "workspace");
	field(record, "created_at", "created");
	field(record, "finished_at", "finished");
	out_printf("%-10s%s/runs/%s\n", "folder", store, id);
	out_printf("%-10s%zu hosts refused (%llu connections)\n", "network", t->n_blocked_hosts,
		   (unsigned long long)t->n_blocked);
	out_printf("\n");
	node_table_show(t);
	show_recoveries(store, id);
}

/* What is asked of one run's nodes. */
static int show_nodes(const struct inspect_opts *o, const struct node_table *t, struct err *e)
{
	if (!o->node) {
		if (o->json) {
			auto_json doc = node_table_json(t, NULL);
			out_json(doc);
		} else {
			node_table_show(t);
		}
		return 0;
	}
	if (!node_table_has(t, o->node)) {
		int r = err_set(e, ERR_INPUT, ENOENT, "inspect: node %s: it did not run in this run", o->node);
		const char *near = node_table_nearest(t, o->node);
		if (near)
			err_hint(e, "Did you mean %s? --nodes lists them.", near);
		err_hint(e, "--nodes lists the nodes that ran.");
		return r;
	}
	auto_json doc = node_table_json(t, o->node);
	if (o->json)
		out_json(doc);
	else
		node_table_show_node(t, o->node);
	return 0;
}

static int show_events(const struct inspect_opts *o, struct event_reader *reader, struct err *e)
{
	struct event_view view = {.detailed = true};
	json_t *ev;
	const char *line;
	int r = 0;

	while (!out_is_broken() && (r = event_reader_next(reader, &ev, &line, e)) > 0) {
		if (o->json) {
			out_raw(line, strlen(line));
			out_raw("\n", 1);
		} else {
			event_view_show(&view, ev);
		}
		json_decref(ev);
	}
	event_view_done(&view);
	return r < 0 ? r : 0;
}

static int inspect_run(const struct inspect_opts *o, const char *store, const char *id, struct err *e)
{
	auto_json record = store_read_run(store, id, e);
	struct event_reader *reader;
	struct node_table table = {0};

	if (!record)
		return -EIO;
	if (o->json && !o->events && !o->nodes && !o->node) {
		json_put(record, "recoveries", store_read_recoveries(store, id));
		out_json(record);
		return 0;
	}
	int r = event_reader_open(store, id, &reader, e);
	if (r < 0)
		return r;
	if (o->events) {
		r = show_events(o, reader, e);
	} else {
		r = node_table_read(&table, reader, e);
		if (r == 0 && (o->nodes || o->node))
			r = show_nodes(o, &table, e);
		else if (r == 0)
			show_run(store, id, record, &table);
	}
	node_table_done(&table);
	event_reader_free(reader);
	return r;
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct inspect_opts *o = inv->options;
	auto_free char *store = NULL, *id = NULL;
	bool about_one = o->events || o->nodes || o->node || inv->n_args;

	if (o->events + o->nodes + (o->node != NULL) > 1) {
		int r = err_set(e, ERR_USAGE, EINVAL, "inspect: --events, --nodes and --node exclude each other");
		err_hint(e, "Give one of them.");
		return r;
	}
	int r = place_store_here(o->store_dir, &store, e);
	if (r < 0)
		return r;
	if (!about_one)
		return list(store, o->json, e);
	r = run_choose(store, inv->n_args ? inv->args[0] : NULL, &id, e);
	return r < 0 ? r : inspect_run(o, store, id, e);
}

static const struct option_row options[] = {
	{.name = "events",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct inspect_opts, events),
	 .help = "print the run's events; with --json as they are, one a line"},
	{.name = "nodes",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct inspect_opts, nodes),
	 .help = "print what ran, with time, tokens and cost"},
	{.name = "node",
	 .kind = OPTION_STRING,
	 .value = "NAME",
	 .offset = offsetof(struct inspect_opts, node),
	 .help = "print each execution of one node with its output"},
	{.name = "json", .kind = OPTION_FLAG, .offset = offsetof(struct inspect_opts, json), .help = "print JSON"},
	STORE_DIR_ROW(struct inspect_opts, store_dir),
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion inspect", "Lists the runs of the store, the newest first."},
	{"iterion inspect 0190f2", "One run, named by the beginning of its id: state, error, nodes."},
	{"iterion inspect --node review --json", "What the node review did in the newest run."},
	{NULL, NULL},
};

const struct command command_inspect = {
	.name = "inspect",
	.operands = "[RUN]",
	.summary = "list runs, or show one",
	.about = "Without RUN the runs of the store are listed. RUN is a run's id, the beginning of one, or a run's "
		 "name; "
		 "with --events, --nodes or --node and no RUN the newest run is meant. Works while a run goes on.",
	.examples = examples,
	.options = options,
	.options_size = sizeof(struct inspect_opts),
	.max_args = 1,
	.run = run,
};
