/* The contents of a report, gathered from the run's own record and events, so that the page says what happened and not
 * what the workflow file says today. */
#include "report.h"
#include "event_view.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/read.h>

#include <stdlib.h>
#include <string.h>

static void add_way(struct report *r, const json_t *data)
{
	const char *from = json_get_str(data, "from"), *to = json_get_str(data, "to");

	if (!from || !to)
		return;
	auto_free char *key = xasprintf("%s\n%s", from, to);
	const json_t *known = json_object_get(r->ways_known, key);
	if (known) {
		r->ways[json_integer_value(known)].times++;
		return;
	}
	json_put_int(r->ways_known, key, (long long)r->n_ways);
	r->ways = grow_array(r->ways, r->n_ways, &r->cap_ways, sizeof *r->ways);
	r->ways[r->n_ways++] = (struct way){.from = xstrdup(from), .to = xstrdup(to), .times = 1};
}

static void add_event(struct report *r, const json_t *ev)
{
	const char *type = json_get_str(ev, "type");
	const json_t *data = json_object_get(ev, "data");
	uint64_t now = event_time_ms(ev);

	node_table_add(&r->nodes, ev);
	if (!r->begun_ms)
		r->begun_ms = now;
	r->ended_ms = MAX(r->ended_ms, now);
	if (str_eq(type, "edge_selected"))
		add_way(r, data);
	if (str_eq(type, "network_summary") && !r->hosts)
		r->hosts = json_incref(json_object_get(data, "hosts"));
}

int report_read(struct report *r, const char *store, const char *id, struct err *e)
{
	struct event_reader *reader;
	json_t *ev;
	int n = event_reader_open(store, id, &reader, e);

	if (n < 0)
		return n;
	r->ways_known = json_object();
	while ((n = event_reader_next(reader, &ev, NULL, e)) > 0) {
		add_event(r, ev);
		json_decref(ev);
	}
	event_reader_free(reader);
	r->recoveries = store_read_recoveries(store, id);
	return n;
}

void report_done(struct report *r)
{
	node_table_done(&r->nodes);
	for (size_t i = 0; i < r->n_ways; i++) {
		free(r->ways[i].from);
		free(r->ways[i].to);
	}
	free(r->ways);
	json_decref(r->ways_known);
	json_decref(r->hosts);
	json_decref(r->recoveries);
}

uint64_t row_took_ms(const struct node_row *row)
{
	return row->ended_ms > row->begun_ms ? row->ended_ms - row->begun_ms : 0;
}

void page_add(struct page *p, const char *s, size_t len)
{
	int r = buf_add(&p->b, s, len);

	if (r < 0 && !p->failed)
		p->failed = r;
}

void page_printf(struct page *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int r = buf_vprintf(&p->b, fmt, ap);
	va_end(ap);
	if (r < 0 && !p->failed)
		p->failed = r;
}

void page_text(struct page *p, const char *s, size_t limit)
{
	size_t len = limit ? strnlen(s, limit) : strlen(s);
	bool cut = s[len] != '\0';
	auto_buf safe = BUF_INIT(p->b.max);

	while (cut && len && ((unsigned char)s[len] & 0xc0) == 0x80)
		len--;
	int r = text_neutralise(&safe, s, len);
	if (r < 0 && !p->failed)
		p->failed = r;
	for (size_t i = 0; i < safe.len; i++) {
		static const char *const names[] = {
			['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};
		unsigned char c = (unsigned char)safe.data[i];
		const char *name = c < ARRAY_LEN(names) ? names[c] : NULL;
		page_add(p, name ? name : &safe.data[i], name ? strlen(name) : 1);
	}
	if (cut)
		page_add(p, " […]", strlen(" […]"));
}
