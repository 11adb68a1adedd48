/* The hand-shakes of an inspected connection.
 *
 * A tunnel becomes one when its first bytes are a ClientHello and the policy of inspection names its host. The host
 * comes first: its certificate is checked, and it says whether it speaks HTTP/2; then the client gets a certificate of
 * ours and the same protocol, so nothing has to be translated. When the host cannot be had, the client still gets its
 * hand-shake, because the reason can only be told in an answer.
 *
 * From then on the sockets speak TLS by themselves (tls_sock.c), and a client of HTTP/1.1 is served by the very states
 * that serve plain requests. */
#include "inspect.h"
#include "proxy_sni.h"
#include "proxy_wire.h"
#include "secret_priv.h"
#include "tls.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/frame.h>
#include <base/mem.h>
#include <base/pack.h>
#include <net/proxy.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The certificate of the authority goes out at once: the sandbox's files wait for it. */
int inspect_prepare(struct proxy_child *p, const struct proxy_inspect *i, struct err *e)
{
	auto_strv hosts = {0};
	auto_buf pem = BUF_INIT(PROXY_MAX_PEM);
	auto_buf b = BUF_INIT((size_t)PROXY_MAX_PEM + 16);

	secrets_lock(i->secrets);
	p->secrets = i->secrets;
	p->inspect_all = i->all;
	if (!i->all)
		secrets_hosts(i->secrets, &hosts);
	int r = tls_new(i->all ? NULL : &hosts, &p->tls, &pem, e);
	if (r == 0) {
		(void)pack_bytes(&b, pem.data, pem.len);
		r = frame_send(p->ctl, PROXY_AUTHORITY, 0, b.data, b.len, NULL, 0);
	}
	return r < 0 ? r : tls_trust(p->tls, i->trust, e);
}

static bool is_bound(const struct secrets *s, const char *host)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (secret_is_bound(&s->v[i], host))
			return true;
	return false;
}

bool inspect_wanted(const struct conn *c, const struct tls_hello *hello)
{
	bool http = hello->offers_h1 || hello->offers_h2 || !hello->offers_other;

	return c->p->tls && http && (c->p->inspect_all || is_bound(c->p->secrets, c->host.text));
}

void inspect_free(struct conn *c)
{
	if (!c->inspect)
		return;
	h2_free(c->inspect->h2);
	swaps_done(&c->inspect->swaps);
	free(TAKE_PTR(c->inspect));
}

static void too_slow(uv_timer_t *t);

static void host_failed(struct conn *c)
{
	sock_free(c->up);
	c->up = NULL;
}

static void begin_client(struct conn *c)
{
	struct inspect *i = c->inspect;
	/* With no host to agree with, the client's first wish that we can serve. */
	unsigned alpn = c->up ? (tls_sock_is_h2(c->up) ? TLS_OFFER_H2 : TLS_OFFER_H1)
			      : (i->alpn & TLS_OFFER_H1 ? TLS_OFFER_H1 : i->alpn);

	i->phase = INSPECT_CLIENT;
	if (c->up)
		sock_want(c->up, 0);
	conn_set_timer(c, PROXY_DIAL_TIMEOUT_MS, too_slow);
	if (tls_sock_serve(c->p->tls, c->client, &c->host, alpn) < 0)
		conn_close(c);
}

static void client_done(struct conn *c)
{
	c->inspect->phase = INSPECT_UP;
	c->via = VIA_FORWARD;
	if (tls_sock_is_h2(c->client))
		h2_start(c);
	else
		conn_next_request(c);
}

/* The hand-shake with the host is over, well or not. */
static void host_done(struct conn *c, bool good)
{
	if (!good)
		host_failed(c);
	if (c->inspect->phase == INSPECT_HOST) {
		begin_client(c);
		if (!c->closing)
			inspect_event(c);
		return;
	}
	c->inspect->phase = INSPECT_UP;
	if (good)
		forward_connected(c, false);
	else
		inspect_refuse(c, c->keep);
}

void inspect_refuse(struct conn *c, bool keep)
{
	forward_free(c);
	reply_send(c, 502, keep, "tls failure", "Cannot speak TLS with %s port %u: %s.", c->host.text,
		   (unsigned)c->port, c->inspect->why);
	if (!c->closing)
		c->inspect->why[0] = '\0';
}

static void too_slow(uv_timer_t *t)
{
	struct conn *c = t->data;

	if (c->inspect->phase == INSPECT_CLIENT) {
		conn_close(c);
		return;
	}
	(void)snprintf(c->inspect->why, sizeof c->inspect->why, "no TLS hand-shake in time");
	host_done(c, false);
}

void inspect_event(struct conn *c)
{
	struct inspect *i = c->inspect;
	bool client = i->phase == INSPECT_CLIENT;
	int want = 0, r = tls_sock_handshake(client ? c->client : c->up, &want, i->why, sizeof i->why);

	if (r == 0) {
		sock_want(client ? c->client : c->up, want);
		return;
	}
	if (!client)
		host_done(c, r > 0);
	else if (r > 0)
		client_done(c);
	else
		conn_close(c);
}

static void begin_host(struct conn *c, enum inspect_phase phase, unsigned alpn)
{
	c->inspect->phase = phase;
	c->state = CONN_TLS;
	sock_want(c->client, 0);
	conn_set_timer(c, PROXY_DIAL_TIMEOUT_MS, too_slow);
	if (tls_sock_connect(c->p->tls, c->up, &c->host, alpn) < 0) {
		(void)snprintf(c->inspect->why, sizeof c->inspect->why, "the TLS library refuses the name");
		host_done(c, false);
		return;
	}
	inspect_event(c);
}

void inspect_start(struct conn *c, const struct tls_hello *hello)
{
	/* The answer to CONNECT is still in clear. */
	if (sock_flush(c->client) < 0 || c->client->out.len) {
		conn_abort(c);
		return;
	}
	struct inspect *i = xcalloc(1, sizeof *i);
	i->alpn = (hello->offers_h1 ? TLS_OFFER_H1 : 0u) | (hello->offers_h2 ? TLS_OFFER_H2 : 0u);
	swaps_for(c->p->secrets, c->host.text, &i->swaps);
	c->inspect = i;
	begin_host(c, INSPECT_HOST, i->alpn);
}

void inspect_connected(struct conn *c)
{
	begin_host(c, INSPECT_AGAIN, TLS_OFFER_H1);
}
