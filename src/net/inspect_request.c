/* Requests and answers of HTTP/1.1 within an inspected connection.
 *
 * The values go in where a client may name a placeholder for good reason: header values, Basic credentials, the query.
 * They go to one host only, and that is the one whose certificate was checked: a request that names another one in Host
 * is refused, since a server that many share would hand it to somebody else. All replacing of heads is done where they
 * stand, before they are written anew (http_write.c). */
#include "inspect.h"
#include "http_body.h"

#include <base/buf.h>
#include <base/mem.h>
#include <net/secret.h>

#include <string.h>

enum { TARGET_MAX = 2 * HTTP_HEAD_MAX, HTTPS = 443 };

static void found(void *arg, const char *name)
{
	const struct conn *c = arg;

	proxy_report_blocked(c->p->secret_report, c->host.text, c->port, name, "");
}

void inspect_find_foreign(struct conn *c, const struct swaps *s, const char *text, size_t len)
{
	swaps_find_foreign(s, text, len, found, c);
}

static void find_in_head(struct conn *c, const struct swaps *s, const struct http_head *h)
{
	inspect_find_foreign(c, s, h->target.p, h->target.len);
	for (size_t i = 0; i < h->n_fields; i++)
		inspect_find_foreign(c, s, h->fields[i].value.p, h->fields[i].value.len);
}

void inspect_plain_head(struct conn *c, const struct http_head *h)
{
	struct swaps s;

	if (secrets_count(c->p->secrets) == 0)
		return;
	/* In clear nobody may have any of them. */
	swaps_for(c->p->secrets, "", &s);
	find_in_head(c, &s, h);
	swaps_done(&s);
}

/* An answer that is compressed cannot be looked through, so none is asked for. */
static void ask_for_plain(struct http_head *h)
{
	static const struct http_text name = {"Accept-Encoding", 15}, identity = {"identity", 8};
	bool there = false;

	for (size_t i = 0; i < h->n_fields; i++) {
		if (!http_is(h->fields[i].name, "accept-encoding"))
			continue;
		h->fields[i].value = identity;
		there = true;
	}
	/* Nor is the wish taken away again, as one that was for this connection. */
	size_t n = 0;
	for (size_t i = 0; i < h->n_connection; i++)
		if (!http_is(h->connection[i], "accept-encoding"))
			h->connection[n++] = h->connection[i];
	h->n_connection = n;
	if (!there && h->n_fields < HTTP_MAX_FIELDS)
		h->fields[h->n_fields++] = (struct http_field){name, identity};
}

/* A request that carries a value asks for the whole answer: in parts of the client's choice nobody would see the value
 * if it came back (a server may always ignore the wish, RFC 9110 §14.2). */
static void ask_for_whole(struct http_head *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_fields; i++)
		if (!http_is(h->fields[i].name, "range"))
			h->fields[n++] = h->fields[i];
	h->n_fields = n;
}

/* data: where the head stands. Returns how many values went in. */
static size_t swap_fields(const struct swaps *s, struct http_head *h, char *data)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http_text v = h->fields[i].value;
		n += swap_header(s->out, s->n, data + (v.p - data), v.len);
	}
	return n;
}

static bool is_changed(const struct buf *target, struct http_text from)
{
	return target->len && (target->len != from.len || memcmp(target->data, from.p, from.len) != 0);
}

/* Whether the request is one for this host; else it was answered. */
static bool is_acceptable(struct conn *c, const struct http_head *h)
{
	const char *why = NULL;

	if (http_is(h->method, "connect"))
		why = "CONNECT has no business within TLS";
	else if (h->target.p[0] != '/' && !http_is(h->target, "*"))
		why = "its target is no path";
	else if (!h->host.p && h->minor > 0)
		why = "the Host header is missing";
	if (why) {
		reply_send(c, 400, false, "malformed request", "The request is malformed: %s.", why);
		return false;
	}
	if (h->host.p && !request_host_agrees(c, h->host, HTTPS)) {
		reply_send(c, 421, false, "host mismatch",
			   "This connection is to %s port %u, and the Host header names another place.", c->host.text,
			   (unsigned)c->port);
		return false;
	}
	return true;
}

void inspect_on_head(struct conn *c, struct http_head *h, size_t len)
{
	struct buf *in = &c->client->in;
	const struct swaps *s = &c->inspect->swaps;
	bool body = h->chunked || h->length > 0;
	auto_buf target = BUF_INIT(TARGET_MAX);

	if (!is_acceptable(c, h))
		return;
	c->keep = h->keep_alive && !body;
	find_in_head(c, s, h);
	if (c->inspect->why[0]) {
		buf_consume(in, len);
		inspect_refuse(c, c->keep);
		return;
	}
	size_t given = swap_fields(s, h, in->data);
	bool whole = http_is(h->target, "*");
	if (s->n)
		ask_for_plain(h);
	if (!whole && swap_target(s->out, s->n, h->target.p, h->target.len, &target) < 0) {
		explicit_bzero(in->data, len);
		reply_send(c, 431, false, "request head too large", "The target of the request is too long.");
		return;
	}
	if (given || is_changed(&target, h->target))
		ask_for_whole(h);
	forward_prepare(c, h, (struct http_text){buf_str(&target), target.len});
	explicit_bzero(in->data, len);
	if (target.len)
		explicit_bzero(target.data, target.len);
	buf_consume(in, len);
	if (c->up)
		forward_connected(c, true);
	else
		conn_dial(c);
}

static void swap_back(const struct swaps *s, char *data, struct http_text t)
{
	if (t.len)
		(void)swap_text(s->in, s->n_in, data + (t.p - data), t.len);
}

void inspect_response(struct conn *c, struct http_head *h, char *data, struct body *b)
{
	const struct swaps *s = &c->inspect->swaps;
	const struct http_field *type = http_find(h, "content-type");

	if (s->n == 0)
		return;
	swap_back(s, data, h->reason);
	for (size_t i = 0; i < h->n_fields; i++) {
		swap_back(s, data, h->fields[i].name);
		swap_back(s, data, h->fields[i].value);
	}
	/* Whatever its coding: to look in vain harms nothing, and not every coding that a host names is one. */
	if (b && !b->done && swap_is_text(type ? type->value : (struct http_text){0}))
		body_set_swap(b, swap_stream_new(s->in, s->n_in));
}
