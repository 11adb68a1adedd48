/* A server behind HTTP with SSE, the transport of version 2024-11-05: one GET whose stream of events never ends carries
 * all that the server says, and its first event names the address that messages are posted to.
 *
 * That address is the server's word. It must have the scheme, host and port of the URL that the user gave, since the
 * token goes there. Messages that are sent before it is known wait. */
#include "config.h"
#include "endpoint.h"
#include "exchange.h"
#include "link.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	STREAM_ID = -1,
	WAITING_MAX = 8,
	STREAM_IDLE_MS = 24 * 60 * 60 * 1000, /* silence means nothing: the server has nothing to say */
};

struct waiting {
	char *text;
	int64_t id;
};

struct sse_link {
	struct mcp_link base;
	const struct mcp_spec *spec;
	struct http *http;
	struct exchange *stream;
	char *endpoint; /* NULL: not known yet */
	struct waiting waiting[WAITING_MAX];
	size_t n_waiting;
	struct exchanges posts;
	uv_idle_t idle; /* says that it is closed */
	bool down, closing;
	struct err reason;
};

static bool on_posted(void *arg, const char *event, const char *text, size_t len)
{
	/* Answers come on the stream; what a POST answers with means nothing. */
	(void)arg;
	(void)event;
	(void)text;
	(void)len;
	return true;
}

static void on_post_done(void *arg, struct exchange *x, int64_t id, const struct err *e)
{
	struct sse_link *l = arg;

	exchanges_remove(&l->posts, x);
	if (e && id != 0 && !l->closing && !l->down)
		l->base.ev.on_failed(l->base.ev.arg, id, e);
}

static int post(struct sse_link *l, const char *text, size_t len, int64_t id, struct err *e)
{
	struct exchange *x;
	const struct exchange_opts o = {
		.http = l->http, .spec = l->spec, .url = l->endpoint, .text = text, .len = len, .id = id};
	const struct exchange_events ev = {.on_message = on_posted, .on_done = on_post_done, .arg = l};
	int r = exchange_start(&o, &ev, &x, e);

	if (r == 0)
		exchanges_add(&l->posts, x);
	return r;
}

static void send_waiting(struct sse_link *l)
{
	for (size_t i = 0; i < l->n_waiting; i++) {
		struct err e = ERR_INIT;
		struct waiting *w = &l->waiting[i];
		if (post(l, w->text, strlen(w->text), w->id, &e) < 0 && w->id != 0)
			l->base.ev.on_failed(l->base.ev.arg, w->id, &e);
		free(w->text);
	}
	l->n_waiting = 0;
}

static bool on_event(void *arg, const char *event, const char *text, size_t len)
{
	struct sse_link *l = arg;

	if (str_eq(event, "message")) {
		l->base.ev.on_message(l->base.ev.arg, text, len);
	} else if (str_eq(event, "endpoint") && !l->endpoint) {
		l->endpoint = endpoint_resolve(l->spec->url, text);
		if (l->endpoint) {
			send_waiting(l);
		} else {
			(void)err_set(&l->reason, ERR_PROTOCOL, EPROTO,
				      "MCP server %s: it wants messages posted to another place than its url names",
				      l->spec->name);
			err_hint(&l->reason, "the address must have the url's scheme, host and port");
			return false;
		}
	}
	return !l->closing;
}

static void on_stream_done(void *arg, struct exchange *x, int64_t id, const struct err *e)
{
	struct sse_link *l = arg;
	struct err none = ERR_INIT;

	(void)x;
	(void)id;
	l->stream = NULL;
	l->down = true;
	exchanges_cancel(&l->posts);
	(void)err_set(&none, ERR_NETWORK, ECONNRESET, "MCP server %s: it ended its stream of events", l->spec->name);
	err_hint(&none, "it is asked again with the next call; look at the server's own log");
	l->base.ev.on_down(l->base.ev.arg, l->reason.kind != ERR_NONE ? &l->reason : e ? e : &none);
}

static int send_message(struct mcp_link *base, const char *text, size_t len, int64_t id, struct err *e)
{
	struct sse_link *l = (struct sse_link *)base;

	if (l->down || l->closing || l->reason.kind != ERR_NONE)
		return err_set(e, ERR_NETWORK, ECONNRESET, "MCP server %s: its stream of events ended", l->spec->name);
	if (l->endpoint)
		return post(l, text, len, id, e);
	if (l->n_waiting == WAITING_MAX)
		return err_set(e, ERR_NETWORK, EAGAIN, "MCP server %s: it did not say where to post to", l->spec->name);
	l->waiting[l->n_waiting++] = (struct waiting){.text = xstrndup(text, len), .id = id};
	return 0;
}

static void forget(struct mcp_link *base, int64_t id)
{
	exchanges_forget(&((struct sse_link *)base)->posts, id);
}

static void on_closed(uv_handle_t *h)
{
	struct sse_link *l = h->data;
	struct link_events ev = l->base.ev;

	for (size_t i = 0; i < l->n_waiting; i++)
		free(l->waiting[i].text);
	free(l->endpoint);
	free(l);
	ev.on_closed(ev.arg);
}

static void close_link(struct mcp_link *base)
{
	struct sse_link *l = (struct sse_link *)base;

	l->closing = true;
	exchanges_cancel(&l->posts);
	if (l->stream)
		exchange_cancel(TAKE_PTR(l->stream));
	uv_close((uv_handle_t *)&l->idle, on_closed);
}

static const struct link_ops sse_ops = {.send = send_message, .forget = forget, .close = close_link};

int link_sse_new(const struct link_params *p, struct mcp_link **ret, struct err *e)
{
	struct sse_link *l = xcalloc(1, sizeof *l);
	const struct exchange_opts o = {
		.http = p->http, .spec = p->spec, .method = "GET", .id = STREAM_ID, .idle_ms = STREAM_IDLE_MS};
	const struct exchange_events ev = {.on_message = on_event, .on_done = on_stream_done, .arg = l};

	*l = (struct sse_link){.base = {.ops = &sse_ops, .ev = p->events}, .spec = p->spec, .http = p->http};
	int r = exchange_start(&o, &ev, &l->stream, e);
	if (r < 0) {
		free(l);
		return r;
	}
	(void)uv_idle_init(p->loop, &l->idle);
	l->idle.data = l;
	*ret = &l->base;
	return 0;
}
