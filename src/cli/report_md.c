/* A report as a Markdown page: what the run was, the way it took, when what ran, what it asked of the network.
 *
 * Text from the run is escaped: it can be neither markup nor part of a diagram. */
#include "event_view.h"
#include "recovery_words.h"
#include "report.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>
#include <string.h>

enum { MAX_CELL = 2000, MAX_OUTPUT = 4000 };

/* Text within a line or a table's cell. */
static void inline_text(struct page *p, const char *s)
{
	auto_buf b = BUF_INIT(3 * (size_t)MAX_CELL), safe = BUF_INIT(20 * (size_t)MAX_CELL);

	for (size_t n = 0; *s && n < MAX_CELL; s++, n++) {
		if (strchr("\\`*_[]<>|#&~", *s))
			(void)buf_putc(&b, '\\');
		(void)buf_putc(&b, *s);
	}
	(void)text_neutralise(&safe, buf_str(&b), b.len);
	for (size_t i = 0; i < safe.len; i++)
		if (safe.data[i] == '\n' || safe.data[i] == '\t')
			safe.data[i] = ' ';
	page_add(p, buf_str(&safe), safe.len);
}

/* A name in a diagram: what could end a label is left out. */
static void label(struct page *p, const char *s)
{
	for (; *s; s++) {
		bool plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');
		page_printf(p, "%c", plain || *s == '_' || *s == '-' ? *s : '_');
	}
}

static void row(struct page *p, const char *name, const char *value)
{
	if (!value)
		return;
	page_printf(p, "| %s | ", name);
	inline_text(p, value);
	page_printf(p, " |\n");
}

/* Both are the run's words. */
static void row_of(struct page *p, const char *name, const char *value)
{
	page_printf(p, "| ");
	inline_text(p, name);
	page_printf(p, " | ");
	inline_text(p, value);
	page_printf(p, " |\n");
}

static void show_head(struct page *p, const json_t *record)
{
	const char *name = json_get_str(record, "name"), *workflow = json_get_str(record, "workflow_name");

	page_printf(p, "# Run of ");
	inline_text(p, workflow ? workflow : "a workflow");
	page_printf(p, "\n\n| | |\n|---|---|\n");
	row(p, "run", json_get_str(record, "id"));
	row(p, "name", name);
	row(p, "status", json_get_str(record, "status"));
	row(p, "error", json_get_str(record, "error"));
	row(p, "hint", json_get_str(record, "error_hint"));
	row(p, "file", json_get_str(record, "file"));
	row(p, "SHA-256 of the file", json_get_str(record, "file_sha256"));
	row(p, "workspace", json_get_str(record, "workspace"));
	row(p, "created", json_get_str(record, "created_at"));
	row(p, "finished", json_get_str(record, "finished_at"));
}

static void show_way(struct page *p, const struct report *r)
{
	if (!r->n_ways)
		return;
	page_printf(p, "\n## The way it took\n\n```mermaid\nflowchart TD\n");
	for (size_t i = 0; i < r->n_ways; i++) {
		const struct way *w = &r->ways[i];
		/* A prefix: some names, such as end, are words of the diagram's language. */
		page_printf(p, "    n_");
		label(p, w->from);
		page_printf(p, "[");
		label(p, w->from);
		page_printf(p, "] -->");
		if (w->times > 1)
			page_printf(p, "|%llu times|", w->times);
		page_printf(p, " n_");
		label(p, w->to);
		page_printf(p, "[");
		label(p, w->to);
		page_printf(p, "]\n");
	}
	page_printf(p, "```\n");
}

static void show_timeline(struct page *p, const struct node_table *t)
{
	page_printf(p, "\n## Nodes\n\n");
	if (!t->n) {
		page_printf(p, "No node was started.\n");
		return;
	}
	page_printf(p, "```mermaid\ngantt\n    dateFormat x\n    axisFormat %%M:%%S.%%L\n");
	for (size_t i = 0; i < t->n; i++) {
		page_printf(p, "    ");
		label(p, t->rows[i].node);
		page_printf(p, " :%s%llu, %llums\n", str_eq(t->rows[i].state, "failed") ? "crit, " : "",
			    (unsigned long long)t->rows[i].begun_ms, (unsigned long long)row_took_ms(&t->rows[i]));
	}
	page_printf(p, "```\n\n| node | kind | state | time |\n|---|---|---|---|\n");
	for (size_t i = 0; i < t->n; i++) {
		char time[DURATION_TEXT_SIZE];
		duration_text(time, row_took_ms(&t->rows[i]));
		page_printf(p, "| ");
		inline_text(p, t->rows[i].node);
		page_printf(p, " | ");
		inline_text(p, t->rows[i].kind ? t->rows[i].kind : "");
		page_printf(p, " | %s | %s |\n", t->rows[i].state, t->rows[i].ended_ms ? time : "");
	}
}

/* Lines indented by four are a code block, in which nothing is markup. */
static void code(struct page *p, const char *s, size_t limit)
{
	size_t all = strnlen(s, limit);
	bool cut = s[all] != '\0';
	auto_buf safe = BUF_INIT(8 * (size_t)MAX_OUTPUT);

	(void)text_neutralise(&safe, s, all);
	for (const char *line = buf_str(&safe); *line; line += *line == '\n') {
		size_t len = strcspn(line, "\n");
		page_printf(p, "    %.*s\n", (int)len, line);
		line += len;
	}
	if (cut)
		page_printf(p, "    […]\n");
}

static void show_outputs(struct page *p, const struct node_table *t)
{
	page_printf(p, "\n## Outputs\n");
	for (size_t i = 0; i < t->n; i++) {
		const json_t *output = json_object_get(t->rows[i].data, "output");
		const char *text = json_get_str(output, "output");
		if (!json_is_object(output) || (text && !*text))
			continue;
		auto_free char *whole = text ? xstrdup(text) : json_compact(output);
		page_printf(p, "\n### ");
		inline_text(p, t->rows[i].node);
		page_printf(p, "\n\n");
		code(p, whole, MAX_OUTPUT);
	}
}

static long long number(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

static void show_network(struct page *p, const json_t *hosts)
{
	const json_t *h;
	size_t i;

	if (!json_array_size(hosts))
		return;
	page_printf(
		p,
		"\n## Network\n\n| host | allowed | refused | bytes sent | bytes received |\n|---|---|---|---|---|\n");
	json_array_foreach(hosts, i, h)
	{
		const char *host = json_get_str(h, "host");
		page_printf(p, "| ");
		inline_text(p, host ? host : "");
		page_printf(p, " | %lld | %lld | %lld | %lld |\n", number(h, "allowed"), number(h, "blocked"),
			    number(h, "bytes_up"), number(h, "bytes_down"));
	}
}

static void show_recoveries(struct page *p, const json_t *all)
{
	const json_t *record;
	size_t i;

	if (!json_array_size(all))
		return;
	page_printf(p, "\n## Nodes that began again\n\n| node | why, and what became of it |\n|---|---|\n");
	json_array_foreach(all, i, record)
	{
		auto_free char *words = recovery_words(record);
		row_of(p, json_get_str(record, "node_id"), words);
	}
}

void report_markdown(const struct report *r, struct page *p)
{
	show_head(p, r->record);
	show_way(p, r);
	show_timeline(p, &r->nodes);
	show_recoveries(p, r->recoveries);
	show_outputs(p, &r->nodes);
	show_network(p, r->hosts);
}
