/* `report`: one run as a Markdown page: what it was, the way it took, when what ran, what it asked of the network.
 *
 * Everything comes from the run's own record and events, so that the page says what happened and not what the workflow
 * file says today. Text from the run is escaped: it can be neither markup nor part of a diagram. */
#include "commands.h"
#include "event_view.h"
#include "node_table.h"
#include "output.h"
#include "place.h"
#include "run_choice.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/read.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CELL = 2000, MAX_OUTPUT = 4000 };

struct report_opts {
	const char *store_dir;
};

struct way {
	char *from, *to;
	unsigned long long times;
};

struct report {
	struct node_table nodes;
	struct way *ways;
	size_t n_ways, cap_ways;
	json_t *hosts; /* of network_summary; NULL: there was none */
};

/* Text within a line or a table's cell. */
static void inline_text(const char *s)
{
	auto_buf b = BUF_INIT(3 * (size_t)MAX_CELL);

	for (size_t n = 0; *s && n < MAX_CELL; s++, n++) {
		if (strchr("\\`*_[]<>|#&~", *s))
			(void)buf_putc(&b, '\\');
		(void)buf_putc(&b, *s);
	}
	out_value(buf_str(&b), 0);
}

/* A name in a diagram: what could end a label is left out. */
static void label(const char *s)
{
	for (; *s; s++) {
		bool plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');
		out_printf("%c", plain || *s == '_' || *s == '-' ? *s : '_');
	}
}

static void add_way(struct report *r, const json_t *data)
{
	const char *from = json_get_str(data, "from"), *to = json_get_str(data, "to");

	for (size_t i = 0; from && to && i < r->n_ways; i++) {
		if (str_eq(r->ways[i].from, from) && str_eq(r->ways[i].to, to)) {
			r->ways[i].times++;
			return;
		}
	}
	if (!from || !to)
		return;
	r->ways = grow_array(r->ways, r->n_ways, &r->cap_ways, sizeof *r->ways);
	r->ways[r->n_ways++] = (struct way){.from = xstrdup(from), .to = xstrdup(to), .times = 1};
}

static int read_events(struct report *r, const char *store, const char *id, struct err *e)
{
	struct event_reader *reader;
	json_t *ev;
	int n = event_reader_open(store, id, &reader, e);

	if (n < 0)
		return n;
	while ((n = event_reader_next(reader, &ev, NULL, e)) > 0) {
		const char *type = json_get_str(ev, "type");
		const json_t *data = json_object_get(ev, "data");
		node_table_add(&r->nodes, ev);
		if (type && str_eq(type, "edge_selected"))
			add_way(r, data);
		if (type && str_eq(type, "network_summary") && !r->hosts)
			r->hosts = json_incref(json_object_get(data, "hosts"));
		json_decref(ev);
	}
	event_reader_free(reader);
	return n;
}

static void row(const char *name, const char *value)
{
	if (!value)
		return;
	out_printf("| %s | ", name);
	inline_text(value);
	out_printf(" |\n");
}

static void show_head(const json_t *record)
{
	const char *name = json_get_str(record, "name"), *workflow = json_get_str(record, "workflow_name");

	out_printf("# Run of ");
	inline_text(workflow ? workflow : "a workflow");
	out_printf("\n\n| | |\n|---|---|\n");
	row("run", json_get_str(record, "id"));
	row("name", name);
	row("status", json_get_str(record, "status"));
	row("error", json_get_str(record, "error"));
	row("hint", json_get_str(record, "error_hint"));
	row("file", json_get_str(record, "file"));
	row("SHA-256 of the file", json_get_str(record, "file_sha256"));
	row("workspace", json_get_str(record, "workspace"));
	row("created", json_get_str(record, "created_at"));
	row("finished", json_get_str(record, "finished_at"));
}

static void show_way(const struct report *r)
{
	if (!r->n_ways)
		return;
	out_printf("\n## The way it took\n\n```mermaid\nflowchart TD\n");
	for (size_t i = 0; i < r->n_ways; i++) {
		const struct way *w = &r->ways[i];
		/* A prefix: some names, such as end, are words of the diagram's language. */
		out_printf("    n_");
		label(w->from);
		out_printf("[");
		label(w->from);
		out_printf("] -->");
		if (w->times > 1)
			out_printf("|%llu times|", w->times);
		out_printf(" n_");
		label(w->to);
		out_printf("[");
		label(w->to);
		out_printf("]\n");
	}
	out_printf("```\n");
}

static unsigned long long took_ms(const struct node_row *n)
{
	return n->ended_ms > n->begun_ms ? n->ended_ms - n->begun_ms : 0;
}

