/* One HTTP request that carries a message, and its answer: for the two transports over HTTP. */
#pragma once

#include "link.h"
#include <http/http.h>

#include <stdbool.h>

struct exchange;

/* What comes of it; the exchange is gone after on_done. */
struct exchange_events {
	/* The head came: 0, or -errno to end the exchange with e. May be NULL. */
	int (*on_head)(void *arg, int64_t id, const struct http_head *h, struct err *e);
	/* One message of the body; event is NULL for a body of JSON, else the event's name. Returns false to end it. */
	bool (*on_message)(void *arg, const char *event, const char *text, size_t len);
	void (*on_done)(void *arg, struct exchange *x, int64_t id, const struct err *e);
	void *arg;
};

struct exchange_opts {
	struct http *http;
	const struct mcp_spec *spec;
	const char *method;	 /* NULL: POST */
	const char *url;	 /* NULL: the spec's */
	const char *const *more; /* headers beside the spec's, NULL-terminated */
	const char *text;	 /* the body, or NULL */
	size_t len;
	int64_t id;
	uint64_t idle_ms; /* 0: the client's own */
	uint64_t total_ms;
};

int exchange_start(const struct exchange_opts *o, const struct exchange_events *ev, struct exchange **ret,
		   struct err *e) __attribute__((warn_unused_result));
/* No event comes any more, and it is gone. Not from within its on_done. */
void exchange_cancel(struct exchange *x);
int64_t exchange_id(const struct exchange *x);
/* Of an answer that was a stream of events, until on_done has returned: the id of its latest event, "" when there was
 * none, and after how long it wants to be asked again, 0 when it did not say. */
const char *exchange_last_event(const struct exchange *x, unsigned *ret_retry_ms);

/* Those under way, of one link. */
struct exchanges {
	struct exchange *first;
};
void exchanges_add(struct exchanges *l, struct exchange *x);
void exchanges_remove(struct exchanges *l, struct exchange *x);
/* Cancels the one that carries this request, if any. */
void exchanges_forget(struct exchanges *l, int64_t id);
void exchanges_cancel(struct exchanges *l);
