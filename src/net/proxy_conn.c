/* A client's connection as a state machine.
 *
 * One function per state reacts to the client's socket; the states that move bytes live in tunnel.c and http_forward.c.
 * Whatever a state does, it ends by asking the sockets for exactly the events it can use. A connection that ends is
 * taken apart at once (no callback comes any more), but its memory stays until the loop has closed the timer, so code
 * up the stack may still look at c->closing.
 *
 * Many small requests may lie in one buffer: conn_process works them off in a loop, and conn_next_request only asks for
 * another round when it is called from within. */
#include "proxy_conn.h"

#include "inspect.h"
#include "proxy_dial.h"

#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { IN_LIMIT = HTTP_HEAD_MAX + 1024, LINGER_MS = 2000, LINGER_BYTES = 256 * 1024 };

static void freed(uv_handle_t *h)
{
	struct conn *c = h->data;
	struct proxy_child *p = c->p;

	free(c);
	proxy_child_conn_ended(p);
}

static void release(struct conn *c)
{
	struct proxy_child *p = c->p;

	c->closing = true;
	if (c->dial)
		dial_cancel(c->dial);
	tunnel_free(c);
	forward_free(c);
	inspect_free(c);
	if (c->prev)
		c->prev->next = c->next;
	else
		p->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	p->n_conns--;
	uv_close((uv_handle_t *)&c->timer, freed);
}

void conn_close(struct conn *c)
{
	if (c->closing)
		return;
	release(c);
	sock_free(c->client);
	sock_free(c->up);
}

void conn_abort(struct conn *c)
{
	if (c->closing)
		return;
	release(c);
	sock_reset(c->client);
	sock_reset(c->up);
}

void conn_set_timer(struct conn *c, unsigned ms, uv_timer_cb cb)
{
	if (ms)
		(void)uv_timer_start(&c->timer, cb, ms, 0);
	else
		(void)uv_timer_stop(&c->timer);
}

static void too_slow(uv_timer_t *t)
{
	struct conn *c = t->data;

	if (c->state == CONN_HEAD && c->client->in.len > 0)
		reply_send(c, 408, false, "request timeout", "The request head did not arrive in time.");
	else
		conn_close(c);
}

static void linger_over(uv_timer_t *t)
{
	conn_close(t->data);
}

void conn_linger(struct conn *c)
{
	c->state = CONN_LINGER;
	sock_shut(c->client);
	if (c->client->eof) {
		conn_close(c);
		return;
	}
	sock_want(c->client, UV_READABLE);
	conn_set_timer(c, LINGER_MS, linger_over);
}

static void throw_away(struct conn *c)
{
	buf_clear(&c->client->in);
	int n = sock_fill(c->client, IN_LIMIT);

	c->thrown_away += n > 0 ? (size_t)n : 0;
	if (n < 0 || c->client->eof || c->thrown_away > LINGER_BYTES)
		conn_close(c);
}

void conn_finish_reply(struct conn *c)
{
	c->state = CONN_REPLY;
	if (sock_flush(c->client) < 0) {
		conn_close(c);
		return;
	}
	if (c->client->out.len > 0) {
		sock_want(c->client, UV_WRITABLE);
		conn_set_timer(c, PROXY_IDLE_TIMEOUT_MS, too_slow);
		return;
	}
	if (c->keep && !c->p->draining)
		conn_next_request(c);
	else
		conn_linger(c);
}

void conn_next_request(struct conn *c)
{
	memset(&c->scan, 0, sizeof c->scan);
	c->state = CONN_HEAD;
	c->is_head = false;
	sock_want(c->client, UV_READABLE);
	if (c->up)
		sock_want(c->up, UV_READABLE);
	conn_set_timer(c, PROXY_IDLE_TIMEOUT_MS, too_slow);
	if (c->client->in.len == 0 && !c->client->eof)
		return;
	c->again = true;
	conn_process(c);
}

static void look_for_head(struct conn *c)
{
	struct buf *in = &c->client->in;
	const char *why = "";
	ssize_t n = http_scan(&c->scan, in->data, in->len, &why);

	if (n > 0) {
		conn_set_timer(c, 0, NULL);
		sock_want(c->client, 0);
		conn_on_head(c, (size_t)n);
	} else if (n == -EMSGSIZE) {
		reply_send(c, 431, false, "request head too large", "The request head is longer than 64 KiB.");
	} else if (n < 0) {
		reply_send(c, 400, false, "malformed request", "The request is malformed: %s.", why);
	} else if (c->client->eof) {
		conn_close(c);
	}
}

/* The head's time runs from its first byte. */
static void begin_head_time(struct conn *c)
{
	if (c->scan.pos == 0)
		conn_set_timer(c, PROXY_HEAD_TIMEOUT_MS, too_slow);
}

static void process_once(struct conn *c)
{
	struct buf *in = &c->client->in;

	if (in->len == 0) {
		if (c->client->eof)
			conn_close(c);
		return;
	}
	if (c->state == CONN_FIRST)
		c->state = in->data[0] == 5 ? CONN_SOCKS : CONN_HEAD;
	if (c->state == CONN_SOCKS) {
		socks_process(c);
	} else if (c->state == CONN_HEAD) {
		begin_head_time(c);
		look_for_head(c);
	}
}

void conn_process(struct conn *c)
{
	if (c->processing)
		return;
	c->processing = true;
	do {
		c->again = false;
		process_once(c);
	} while (c->again && !c->closing);
	c->processing = false;
}

static void client_event(struct proxy_sock *s, int events)
{
	struct conn *c = s->owner;

	switch (c->state) {
	case CONN_FIRST:
	case CONN_HEAD:
	case CONN_SOCKS:
		if (sock_fill(s, IN_LIMIT) < 0)
			conn_close(c);
		else
			conn_process(c);
		break;
	case CONN_REPLY:
		conn_finish_reply(c);
		break;
	case CONN_LINGER:
		throw_away(c);
		break;
	case CONN_TUNNEL:
		tunnel_event(c, s, events);
		break;
	case CONN_FORWARD:
		forward_event(c);
		break;
	case CONN_TLS:
		inspect_event(c);
		break;
	case CONN_H2:
		h2_event(c);
		break;
	case CONN_DIAL:
		break;
	}
}

void conn_new(struct proxy_child *p, int fd)
{
	struct conn *c = xcalloc(1, sizeof *c);

	c->p = p;
	c->client = sock_new(&p->loop, fd, client_event, c);
	if (!c->client) {
		free(c);
		return;
	}
	(void)uv_timer_init(&p->loop, &c->timer);
	c->timer.data = c;
	c->next = p->conns;
	if (c->next)
		c->next->prev = c;
	p->conns = c;
	p->n_conns++;
	conn_set_timer(c, PROXY_HEAD_TIMEOUT_MS, too_slow);
	sock_want(c->client, UV_READABLE);
}
