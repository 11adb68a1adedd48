/* A report as one HTML file: it can be sent, kept and read anywhere, also without scripts and without a network.
 *
 * Nothing is loaded from elsewhere, and the page itself forbids it (its content security policy), so that even a
 * mistake in the escaping of what a run put out could neither run nor fetch anything. All text of the run goes through
 * page_text. */
#include "event_view.h"
#include "recovery_words.h"
#include "report.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>
#include <string.h>

enum { MAX_OUTPUT = 256 * 1024, MAX_CELL = 4000 };

static const char style[] =
	":root{color-scheme:light dark;--bg:#fff;--fg:#1c2024;--dim:#60666d;--line:#d9dde1;--box:#f5f6f8;"
	"--ok:#d9f2e0;--ok-line:#2e8b57;--bad:#fde0dd;--bad-line:#c0392b;--run:#dfeafd;--run-line:#3b6fb6}\n"
	"@media(prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e4e7ea;--dim:#9aa1a9;--line:#343a40;--box:#1d2125;"
	"--ok:#173d27;--ok-line:#56b881;--bad:#4a1f1b;--bad-line:#e5796c;--run:#1c2f4a;--run-line:#7aa7e6}}\n"
	"*{box-sizing:border-box}\n"
	"body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--bg);color:var(--fg);"
	"font:16px/1.5 system-ui,sans-serif}\n"
	"h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2rem}\n"
	"h1 .state{font-size:.9rem;font-weight:600;padding:.15rem .6rem;border-radius:1rem;vertical-align:middle;"
	"white-space:nowrap;background:var(--run);border:1px solid var(--run-line)}\n"
	"h1 .state.finished{background:var(--ok);border-color:var(--ok-line)}\n"
	"h1 .state.bad{background:var(--bad);border-color:var(--bad-line)}\n"
	"dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:0}\n"
	"dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}\n"
	".scroll,.drawing{overflow-x:auto}\n"
	".drawing{border:1px solid var(--line);border-radius:.5rem;background:var(--box);padding:.5rem}\n"
	"table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
	"th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line)}th{color:var(--dim)}\n"
	"td.number,th.number{text-align:right;white-space:nowrap}\n"
	"svg{display:block;font:13px ui-monospace,monospace;fill:var(--fg)}svg.graph{margin:0 auto}\n"
	"svg.timeline{width:100%;min-width:40rem}\n"
	".node text{text-anchor:middle}.node rect,.bar rect{fill:var(--box);stroke:var(--dim)}\n"
	".finished>rect{fill:var(--ok);stroke:var(--ok-line)}.running>rect{fill:var(--run);stroke:var(--run-line)}\n"
	".failed>rect,.stopped>rect{fill:var(--bad);stroke:var(--bad-line)}\n"
	".edge{fill:none;stroke:var(--dim);stroke-width:1.3;marker-end:url(#arrow)}.loop{stroke-dasharray:5 3}\n"
	"marker path,.times,text.tick{fill:var(--dim)}line.tick{stroke:var(--line)}\n"
	"details{border:1px solid var(--line);border-radius:.5rem;margin:.5rem 0;background:var(--box)}\n"
	"summary{cursor:pointer;padding:.5rem .8rem;overflow-wrap:anywhere}summary span{color:var(--dim)}\n"
	"details h3{font-size:.85rem;color:var(--dim);margin:.3rem .8rem}\n"
	"pre{margin:0;padding:.5rem .8rem;overflow-x:auto;font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;"
	"overflow-wrap:anywhere;tab-size:8}\n";

static void field(struct page *p, const char *name, const char *value)
{
	if (!value)
		return;
	page_printf(p, "<dt>%s</dt><dd>", name);
	page_text(p, value, MAX_CELL);
	page_printf(p, "</dd>\n");
}

