/* An inspected connection of HTTP/2: bytes between the sockets and the sessions.
 *
 * The two sessions (h2_session.c) know nothing of sockets: what came is fed to them, what they have to send is taken
 * from them while the socket's buffer is low, and nothing is read for a side that does not take what is meant for it.
 * Streams that a client gives up live on until their host was told so; a client that gives up faster than its host
 * listens is not read from meanwhile.
 * The connection ends when the client ends it, or when its host is gone and the last stream with it. */
#include "h2_priv.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>

enum { IN_LIMIT = 64 * 1024, ROUNDS = 16 };

static struct h2 *h2_of(const struct conn *c)
{
	return c->inspect->h2;
}

void h2_free(struct h2 *h)
{
	if (!h)
		return;
	/* Callbacks must not find streams that are gone. */
	while (h->streams) {
		struct h2_stream *s = h->streams;
		s->request.unconsumed = s->answer.unconsumed = 0;
		h2_stream_free(s);
	}
	nghttp2_session_del(h->client.session);
	nghttp2_session_del(h->host.session);
	free(h);
}

bool h2_is_idle(const struct conn *c)
{
	return h2_of(c)->n == 0;
}

/* What came from a side goes into its session: bytes, 0, or -EPROTO. */
static int feed(struct h2_side *side, struct proxy_sock *s)
{
	int r = sock_fill(s, IN_LIMIT);

	if (r < 0)
		return r;
	if (s->in.len == 0)
		return 0;
	r = (int)s->in.len;
	ssize_t n = nghttp2_session_mem_recv(side->session, (const uint8_t *)s->in.data, s->in.len);
	buf_clear(&s->in);
	return n < 0 ? -EPROTO : r;
}

/* What a session has to send goes out: bytes, 0, or -errno. */
static int drain(struct h2_side *side, struct proxy_sock *s)
{
	int total = 0, r = sock_flush(s);

	while (r >= 0 && s->out.len < SOCK_OUT_HIGH) {
		const uint8_t *data;
		ssize_t n = nghttp2_session_mem_send(side->session, &data);
		if (n < 0)
			return -EPROTO;
		if (n == 0)
			break;
		(void)buf_add(&s->out, data, (size_t)n);
		total += (int)n;
		r = sock_flush(s);
	}
	return r < 0 ? r : total;
}

static void lose_host(struct conn *c)
{
	struct h2 *h = h2_of(c);

	sock_free(c->up);
	c->up = NULL;
	/* Its callbacks are not wanted any more. */
	nghttp2_session_del(TAKE_PTR(h->host.session));
	h2_streams_lose_host(h);
	h2_stop(h);
}

static bool takes_from_client(const struct conn *c)
{
	return c->client->out.len < SOCK_OUT_HIGH && h2_of(c)->n < (size_t)2 * H2_STREAMS;
}

/* One turn of both sides: bytes moved, or -1 when the client is gone. */
static int turn(struct conn *c)
{
	struct h2 *h = h2_of(c);
	int moved = 0, r = takes_from_client(c) ? feed(&h->client, c->client) : 0;

	if (r < 0 || (c->client->eof && r == 0))
		return -1;
	moved += r;
	if (c->up) {
		r = c->up->out.len < SOCK_OUT_HIGH ? feed(&h->host, c->up) : 0;
		if (r >= 0 && !(c->up->eof && r == 0)) {
			moved += r;
			r = drain(&h->host, c->up);
			moved += r > 0 ? r : 0;
		} else {
			r = -1;
		}
		if (r < 0)
			lose_host(c);
	}
	r = drain(&h->client, c->client);
	return r < 0 ? -1 : moved + r;
}

static bool is_over(const struct conn *c)
{
	const struct h2 *h = h2_of(c);
	bool silent = !nghttp2_session_want_read(h->client.session) && !nghttp2_session_want_write(h->client.session);

	return c->client->out.len == 0 && (silent || (h->closing && h->n == 0));
}

void h2_event(struct conn *c)
{
	int moved = 1;

	for (int i = 0; i < ROUNDS && moved > 0; i++)
		moved = turn(c);
	if (moved < 0) {
		conn_close(c);
		return;
	}
	if (is_over(c)) {
		conn_linger(c);
		return;
	}
	/* With work left, the next event is there at once: others get their turn in between. */
	bool more = moved > 0;
	sock_want(c->client, (takes_from_client(c) ? UV_READABLE : 0) | (c->client->out.len || more ? UV_WRITABLE : 0));
	if (c->up)
		sock_want(c->up,
			  (c->up->out.len < SOCK_OUT_HIGH ? UV_READABLE : 0) | (c->up->out.len ? UV_WRITABLE : 0));
}

void h2_start(struct conn *c)
{
	struct h2 *h = xcalloc(1, sizeof *h);

	h->c = c;
	h->client.h = h->host.h = h;
	c->inspect->h2 = h;
	c->state = CONN_H2;
	conn_set_timer(c, 0, NULL);
	if (h2_sessions_new(h, c->up != NULL) < 0)
		conn_abort(c);
	else
		h2_event(c);
}
