/* A server behind streamable HTTP (MCP, "Transports"): each message is a POST of its own, whose answer is JSON or a
 * stream of events, and a session of the server is a header that it gives with its first answer.
 *
 * A stream may end before the answer came: a server that gave its events ids wants to be asked again, with the latest
 * of them, after a while that it chooses, and goes on where it was. So a long call holds no connection.
 *
 * A 404 to that header means that the server forgot the session: the link is down then, and a new one begins a new
 * session. The stream of a GET, on which a server may speak unasked, is not opened: what could come there is asked for
 * when it is needed. Closing the link ends the session with a DELETE, for which nobody waits long. */
#include "config.h"
#include "exchange.h"
#include "link.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SESSION_MAX = 512,
	DELETE_MS = 2000,
	RETRY_MS = 1000, /* when the server does not say */
};

/* A stream that is to be gone on with. */
struct pause {
	struct http_link *link;
	struct pause *next;
	uv_timer_t timer;
	int64_t id;
	char *last_event;
};

struct http_link {
	struct mcp_link base;
	const struct mcp_spec *spec;
	struct http *http;
	char *session; /* as the header's value; NULL: none */
	char *version; /* agreed; NULL: not yet */
	struct exchanges exchanges;
	struct pause *pauses;
	uv_idle_t idle; /* says that it is closed */
	bool down, closing;
};

/* The header's value when it may be one (MCP: visible ASCII). */
static void take_session(struct http_link *l, const struct http_head *h)
{
	const char *value = http_field(h, "Mcp-Session-Id");

	if (!value || l->session || strlen(value) > SESSION_MAX)
		return;
	for (const char *p = value; *p; p++)
		if (*p < 0x21 || *p > 0x7e)
			return;
	if (*value)
		l->session = xstrdup(value);
}

static int on_head(void *arg, int64_t id, const struct http_head *h, struct err *e)
{
	struct http_link *l = arg;

	(void)id;
	if (h->status >= 200 && h->status < 300)
		take_session(l, h);
	if (h->status != 404 || !l->session || l->closing)
		return 0;
	l->down = true;
	(void)err_set(e, ERR_NETWORK, ECONNRESET, "MCP server %s: it forgot the session", l->spec->name);
	err_hint(e, "a new one begins with the next call");
	return -ECONNRESET;
}

static bool on_message(void *arg, const char *event, const char *text, size_t len)
{
	struct http_link *l = arg;

	if (!event || str_eq(event, "message"))
		l->base.ev.on_message(l->base.ev.arg, text, len);
	return !l->closing && !l->down;
}

static void on_closed(uv_handle_t *h)
{
	struct http_link *l = h->data;
	struct link_events ev = l->base.ev;

	free(l->session);
	free(l->version);
	free(l);
	ev.on_closed(ev.arg);
}

static void on_done(void *arg, struct exchange *x, int64_t id, const struct err *e);

/* A message; or, with a method, another request: of the session (DELETE), or for the rest of a stream (GET). */
static int request(struct http_link *l, const char *method, const char *last_event, const char *text, size_t len,
		   int64_t id, struct err *e)
{
	auto_strv more = {0};
	struct exchange *x;

	if (l->session)
		strv_take(&more, xasprintf("Mcp-Session-Id: %s", l->session));
	if (l->version)
		strv_take(&more, xasprintf("MCP-Protocol-Version: %s", l->version));
	if (last_event)
		strv_take(&more, xasprintf("Last-Event-ID: %s", last_event));
	const struct exchange_opts o = {
		.http = l->http,
		.spec = l->spec,
		.method = method,
		.more = (const char *const *)more.v,
		.text = text,
		.len = len,
		.id = id,
		.total_ms = str_eq(method, "DELETE") ? DELETE_MS : 0,
	};
	const struct exchange_events ev = {.on_head = on_head, .on_message = on_message, .on_done = on_done, .arg = l};
	int r = exchange_start(&o, &ev, &x, e);
	if (r == 0)
		exchanges_add(&l->exchanges, x);
	return r;
}

/* --- streams that go on --- */

static void on_pause_closed(uv_handle_t *h)
{
	struct pause *p = h->data;

	free(p->last_event);
	free(p);
}