static void head(struct page *p, const json_t *record)
{
	const char *workflow = json_get_str(record, "workflow_name"), *status = json_get_str(record, "status");
	bool good = str_eq(status, "finished"),
	     open = status && (str_starts(status, "paused") || str_eq(status, "running"));

	page_printf(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
		       "'unsafe-inline'\">\n<title>Run of ");
	page_text(p, workflow ? workflow : "a workflow", MAX_CELL);
	page_printf(p, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>Run of ", style);
	page_text(p, workflow ? workflow : "a workflow", MAX_CELL);
	page_printf(p, " <span class=\"state%s\">", good ? " finished" : open ? "" : " bad");
	page_text(p, status ? status : "unknown", MAX_CELL);
	page_printf(p, "</span></h1>\n");
}

static void facts(struct page *p, const struct report *r)
{
	const json_t *record = r->record;
	char time[DURATION_TEXT_SIZE];

	duration_text(time, r->ended_ms > r->begun_ms ? r->ended_ms - r->begun_ms : 0);
	page_printf(p, "<dl>\n");
	field(p, "error", json_get_str(record, "error"));
	field(p, "hint", json_get_str(record, "error_hint"));
	field(p, "took", time);
	field(p, "name", json_get_str(record, "name"));
	field(p, "run", json_get_str(record, "id"));
	field(p, "file", json_get_str(record, "file"));
	field(p, "SHA-256", json_get_str(record, "file_sha256"));
	field(p, "workspace", json_get_str(record, "workspace"));
	field(p, "created", json_get_str(record, "created_at"));
	field(p, "finished", json_get_str(record, "finished_at"));
	page_printf(p, "</dl>\n");
}

static void number_cell(struct page *p, const json_t *n, const char *before)
{
	page_printf(p, "<td class=\"number\">");
	if (json_is_integer(n))
		page_printf(p, "%s%lld", before, (long long)json_integer_value(n));
	else if (json_is_real(n))
		page_printf(p, "%s%.4f", before, json_real_value(n));
	page_printf(p, "</td>");
}

static bool has_member(const struct node_table *t, const char *key)
{
	for (size_t i = 0; i < t->n; i++)
		if (json_is_number(json_object_get(t->rows[i].data, key)))
			return true;
	return false;
}

static void table(struct page *p, const struct node_table *t)
{
	bool tokens = has_member(t, "_tokens"), cost = has_member(t, "_cost_usd");

	page_printf(p,
		    "<div class=\"scroll\"><table>\n<tr><th>node<th>branch<th>kind<th>state<th class=\"number\">time"
		    "%s%s</tr>\n",
		    tokens ? "<th class=\"number\">tokens" : "", cost ? "<th class=\"number\">cost" : "");
	for (size_t i = 0; i < t->n; i++) {
		const struct node_row *row = &t->rows[i];
		char time[DURATION_TEXT_SIZE] = "";
		if (row->ended_ms)
			duration_text(time, row_took_ms(row));
		page_printf(p, "<tr><td>");
		page_text(p, row->node, MAX_CELL);
		page_printf(p, "</td><td>");
		page_text(p, row->branch ? row->branch : "", MAX_CELL);
		page_printf(p, "</td><td>");
		page_text(p, row->kind ? row->kind : "", MAX_CELL);
		page_printf(p, "</td><td>%s</td><td class=\"number\">%s</td>", row->state, time);
		if (tokens)
			number_cell(p, json_object_get(row->data, "_tokens"), "");
		if (cost)
			number_cell(p, json_object_get(row->data, "_cost_usd"), "$");
		page_printf(p, "</tr>\n");
	}
	page_printf(p, "</table></div>\n");
}

static void block(struct page *p, const char *title, const char *text)
{
	if (!text || !*text)
		return;
	page_printf(p, "<h3>%s</h3><pre>", title);
	page_text(p, text, MAX_OUTPUT);
	page_printf(p, "</pre>\n");
}

/* A tool's text as text, and whatever else an output has as JSON. */
static void output(struct page *p, const json_t *data)
{
	const json_t *out = json_object_get(data, "output");
	const char *text = json_get_str(out, "output"), *errors = json_get_str(out, "stderr");
	bool plain = json_is_object(out) && (text || errors);

	block(p, "error", json_get_str(data, "error"));
	block(p, "hint", json_get_str(data, "hint"));
	if (plain) {
		block(p, "output", text);
		block(p, "standard error", errors);
	} else if (json_is_object(out) && json_object_size(out)) {
		auto_free char *all = json_dumps(out, JSON_REALS | JSON_INDENT(2));
		block(p, "output", all);
	} else if (json_is_string(out)) {
		block(p, "output", json_string_value(out));
	}
	block(p, "the whole output, in the run's folder", json_get_str(data, "output_ref"));
	block(p, "its beginning", json_get_str(data, "preview"));
}

static void outputs(struct page *p, const struct node_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct node_row *row = &t->rows[i];
		char time[DURATION_TEXT_SIZE] = "not ended";
		struct page inside = {.b = BUF_INIT(p->b.max)};
		output(&inside, row->data);
		if (row->ended_ms)
			duration_text(time, row_took_ms(row));
		if (inside.b.len) {
			page_printf(p, "<details%s><summary>", str_eq(row->state, "failed") ? " open" : "");
			page_text(p, row->node, MAX_CELL);
			page_printf(p, " <span>%s, %s</span></summary>\n", row->state, time);
			page_add(p, inside.b.data, inside.b.len);
			page_printf(p, "</details>\n");
		}
		if (inside.failed && !p->failed)
			p->failed = inside.failed;
		buf_done(&inside.b);
	}
}

