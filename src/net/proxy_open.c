/* From a wanted host to a connection or a refusal: the policy's first look, the dial (which takes the second look at
 * each address), and the answer in the client's own protocol. */
#include "inspect.h"
#include "proxy_conn.h"
#include "proxy_dial.h"

#include <base/mem.h>

#include <errno.h>
#include <string.h>

enum { SOCKS_OK = 0, SOCKS_NOT_ALLOWED = 2, SOCKS_UNREACHABLE = 4, SOCKS_REFUSED = 5, SOCKS_EXPIRED = 6 };

void conn_count_blocked(struct conn *c, const struct host *h, const struct policy_verdict *v)
{
	proxy_totals_of(c->p->totals, h->text)->blocked++;
	if (!v->silent)
		proxy_report_blocked(c->p->report, h->text, c->port, v->reason ? v->reason : "policy denial",
				     v->rule ? v->rule : "default");
}

static void deny(struct conn *c, const struct policy_verdict *v)
{
	const char *reason = v->reason ? v->reason : "policy denial";
	const char *rule = v->rule ? v->rule : "default";

	conn_count_blocked(c, &c->host, v);
	if (c->via == VIA_SOCKS) {
		socks_reply(c, SOCKS_NOT_ALLOWED);
		return;
	}
	bool by_rule = strcmp(rule, "default") != 0;
	reply_send(c, 403, c->keep, reason,
		   "The network policy of this run does not allow %s port %u.\n"
		   "Reason: %s. Decided by: %s%s%s.",
		   c->host.text, (unsigned)c->port, reason, by_rule ? "rule \"" : "", by_rule ? rule : "the default",
		   by_rule ? "\"" : "");
}

static void fail(struct conn *c, const struct dial_done *d)
{
	bool late = d->result == DIAL_TIMEOUT || d->errnum == ETIMEDOUT;

	if (c->via == VIA_SOCKS) {
		socks_reply(c, late ? SOCKS_EXPIRED : d->errnum == ECONNREFUSED ? SOCKS_REFUSED : SOCKS_UNREACHABLE);
		return;
	}
	reply_send(c, late ? 504 : 502, c->keep, late ? "timeout" : "connection failed",
		   "Cannot connect to %s port %u: %s.", c->host.text, (unsigned)c->port, d->why);
}

/* Events of the upstream socket. Between two requests nothing may come on it: then it is closed. */
static void up_event(struct proxy_sock *s, int events)
{
	struct conn *c = s->owner;

	if (c->state == CONN_TUNNEL) {
		tunnel_event(c, s, events);
	} else if (c->state == CONN_FORWARD) {
		forward_event(c);
	} else if (c->state == CONN_TLS) {
		inspect_event(c);
	} else if (c->state == CONN_H2) {
		h2_event(c);
	} else if (s->tls && sock_fill(s, 1) == 0 && !s->eof) {
		/* TLS has words of its own that are no bytes of an answer: tickets. */
		sock_want(s, UV_READABLE);
	} else {
		sock_free(s);
		c->up = NULL;
	}
}

static void connected(struct conn *c)
{
	c->up_host = c->host;
	c->up_port = c->port;
	switch (c->via) {
	case VIA_CONNECT:
		c->total->allowed++;
		(void)buf_puts(&c->client->out, "HTTP/1.1 200 Connection established\r\n\r\n");
		tunnel_start(c, true);
		break;
	case VIA_SOCKS:
		c->total->allowed++;
		socks_reply(c, SOCKS_OK);
		tunnel_start(c, true);
		break;
	case VIA_FORWARD:
		if (c->inspect)
			inspect_connected(c);
		else
			forward_connected(c, false);
		break;
	}
}

static void dialled(void *arg, const struct dial_done *d)
{
	struct conn *c = arg;

	c->dial = NULL;
	if (d->result == DIAL_DENIED) {
		deny(c, &d->verdict);
		return;
	}
	if (d->result != DIAL_OK) {
		fail(c, d);
		return;
	}
	c->up = sock_new(&c->p->loop, d->fd, up_event, c);
	if (!c->up)
		conn_close(c);
	else
		connected(c);
}

void conn_dial(struct conn *c)
{
	struct dial_request r = {
		.loop = &c->p->loop,
		.dns = c->p->dns,
		.policy = c->p->learn ? NULL : c->p->policy,
		.host = c->host,
		.port = c->port,
		.first = c->verdict,
		.timeout_ms = PROXY_DIAL_TIMEOUT_MS,
	};

	sock_free(c->up);
	c->up = NULL;
	c->state = CONN_DIAL;
	sock_want(c->client, 0);
	c->dial = dial_start(&r, dialled, c);
}

void conn_open(struct conn *c)
{
	c->verdict = (struct policy_verdict){.allow = true, .rule = "default"};
	if (!c->p->learn)
		policy_check_host(c->p->policy, &c->host, c->port, &c->verdict);
	if (!c->verdict.allow) {
		deny(c, &c->verdict);
		return;
	}
	c->total = proxy_totals_of(c->p->totals, c->host.text);
	if (c->via != VIA_FORWARD) {
		conn_dial(c);
		return;
	}
	c->total->allowed++;
	if (c->up && c->up_port == c->port && strcmp(c->up_host.text, c->host.text) == 0)
		forward_connected(c, true);
	else
		conn_dial(c);
}
