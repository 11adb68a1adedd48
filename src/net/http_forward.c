/* Forwarded requests: one at a time on a client's connection, its answer passed on as it comes.
 *
 * forward_prepare turns the request's head into the one for the origin server; forward_connected sends it. From then on
 * forward_event does all that can be done on any event: request body from client->in to up->out, head and body of the
 * answer from up->in to client->out, each only while the target holds less than SOCK_OUT_HIGH, so that memory is
 * bounded however fast one side is, and for a bounded number of rounds, so that other connections get their turn.
 * Nothing is held back: what came is flushed before the function returns.
 *
 * The answer may come before the request has gone out whole; it is passed on, and the client's connection ends after
 * it, because the rest of the body cannot be told from a next request. A cut answer ends in a reset towards the client
 * when its framing would not show the cut. */
#include "http_body.h"
#include "inspect.h"
#include "proxy_conn.h"

#include <base/buf.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_OUT_MAX = 4 * HTTP_HEAD_MAX, MAX_INTERIM = 16, IN_LIMIT = HTTP_HEAD_MAX + 1024, ROUNDS = 16 };

struct forward {
	struct buf head; /* of the request as it goes to the server */
	struct body request, response;
	struct http_scan scan;
	unsigned client_minor;
	unsigned interim; /* 1xx answers so far */
	bool websocket, head_request;
	bool reused;	  /* the connection to the server served a request before */
	bool answered;	  /* a byte of the answer came */
	bool head_done;	  /* the final head of the answer was passed on */
	bool send_failed; /* the server takes no more of the request */
	bool keep_client, keep_up;
};

void forward_free(struct conn *c)
{
	if (!c->forward)
		return;
	/* It may hold a secret. */
	if (c->forward->head.data)
		explicit_bzero(c->forward->head.data, c->forward->head.cap);
	buf_done(&c->forward->head);
	body_done(&c->forward->request);
	body_done(&c->forward->response);
	free(c->forward);
	c->forward = NULL;
}

static struct body request_body(const struct http_head *h)
{
	struct body b = {.kind = HTTP_BODY_NONE, .left = h->length};

	if (h->chunked)
		b.kind = HTTP_BODY_CHUNKED;
	else if (h->length > 0)
		b.kind = HTTP_BODY_LENGTH;
	b.done = b.kind == HTTP_BODY_NONE;
	return b;
}

static void host_field(const struct conn *c, char *to, size_t size)
{
	const char *open = c->host.family == AF_INET6 ? "[" : "", *close = c->host.family == AF_INET6 ? "]" : "";

	if (c->port == (c->inspect ? 443 : 80))
		(void)snprintf(to, size, "%s%s%s", open, c->host.text, close);
	else
		(void)snprintf(to, size, "%s%s%s:%u", open, c->host.text, close, (unsigned)c->port);
}

void forward_prepare(struct conn *c, const struct http_head *h, struct http_text path)
{
	struct forward *f = xcalloc(1, sizeof *f);
	char host[HOST_TEXT_SIZE + 16];

	forward_free(c);
	c->forward = f;
	f->head = BUF_INIT(HEAD_OUT_MAX);
	f->request = request_body(h);
	f->client_minor = h->minor;
	f->websocket = h->websocket;
	f->head_request = c->is_head;
	f->keep_client = h->keep_alive;
	host_field(c, host, sizeof host);
	/* It cannot be longer than the head it comes from, a few fields, and a target with values in it, which has at
	 * most twice the length of a head (inspect_request.c). */
	(void)http_write_request(&f->head, h, host, path);
}

static void finish(struct conn *c)
{
	struct forward *f = c->forward;

	c->keep = f->keep_client && f->request.done && !f->send_failed;
	if (!f->keep_up || !f->request.done || c->up->in.len > 0) {
		sock_free(c->up);
		c->up = NULL;
	}
	forward_free(c);
	conn_finish_reply(c);
}

/* The server ended or broke before its answer was whole. */
static void server_gone(struct conn *c, const char *why)
{
	struct forward *f = c->forward;

	if (f->reused && !f->answered && f->request.kind == HTTP_BODY_NONE) {
		/* It closed the idle connection while the request was on its way: the request was not served. */
		conn_dial(c);
		return;
	}
	if (f->head_done) {
		(void)sock_flush(c->client);
		conn_abort(c);
		return;
	}
	sock_free(c->up);
	c->up = NULL;
	bool keep = f->keep_client && f->request.done;
	forward_free(c);
	reply_send(c, 502, keep, "bad answer", "%s port %u gave no usable answer: %s.", c->host.text, (unsigned)c->port,
		   why);
}

/* The request's way. Returns false when the connection was ended. */
static bool move_request(struct conn *c)
{
	struct forward *f = c->forward;
	int moved = 1;

	for (int i = 0; i < ROUNDS && !f->request.done && !f->send_failed && moved > 0; i++) {
		if (c->up->out.len < SOCK_OUT_HIGH && sock_fill(c->client, IN_LIMIT) < 0) {
			conn_abort(c);
			return false;
		}
		moved = body_move(&f->request, &c->client->in, &c->up->out, SOCK_OUT_HIGH, &c->total->up);
		if (moved < 0) {
			if (f->head_done) {
				conn_abort(c);
				return false;
			}
			sock_reset(c->up);
			c->up = NULL;
			forward_free(c);
			reply_send(c, 400, false, "malformed request", "The chunked body of the request is malformed.");
			return false;
		}
		if (sock_flush(c->up) < 0) {
			/* An answer that explains why may be there to be read. */
			f->send_failed = true;
			buf_clear(&c->up->out);
		}
	}
	if (!f->request.done && !f->send_failed && c->client->eof && c->client->in.len == 0) {
		conn_abort(c);
		return false;
	}
	return true;
}

