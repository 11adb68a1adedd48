/* What a request head asks for: authentication first, then the target, then whether Host speaks of the same place. */
#include "inspect.h"
#include "proxy_auth.h"
#include "proxy_conn.h"

#include <string.h>

bool request_host_agrees(const struct conn *c, struct http_text value, unsigned default_port)
{
	struct host h;
	uint16_t port;

	if (host_port_parse(value.p, value.len, default_port, &h, &port) < 0)
		return false;
	return port == c->port && strcmp(h.text, c->host.text) == 0;
}

static bool authorised(const struct conn *c, const struct http_head *h)
{
	const struct http_field *f = http_find(h, "proxy-authorization");

	return !c->p->token || (f && auth_check(f->value, c->p->token, c->p->token_len));
}

static bool bad(struct conn *c, const char *why)
{
	reply_send(c, 400, false, "malformed request", "The request is malformed: %s.", why);
	return false;
}

/* Both return whether c->host and c->port are to be opened; else the answer was given. */
static bool on_connect(struct conn *c, const struct http_head *h)
{
	if (h->chunked || h->length > 0)
		return bad(c, "CONNECT has no body");
	if (host_port_parse(h->target.p, h->target.len, 0, &c->host, &c->port) < 0)
		return bad(c, "the target of CONNECT is not of the form HOST:PORT");
	if (h->host.p && !request_host_agrees(c, h->host, c->port))
		return bad(c, "the Host header and the target differ");
	c->via = VIA_CONNECT;
	c->keep = h->keep_alive;
	return true;
}

static bool on_forward(struct conn *c, const struct http_head *h)
{
	struct http_text authority, path;
	const char *why;

	if (h->target.p[0] == '/' || http_is(h->target, "*")) {
		reply_send(c, 400, false, "not a proxy request",
			   "This is the proxy of an iterion sandbox, not a web server. Set HTTP_PROXY and HTTPS_PROXY "
			   "to its address instead of opening it.");
		return false;
	}
	if (http_absolute_target(h->target, &authority, &path, &why) < 0)
		return bad(c, why);
	if (host_port_parse(authority.p, authority.len, 80, &c->host, &c->port) < 0)
		return bad(c, "the host of the target is none");
	if (!h->host.p && h->minor > 0)
		return bad(c, "the Host header is missing");
	if (h->host.p && !request_host_agrees(c, h->host, 80))
		return bad(c, "the Host header and the target differ");
	c->via = VIA_FORWARD;
	c->keep = h->keep_alive && !h->chunked && h->length == 0;
	inspect_plain_head(c, h);
	forward_prepare(c, h, path);
	return true;
}

void conn_on_head(struct conn *c, size_t len)
{
	struct buf *in = &c->client->in;
	struct http_head h;
	const char *why;
	unsigned status = http_parse_request(in->data, len, &h, &why);

	/* Until the request was understood, its connection is in no state to go on. */
	c->state = CONN_REPLY;
	if (status) {
		reply_send(c, status, false, "malformed request", "The request is refused: %s.", why);
		return;
	}
	bool body = h.chunked || h.length > 0;
	c->is_head = h.method.len == 4 && memcmp(h.method.p, "HEAD", 4) == 0;
	if (c->inspect) {
		inspect_on_head(c, &h, len);
		return;
	}
	if (!authorised(c, &h)) {
		buf_consume(in, len);
		reply_send(
			c, 407, h.keep_alive && !body, "authentication",
			"This proxy wants the run's token as Proxy-Authorization (Bearer, or Basic with the token as "
			"password); it stands in HTTPS_PROXY.");
		return;
	}
	bool connect = h.method.len == 7 && memcmp(h.method.p, "CONNECT", 7) == 0;
	if (!(connect ? on_connect(c, &h) : on_forward(c, &h)))
		return;
	buf_consume(in, len);
	conn_open(c);
}
