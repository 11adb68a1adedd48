/* A message as the body of a POST, and messages out of the answer: one JSON text, or a stream of events. An answer that
 * is no success is an error that names the status, with the first words of its body for people. */
#include "exchange.h"

#include "config.h"
#include "rpc.h"
#include "stream/sse.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORDS_MAX = 4 * 1024, WORDS_SHOWN = 200 };

enum body { BODY_NONE, BODY_JSON, BODY_EVENTS, BODY_WORDS };

struct exchange {
	struct exchange_events ev;
	const struct mcp_spec *spec;
	struct http_request *request;
	struct exchange *next;
	int64_t id;
	int status;
	enum body body;
	struct buf text;
	struct sse sse;
	struct err failure;
	bool inside;	/* an event is being told */
	bool cancelled; /* meanwhile */
	bool unwanted;	/* the receiver has had enough */
};

static void free_exchange(struct exchange *x)
{
	buf_done(&x->text);
	sse_done(&x->sse);
	free(x);
}

int64_t exchange_id(const struct exchange *x)
{
	return x->id;
}

const char *exchange_last_event(const struct exchange *x, unsigned *ret_retry_ms)
{
	*ret_retry_ms = x->sse.retry_ms;
	return x->sse.id;
}

void exchange_cancel(struct exchange *x)
{
	if (x->cancelled)
		return;
	x->cancelled = true;
	if (x->request)
		http_cancel(TAKE_PTR(x->request));
	if (!x->inside)
		free_exchange(x);
}

/* Frees it when it was cancelled from within what was told. */
static bool left_alone(struct exchange *x)
{
	bool cancelled = x->cancelled;

	x->inside = false;
	if (cancelled)
		free_exchange(x);
	return !cancelled;
}

static void end(struct exchange *x, const struct err *e)
{
	x->request = NULL;
	x->ev.on_done(x->ev.arg, x, x->id, e);
	free_exchange(x);
}

static void cut(struct exchange *x)
{
	http_cancel(TAKE_PTR(x->request));
	end(x, x->failure.kind != ERR_NONE ? &x->failure : NULL);
}

static bool is_type(const struct http_head *h, const char *type)
{
	const char *value = http_field(h, "Content-Type");
	size_t len = strlen(type);

	return value && strncasecmp(value, type, len) == 0 && (!value[len] || strchr("; \t", value[len]));
}

static void on_head(void *arg, const struct http_head *h)
{
	struct exchange *x = arg;

	x->status = h->status;
	x->body = h->status < 200 || h->status > 299 ? BODY_WORDS
		  : is_type(h, "text/event-stream")  ? BODY_EVENTS
		  : is_type(h, "application/json")   ? BODY_JSON
						     : BODY_NONE;
	x->text.max = x->body == BODY_JSON ? RPC_MESSAGE_MAX + 1 : WORDS_MAX;
	x->inside = true;
	int r = x->ev.on_head ? x->ev.on_head(x->ev.arg, x->id, h, &x->failure) : 0;
	if (!left_alone(x))
		return;
	if (r < 0)
		cut(x);
}

static bool on_event(void *arg, const char *name, const char *data, size_t len)
{
	struct exchange *x = arg;

	x->unwanted = !x->ev.on_message(x->ev.arg, name, data, len);
	return !x->unwanted && !x->cancelled;
}

static void too_large(struct exchange *x)
{
	(void)err_set(&x->failure, ERR_PROTOCOL, EMSGSIZE, "MCP server %s: it answered with more than %d MiB",
		      x->spec->name, RPC_MESSAGE_MAX / 1024 / 1024);
	err_hint(&x->failure, "let its tools answer with less, for example page by page");
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct exchange *x = arg;
	int r = 0;

	x->inside = true;
	if (x->body == BODY_EVENTS)
		r = sse_feed(&x->sse, data, len, on_event, x);
	else if (x->body == BODY_JSON)
		r = buf_add(&x->text, data, len);
	else if (x->body == BODY_WORDS)
		(void)buf_add(&x->text, data, MIN(len, WORDS_MAX - x->text.len));
	if (!left_alone(x))
		return;
	if (r < 0)
		too_large(x);
	if (r < 0 || x->unwanted)
		cut(x);
}