/* The connection becomes a tunnel, as both ends agreed. */
static void switch_protocols(struct conn *c)
{
	(void)buf_add(&c->client->out, c->up->in.data, c->up->in.len);
	c->total->down += c->up->in.len;
	buf_done(&c->up->in);
	(void)buf_add(&c->up->out, c->client->in.data, c->client->in.len);
	c->total->up += c->client->in.len;
	buf_done(&c->client->in);
	forward_free(c);
	tunnel_start(c, false);
}

static void begin_response_body(struct forward *f, const struct http_head *h)
{
	struct body *b = &f->response;

	b->kind = http_response_body(h, f->head_request);
	b->left = h->length;
	b->done = b->kind == HTTP_BODY_NONE;
	b->chunk.plain = f->client_minor == 0;
	f->head_done = true;
	f->keep_up = h->keep_alive && b->kind != HTTP_BODY_UNTIL_CLOSE;
	/* A client that does not know the chunked coding finds the end of the body in the end of the connection. */
	if (b->kind == HTTP_BODY_UNTIL_CLOSE || (b->kind == HTTP_BODY_CHUNKED && f->client_minor == 0))
		f->keep_client = false;
}

/* A whole head of n bytes is there. Returns false when forwarding has ended. */
static bool on_response_head(struct conn *c, size_t n)
{
	struct forward *f = c->forward;
	struct http_head h;
	const char *why;

	if (http_parse_response(c->up->in.data, n, &h, &why) < 0) {
		server_gone(c, why);
		return false;
	}
	bool switching = h.status == 101;
	if ((switching && !f->websocket) || (h.status < 200 && ++f->interim > MAX_INTERIM)) {
		server_gone(c, "an interim answer that was not asked for");
		return false;
	}
	if (h.status >= 200)
		begin_response_body(f, &h);
	if (c->inspect)
		inspect_response(c, &h, c->up->in.data, h.status >= 200 ? &f->response : NULL);
	if (h.status >= 200 || f->client_minor > 0)
		(void)http_write_response(&c->client->out, &h, f->client_minor, f->keep_client && !c->p->draining);
	memset(&f->scan, 0, sizeof f->scan);
	buf_consume(&c->up->in, n);
	if (switching)
		switch_protocols(c);
	return !switching;
}

/* Heads of the answer, interim ones too. Returns false when forwarding has ended. */
static bool move_response_heads(struct conn *c)
{
	struct forward *f = c->forward;

	while (!f->head_done && c->up->in.len > 0) {
		const char *why = "its head is too long";
		f->answered = true;
		ssize_t n = http_scan(&f->scan, c->up->in.data, c->up->in.len, &why);
		if (n < 0) {
			server_gone(c, why);
			return false;
		}
		if (n == 0)
			break;
		if (!on_response_head(c, (size_t)n))
			return false;
	}
	return true;
}

static bool move_response(struct conn *c)
{
	struct forward *f = c->forward;
	int moved = 1, got = 0;

	for (int i = 0; i < ROUNDS && moved > 0; i++) {
		if (c->client->out.len < SOCK_OUT_HIGH)
			got = sock_fill(c->up, IN_LIMIT);
		if (!move_response_heads(c))
			return false;
		moved = f->head_done
				? body_move(&f->response, &c->up->in, &c->client->out, SOCK_OUT_HIGH, &c->total->down)
				: 0;
		if (moved < 0) {
			server_gone(c, "its chunked body is malformed");
			return false;
		}
		if (sock_flush(c->client) < 0) {
			conn_abort(c);
			return false;
		}
		if (f->response.done)
			return true;
	}
	bool ended = c->up->eof && c->up->in.len == 0;
	if (f->head_done && f->response.kind == HTTP_BODY_UNTIL_CLOSE && ended && got >= 0) {
		body_close(&f->response, &c->client->out);
	} else if (got < 0 || (c->up->eof && (!f->head_done || ended))) {
		server_gone(c, got < 0 ? strerror(-got) : "the connection was closed");
		return false;
	}
	return true;
}

/* Bytes that were read and could not be moved in this turn wait for their target to be writable, which it may be at
 * once: others get their turn in between. */
static void want(struct conn *c)
{
	const struct forward *f = c->forward;
	bool body_waits = !f->request.done && !f->send_failed && c->client->in.len > 0;
	bool answer_waits = f->head_done && !f->response.done && c->up->in.len > 0;
	bool body = !f->request.done && !f->send_failed && !c->client->eof && c->up->out.len < SOCK_OUT_HIGH;
	bool answer = !c->up->eof && c->client->out.len < SOCK_OUT_HIGH;

	sock_want(c->client, (body ? UV_READABLE : 0) | (c->client->out.len || answer_waits ? UV_WRITABLE : 0));
	sock_want(c->up, (answer ? UV_READABLE : 0) | (c->up->out.len || body_waits ? UV_WRITABLE : 0));
}

void forward_event(struct conn *c)
{
	struct forward *f = c->forward;

	if (!f->send_failed && sock_flush(c->up) < 0) {
		f->send_failed = true;
		buf_clear(&c->up->out);
	}
	if (!move_request(c) || !move_response(c))
		return;
	if (f->response.done)
		finish(c);
	else
		want(c);
}

void forward_connected(struct conn *c, bool reused)
{
	struct forward *f = c->forward;

	f->reused = reused;
	f->send_failed = false;
	c->state = CONN_FORWARD;
	conn_set_timer(c, 0, NULL);
	c->total->up += f->head.len;
	(void)buf_add(&c->up->out, f->head.data, f->head.len);
	forward_event(c);
}
