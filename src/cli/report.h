/* What a report says of a run, and the page it is written to. */
#pragma once

#include "node_table.h"

#include <base/buf.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* An edge that was taken. */
struct way {
	char *from, *to;
	unsigned long long times;
};

struct report {
	const json_t *record; /* run.json, borrowed */
	struct node_table nodes;
	struct way *ways; /* in the order they were first taken */
	size_t n_ways, cap_ways;
	json_t *ways_known;	     /* "from\nto" → index of ways: a run may have ten thousands of them */
	json_t *recoveries;	     /* of the run's folder; NULL: not read */
	json_t *hosts;		     /* of network_summary; NULL: there was none */
	uint64_t begun_ms, ended_ms; /* of the first and the last event */
};

/* Gathers it all from the run's events. */
int report_read(struct report *r, const char *store, const char *id, struct err *e) __attribute__((warn_unused_result));
void report_done(struct report *r);

/* Milliseconds that a row of the table took; 0 while unknown. */
uint64_t row_took_ms(const struct node_row *row);

/* A page in the making; the first failure (it is too large) is kept. */
struct page {
	struct buf b;
	int failed;
};
void page_printf(struct page *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void page_add(struct page *p, const char *s, size_t len);

/* Text of the run for the inside of an HTML or SVG element or of a quoted attribute: markup escaped, control characters
 * neutralised; at most so many bytes (0: all). */
void page_text(struct page *p, const char *s, size_t limit);

void report_markdown(const struct report *r, struct page *p);
/* One file without scripts and without anything from elsewhere. */
void report_html(const struct report *r, struct page *p);
/* Its drawings, as SVG elements. */
void report_graph(const struct report *r, struct page *p);
void report_timeline(const struct report *r, struct page *p);