static void bad_status(struct exchange *x)
{
	auto_buf words = BUF_INIT(8 * WORDS_MAX);

	(void)text_neutralise(&words, buf_str(&x->text), MIN(x->text.len, (size_t)WORDS_SHOWN));
	(void)err_set(&x->failure, ERR_NETWORK, EPROTO, "MCP server %s: it answered with status %d%s%s", x->spec->name,
		      x->status, words.len ? ": " : "", buf_str(&words));
	if (x->status == 401 || x->status == 403)
		err_hint(&x->failure, "give it a token that it takes: auth with type: bearer and token: \"${NAME}\"");
	else
		err_hint(&x->failure, "look at its url in the workflow, and whether the server is well");
}

static void on_done(void *arg, const struct err *e)
{
	struct exchange *x = arg;

	x->request = NULL;
	if (e) {
		x->failure = *e;
		(void)err_wrap(&x->failure, -1, "MCP server %s", x->spec->name);
	} else if (x->body == BODY_WORDS) {
		bad_status(x);
	} else if (x->body == BODY_JSON && x->text.len > 0) {
		x->inside = true;
		(void)x->ev.on_message(x->ev.arg, NULL, x->text.data, x->text.len);
		if (!left_alone(x))
			return;
	}
	end(x, x->failure.kind != ERR_NONE ? &x->failure : NULL);
}

int exchange_start(const struct exchange_opts *o, const struct exchange_events *ev, struct exchange **ret,
		   struct err *e)
{
	struct exchange *x = xcalloc(1, sizeof *x);
	auto_strv headers = {0};
	bool post = !o->method;

	if (post)
		strv_add(&headers, "Content-Type: application/json");
	strv_add(&headers, post ? "Accept: application/json, text/event-stream" : "Accept: text/event-stream");
	for (size_t i = 0; i < o->spec->headers.n; i++)
		strv_add(&headers, o->spec->headers.v[i]);
	for (const char *const *h = o->more; h && *h; h++)
		strv_add(&headers, *h);
	*x = (struct exchange){.ev = *ev, .spec = o->spec, .id = o->id, .text = BUF_INIT(WORDS_MAX)};
	sse_init(&x->sse, RPC_MESSAGE_MAX);
	const struct http_opts ho = {
		.method = o->method,
		.url = o->url ? o->url : o->spec->url,
		.headers = (const char *const *)headers.v,
		.body = o->text,
		.body_len = o->len,
		.idle_ms = o->idle_ms,
		.total_ms = o->total_ms,
	};
	const struct http_callbacks cb = {.on_head = on_head, .on_data = on_data, .on_done = on_done, .arg = x};
	int r = http_start(o->http, &ho, &cb, &x->request, e);
	if (r < 0) {
		free_exchange(x);
		return err_wrap(e, r, "MCP server %s", o->spec->name);
	}
	*ret = x;
	return 0;
}

void exchanges_add(struct exchanges *l, struct exchange *x)
{
	x->next = l->first;
	l->first = x;
}

void exchanges_remove(struct exchanges *l, struct exchange *x)
{
	struct exchange **p = &l->first;

	while (*p && *p != x)
		p = &(*p)->next;
	if (*p)
		*p = x->next;
}

void exchanges_forget(struct exchanges *l, int64_t id)
{
	for (struct exchange *x = l->first; x; x = x->next) {
		if (x->id != id)
			continue;
		exchanges_remove(l, x);
		exchange_cancel(x);
		return;
	}
}

void exchanges_cancel(struct exchanges *l)
{
	while (l->first) {
		struct exchange *x = l->first;
		l->first = x->next;
		exchange_cancel(x);
	}
}
