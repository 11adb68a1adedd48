/* Server-sent events (WHATWG HTML §9.2) out of bytes as they come. */
#pragma once

#include "lines.h"

#include <base/buf.h>
#include <stddef.h>

enum { SSE_NAME_MAX = 64, SSE_ID_MAX = 256, SSE_RETRY_MAX_MS = 60 * 1000 };

struct sse {
	struct lines lines;
	struct buf data;
	char name[SSE_NAME_MAX]; /* of the event; "" is "message" */
	char id[SSE_ID_MAX];	 /* of the latest whole event that had one, printable; "": none */
	char next_id[SSE_ID_MAX];
	unsigned retry_ms; /* that the stream asked for; 0: it did not */
	bool any;	   /* a data field came */
	bool begun;	   /* the stream's first line is behind us */
	bool too_much;
};

/* max: the most bytes of one event's data. Free with sse_done. */
void sse_init(struct sse *s, size_t max);
void sse_done(struct sse *s);

/* One event; name is never empty. Returns false when no more are wanted. */
typedef bool (*sse_sink)(void *arg, const char *name, const char *data, size_t len);

/* 0, or -EMSGSIZE for an event past the limit. */
int sse_feed(struct sse *s, const char *data, size_t len, sse_sink sink, void *arg) __attribute__((warn_unused_result));