static void recoveries(struct page *p, const json_t *all)
{
	const json_t *record;
	size_t i;

	if (!json_array_size(all))
		return;
	page_printf(p, "<h2>Nodes that began again</h2>\n<div class=\"scroll\"><table>\n"
		       "<tr><th>node<th>why, and what became of it</tr>\n");
	json_array_foreach(all, i, record)
	{
		auto_free char *words = recovery_words(record);
		page_printf(p, "<tr><td>");
		page_text(p, json_get_str(record, "node_id"), MAX_CELL);
		page_printf(p, "</td><td>");
		page_text(p, words, MAX_OUTPUT);
		page_printf(p, "</td></tr>\n");
	}
	page_printf(p, "</table></div>\n");
}

static void network(struct page *p, const json_t *hosts)
{
	static const char *const keys[] = {"allowed", "blocked", "bytes_up", "bytes_down"};
	const json_t *h;
	size_t i;

	if (!json_array_size(hosts))
		return;
	page_printf(p, "<h2>Network</h2>\n<div class=\"scroll\"><table>\n<tr><th>host<th class=\"number\">allowed"
		       "<th class=\"number\">refused<th class=\"number\">bytes sent<th class=\"number\">bytes received"
		       "</tr>\n");
	json_array_foreach(hosts, i, h)
	{
		const char *host = json_get_str(h, "host");
		page_printf(p, "<tr><td>");
		page_text(p, host ? host : "", MAX_CELL);
		page_printf(p, "</td>");
		for (size_t k = 0; k < ARRAY_LEN(keys); k++)
			number_cell(p, json_object_get(h, keys[k]), "");
		page_printf(p, "</tr>\n");
	}
	page_printf(p, "</table></div>\n");
}

void report_html(const struct report *r, struct page *p)
{
	head(p, r->record);
	facts(p, r);
	if (r->nodes.n) {
		page_printf(p, "<h2>The way it took</h2>\n");
		report_graph(r, p);
		page_printf(p, "<h2>Timeline</h2>\n");
		report_timeline(r, p);
		page_printf(p, "<h2>Nodes</h2>\n");
		table(p, &r->nodes);
		recoveries(p, r->recoveries);
		page_printf(p, "<h2>Outputs</h2>\n");
		outputs(p, &r->nodes);
	} else {
		page_printf(p, "<p>No node was started.</p>\n");
	}
	network(p, r->hosts);
	page_printf(p, "</body>\n</html>\n");
}