static void end_pause(struct pause *p)
{
	struct pause **at = &p->link->pauses;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	uv_close((uv_handle_t *)&p->timer, on_pause_closed);
}

static void on_paused(uv_timer_t *timer)
{
	struct pause *p = timer->data;
	struct http_link *l = p->link;
	struct err e = ERR_INIT;
	int64_t id = p->id;
	bool waiting = l->base.ev.is_waiting(l->base.ev.arg, id);
	int r = waiting ? request(l, "GET", p->last_event, NULL, 0, id, &e) : 0;

	end_pause(p);
	if (r < 0)
		l->base.ev.on_failed(l->base.ev.arg, id, &e);
}

/* Whether the rest of the stream can be asked for. */
static bool go_on_later(struct http_link *l, const struct exchange *x, int64_t id)
{
	unsigned retry_ms;
	const char *last_event = exchange_last_event(x, &retry_ms);

	if (id <= 0 || !*last_event || !l->base.ev.is_waiting(l->base.ev.arg, id))
		return false;
	struct pause *p = xcalloc(1, sizeof *p);
	*p = (struct pause){.link = l, .id = id, .last_event = xstrdup(last_event), .next = l->pauses};
	l->pauses = p;
	(void)uv_timer_init(l->idle.loop, &p->timer);
	p->timer.data = p;
	(void)uv_timer_start(&p->timer, on_paused, retry_ms ? retry_ms : RETRY_MS, 0);
	return true;
}

static void on_done(void *arg, struct exchange *x, int64_t id, const struct err *e)
{
	struct http_link *l = arg;
	struct err none = ERR_INIT;

	exchanges_remove(&l->exchanges, x);
	if (l->closing) {
		/* Of the DELETE. */
		uv_close((uv_handle_t *)&l->idle, on_closed);
		return;
	}
	if (l->down) {
		exchanges_cancel(&l->exchanges);
		free(TAKE_PTR(l->session));
		l->base.ev.on_down(l->base.ev.arg, e ? e : &none);
		return;
	}
	if (id == 0 || ((!e || e->kind == ERR_NETWORK) && go_on_later(l, x, id)))
		return;
	if (!e) {
		(void)err_set(&none, ERR_PROTOCOL, EPROTO, "MCP server %s: it ended its answer without a result",
			      l->spec->name);
		err_hint(&none, "look at the server's own log");
	}
	l->base.ev.on_failed(l->base.ev.arg, id, e ? e : &none);
}

static int send_message(struct mcp_link *base, const char *text, size_t len, int64_t id, struct err *e)
{
	struct http_link *l = (struct http_link *)base;

	if (l->down || l->closing)
		return err_set(e, ERR_NETWORK, ECONNRESET, "MCP server %s: its session is over", l->spec->name);
	return request(l, NULL, NULL, text, len, id, e);
}

static void forget(struct mcp_link *base, int64_t id)
{
	struct http_link *l = (struct http_link *)base;

	exchanges_forget(&l->exchanges, id);
	for (struct pause *p = l->pauses; p; p = p->next) {
		if (p->id == id) {
			end_pause(p);
			return;
		}
	}
}

static void agree(struct mcp_link *base, const char *version)
{
	struct http_link *l = (struct http_link *)base;

	free(l->version);
	l->version = xstrdup(version);
}

static void close_link(struct mcp_link *base)
{
	struct http_link *l = (struct http_link *)base;

	l->closing = true;
	exchanges_cancel(&l->exchanges);
	while (l->pauses)
		end_pause(l->pauses);
	if (!l->session || request(l, "DELETE", NULL, NULL, 0, 0, NULL) < 0)
		uv_close((uv_handle_t *)&l->idle, on_closed);
}

static const struct link_ops http_ops = {.send = send_message, .forget = forget, .agree = agree, .close = close_link};

int link_http_new(const struct link_params *p, struct mcp_link **ret, struct err *e)
{
	struct http_link *l = xcalloc(1, sizeof *l);

	(void)e;
	*l = (struct http_link){.base = {.ops = &http_ops, .ev = p->events}, .spec = p->spec, .http = p->http};
	(void)uv_idle_init(p->loop, &l->idle);
	l->idle.data = l;
	*ret = &l->base;
	return 0;
}
