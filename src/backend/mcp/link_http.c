/* A server behind streamable HTTP (MCP, "Transports"): each message is a POST of its own, whose answer is JSON or a
 * stream of events, and a session of the server is a header that it gives with its first answer.
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

enum { SESSION_MAX = 512, DELETE_MS = 2000 };

struct http_link {
	struct mcp_link base;
	const struct mcp_spec *spec;
	struct http *http;
	char *session; /* as the header's value; NULL: none */
	char *version; /* agreed; NULL: not yet */
	struct exchanges exchanges;
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
	if (id == 0)
		return;
	if (!e) {
		(void)err_set(&none, ERR_PROTOCOL, EPROTO, "MCP server %s: it ended its answer without a result",
			      l->spec->name);
		err_hint(&none, "look at the server's own log");
	}
	l->base.ev.on_failed(l->base.ev.arg, id, e ? e : &none);
}

static int post(struct http_link *l, const char *method, const char *text, size_t len, int64_t id, struct err *e)
{
	auto_strv more = {0};
	struct exchange *x;

	if (l->session)
		strv_take(&more, xasprintf("Mcp-Session-Id: %s", l->session));
	if (l->version)
		strv_take(&more, xasprintf("MCP-Protocol-Version: %s", l->version));
	const struct exchange_opts o = {
		.http = l->http,
		.spec = l->spec,
		.method = method,
		.more = (const char *const *)more.v,
		.text = text,
		.len = len,
		.id = id,
		.total_ms = method ? DELETE_MS : 0,
	};
	const struct exchange_events ev = {.on_head = on_head, .on_message = on_message, .on_done = on_done, .arg = l};
	int r = exchange_start(&o, &ev, &x, e);
	if (r == 0)
		exchanges_add(&l->exchanges, x);
	return r;
}

static int send_message(struct mcp_link *base, const char *text, size_t len, int64_t id, struct err *e)
{
	struct http_link *l = (struct http_link *)base;

	if (l->down || l->closing)
		return err_set(e, ERR_NETWORK, ECONNRESET, "MCP server %s: its session is over", l->spec->name);
	return post(l, NULL, text, len, id, e);
}

static void forget(struct mcp_link *base, int64_t id)
{
	exchanges_forget(&((struct http_link *)base)->exchanges, id);
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
	if (!l->session || post(l, "DELETE", NULL, 0, 0, NULL) < 0)
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
