/* The SOCKS5 hand-shake of a connection: greeting, password when the proxy wants one, request. */
#include "proxy_auth.h"
#include "proxy_conn.h"
#include "proxy_socks5.h"

enum { STEP_GREETING, STEP_PASSWORD, STEP_REQUEST };

/* Ends a hand-shake that failed, after the client has read why. */
static void give_up(struct conn *c, const char *answer, size_t len)
{
	c->keep = false;
	(void)buf_add(&c->client->out, answer, len);
	conn_finish_reply(c);
}

void socks_reply(struct conn *c, unsigned code)
{
	/* Version, code, reserved, IPv4 0.0.0.0:0: the address of our own end is nobody's business. */
	const char answer[10] = {5, (char)code, 0, 1};

	if (code == 0)
		(void)buf_add(&c->client->out, answer, sizeof answer);
	else
		give_up(c, answer, sizeof answer);
}

static ssize_t on_greeting(struct conn *c, const struct buf *in)
{
	uint32_t methods;
	ssize_t n = socks5_greeting(in->data, in->len, &methods);
	unsigned wanted = c->p->token ? SOCKS_PASSWORD : SOCKS_NONE;

	if (n <= 0)
		return n;
	/* Clients that were told of a password send it even where none is asked for. */
	if (!c->p->token && !(methods & 1u << SOCKS_NONE))
		wanted = SOCKS_PASSWORD;
	if (!(methods & 1u << wanted)) {
		give_up(c, "\x05\xff", 2);
		return n;
	}
	const char answer[2] = {5, (char)wanted};
	(void)buf_add(&c->client->out, answer, sizeof answer);
	c->socks_step = wanted == SOCKS_PASSWORD ? STEP_PASSWORD : STEP_REQUEST;
	return n;
}

static ssize_t on_password(struct conn *c, const struct buf *in)
{
	const char *password;
	size_t len;
	ssize_t n = socks5_password(in->data, in->len, &password, &len);

	if (n <= 0)
		return n;
	if (c->p->token && !auth_check_password(password, len, c->p->token, c->p->token_len)) {
		give_up(c, "\x01\x01", 2);
		return n;
	}
	(void)buf_add(&c->client->out, "\x01", 2);
	c->socks_step = STEP_REQUEST;
	return n;
}

/* The whole request is there: what follows it belongs to the tunnel. */
static void on_request(struct conn *c, struct buf *in)
{
	unsigned code;
	ssize_t n = socks5_request(in->data, in->len, &code, &c->host, &c->port);

	if (n == 0)
		return;
	if (n < 0) {
		conn_close(c);
		return;
	}
	buf_consume(in, (size_t)n);
	conn_set_timer(c, 0, NULL);
	c->via = VIA_SOCKS;
	c->keep = false;
	if (code)
		socks_reply(c, code);
	else
		conn_open(c);
}

void socks_process(struct conn *c)
{
	struct buf *in = &c->client->in;

	while (c->socks_step != STEP_REQUEST) {
		ssize_t n = c->socks_step == STEP_GREETING ? on_greeting(c, in) : on_password(c, in);
		if (n < 0)
			conn_close(c);
		if (n <= 0 || c->closing || c->state != CONN_SOCKS)
			break;
		buf_consume(in, (size_t)n);
	}
	if (c->closing || c->state != CONN_SOCKS)
		return;
	/* These answers are a few bytes on an empty socket: a client that makes them wait is none. */
	if (sock_flush(c->client) < 0 || c->client->out.len > 0) {
		conn_close(c);
		return;
	}
	if (c->socks_step == STEP_REQUEST && in->len > 0)
		on_request(c, in);
	if (!c->closing && c->state == CONN_SOCKS && c->client->eof)
		conn_close(c);
}
