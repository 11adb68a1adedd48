/* One client of the proxy, from accept to close. */
#pragma once

#include "http_head.h"
#include "proxy_child.h"
#include "proxy_sock.h"

#include <net/policy.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct dial;
struct forward;
struct inspect;
struct tunnel;

enum conn_state {
	CONN_FIRST,   /* nothing came yet: HTTP or SOCKS */
	CONN_HEAD,    /* waiting for a request head */
	CONN_SOCKS,   /* in the SOCKS hand-shake */
	CONN_DIAL,    /* connecting to the host */
	CONN_REPLY,   /* an answer of our own is being written */
	CONN_LINGER,  /* our side is shut; what still comes is thrown away */
	CONN_TUNNEL,  /* bytes pass */
	CONN_FORWARD, /* a request and its answer pass */
	CONN_TLS,     /* in a TLS hand-shake of its own */
	CONN_H2,      /* requests and answers of HTTP/2 pass */
};

enum conn_via { VIA_CONNECT, VIA_FORWARD, VIA_SOCKS };

struct conn {
	struct proxy_child *p;
	struct conn *prev, *next;
	struct proxy_sock *client, *up;
	uv_timer_t timer;
	enum conn_state state;
	enum conn_via via;
	bool closing;
	bool processing, again; /* guards conn_process against recursion */
	bool keep;		/* the connection goes on after the reply */
	bool is_head;		/* the request's method is HEAD: replies have no body */
	unsigned socks_step;
	size_t thrown_away;
	struct http_scan scan;
	/* Whom the client wants to reach, and whom `up` is connected to. */
	struct host host, up_host;
	uint16_t port, up_port;
	struct policy_verdict verdict;
	struct proxy_total *total;
	struct dial *dial;
	struct tunnel *tunnel;
	struct forward *forward;
	struct inspect *inspect; /* NULL: TLS is not opened */
};

/* Takes fd. */
void conn_new(struct proxy_child *p, int fd);

/* Ends it; the memory stays until the loop's next turn. conn_abort lets both sides see a reset. */
void conn_close(struct conn *c);
void conn_abort(struct conn *c);

/* (Re)starts its one timer; 0 stops it. */
void conn_set_timer(struct conn *c, unsigned ms, uv_timer_cb cb);

/* Works on what the client sent while waiting for a request or in the SOCKS hand-shake. */
void conn_process(struct conn *c);

/* Ready for the next request of the same client. */
void conn_next_request(struct conn *c);

/* Writes client->out, then goes on (c->keep) or closes gracefully. */
void conn_finish_reply(struct conn *c);

/* Shuts our side and waits a little for the client's, so that the last answer is not lost to a reset. */
void conn_linger(struct conn *c);

/* Judges c->host and c->port and connects: proxy_open.c. */
void conn_open(struct conn *c);
/* Connects anew to the host that was judged already. */
void conn_dial(struct conn *c);
/* Counts and reports a refusal. */
void conn_count_blocked(struct conn *c, const struct host *h, const struct policy_verdict *v);

/* A whole head of len bytes is in client->in: proxy_request.c. */
void conn_on_head(struct conn *c, size_t len);

/* Whether Host names the target. Without a port it means default_port. */
bool request_host_agrees(const struct conn *c, struct http_text value, unsigned default_port);

/* One step of the SOCKS hand-shake on client->in: proxy_socks.c. */
void socks_process(struct conn *c);
/* Answers a SOCKS request; with a code but 0 the connection ends. */
void socks_reply(struct conn *c, unsigned code);

/* An answer of the proxy itself: proxy_reply.c. reason becomes X-Iterion-Reason (NULL: none). */
void reply_send(struct conn *c, unsigned status, bool keep, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Tunnels: tunnel.c. */
void tunnel_start(struct conn *c, bool look_at_tls);
void tunnel_event(struct conn *c, struct proxy_sock *s, int events);
void tunnel_free(struct conn *c);

/* Forwarded requests: http_forward.c. */
void forward_prepare(struct conn *c, const struct http_head *h, struct http_text path);
void forward_connected(struct conn *c, bool reused);
void forward_event(struct conn *c);
void forward_free(struct conn *c);