static void show_timeline(const struct node_table *t)
{
	out_printf("\n## Nodes\n\n");
	if (!t->n) {
		out_printf("No node was started.\n");
		return;
	}
	out_printf("```mermaid\ngantt\n    dateFormat x\n    axisFormat %%M:%%S.%%L\n");
	for (size_t i = 0; i < t->n; i++) {
		out_printf("    ");
		label(t->rows[i].node);
		out_printf(" :%s%llu, %llums\n", str_eq(t->rows[i].state, "failed") ? "crit, " : "",
			   (unsigned long long)t->rows[i].begun_ms, took_ms(&t->rows[i]));
	}
	out_printf("```\n\n| node | kind | state | time |\n|---|---|---|---|\n");
	for (size_t i = 0; i < t->n; i++) {
		char time[DURATION_TEXT_SIZE];
		duration_text(time, took_ms(&t->rows[i]));
		out_printf("| ");
		inline_text(t->rows[i].node);
		out_printf(" | ");
		inline_text(t->rows[i].kind ? t->rows[i].kind : "");
		out_printf(" | %s | %s |\n", t->rows[i].state, t->rows[i].ended_ms ? time : "");
	}
}

/* Lines indented by four are a code block, in which nothing is markup. */
static void code(const char *s, size_t limit)
{
	const char *end = s + strnlen(s, limit);
	bool cut = *end != '\0';

	while (s < end) {
		const char *newline = memchr(s, '\n', (size_t)(end - s));
		size_t len = (size_t)((newline ? newline : end) - s);
		out_printf("    %.*s\n", (int)len, s);
		s += len + (s + len < end);
	}
	if (cut)
		out_printf("    […]\n");
}

static void show_outputs(const struct node_table *t)
{
	out_printf("\n## Outputs\n");
	for (size_t i = 0; i < t->n; i++) {
		const json_t *output = json_object_get(t->rows[i].data, "output");
		const char *text = json_get_str(output, "output");
		if (!json_is_object(output) || (text && !*text))
			continue;
		auto_free char *whole = text ? xstrdup(text) : json_compact(output);
		out_printf("\n### ");
		inline_text(t->rows[i].node);
		out_printf("\n\n");
		code(whole, MAX_OUTPUT);
	}
}

static long long number(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

static void show_network(const json_t *hosts)
{
	const json_t *h;
	size_t i;

	if (!json_array_size(hosts))
		return;
	out_printf(
		"\n## Network\n\n| host | allowed | refused | bytes sent | bytes received |\n|---|---|---|---|---|\n");
	json_array_foreach(hosts, i, h)
	{
		const char *host = json_get_str(h, "host");
		out_printf("| ");
		inline_text(host ? host : "");
		out_printf(" | %lld | %lld | %lld | %lld |\n", number(h, "allowed"), number(h, "blocked"),
			   number(h, "bytes_up"), number(h, "bytes_down"));
	}
}

static void report_done(struct report *r)
{
	node_table_done(&r->nodes);
	for (size_t i = 0; i < r->n_ways; i++) {
		free(r->ways[i].from);
		free(r->ways[i].to);
	}
	free(r->ways);
	json_decref(r->hosts);
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct report_opts *o = inv->options;
	auto_free char *store = NULL, *id = NULL;
	struct report report = {0};

	int r = place_store_here(o->store_dir, &store, e);
	if (r == 0)
		r = run_choose(store, inv->n_args ? inv->args[0] : NULL, &id, e);
	if (r < 0)
		return r;
	auto_json record = store_read_run(store, id, e);
	if (!record)
		return -EIO;
	r = read_events(&report, store, id, e);
	if (r == 0) {
		show_head(record);
		show_way(&report);
		show_timeline(&report.nodes);
		show_outputs(&report.nodes);
		show_network(report.hosts);
	}
	report_done(&report);
	return r;
}

static const struct option_row options[] = {
	STORE_DIR_ROW(struct report_opts, store_dir),
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion report >report.md", "The newest run."},
	{"iterion report nightly", "The run named nightly, on the terminal."},
	{NULL, NULL},
};

const struct command command_report = {
	.name = "report",
	.operands = "[RUN]",
	.summary = "print one run as a Markdown page",
	.about = "What the run was and how it ended, the edges it took and the time of each node as Mermaid diagrams, "
		 "what the "
		 "nodes put out, and the hosts it asked for. RUN is a run's id, the beginning of one, or a run's name; "
		 "without "
		 "it the newest run is meant.",
	.examples = examples,
	.options = options,
	.options_size = sizeof(struct report_opts),
	.max_args = 1,
	.run = run,
};
