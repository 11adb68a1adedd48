/* Inspected connections: TLS ends in the proxy, and begins anew towards the host. */
#pragma once

#include "proxy_conn.h"
#include "secret_swap.h"

#include <stdbool.h>

struct err;
struct h2;
struct proxy_inspect;
struct tls_hello;

enum inspect_phase {
	INSPECT_HOST,	/* the hand-shake with the host, before the client's */
	INSPECT_CLIENT, /* the client's */
	INSPECT_AGAIN,	/* with the host, for a request of a client that has had its own */
	INSPECT_UP,	/* requests pass */
};

struct inspect {
	enum inspect_phase phase;
	unsigned alpn; /* what the client offers */
	char why[512]; /* why the host cannot be had; empty: it can */
	struct swaps swaps;
	struct h2 *h2; /* NULL: HTTP/1.1 */
};

/* All that inspection needs of files, before the doors close; tells the certificate of its authority. 0 or -errno. */
int inspect_prepare(struct proxy_child *p, const struct proxy_inspect *i, struct err *e)
	__attribute__((warn_unused_result));

/* Whether the tunnel that begins with this ClientHello is to be inspected. */
bool inspect_wanted(const struct conn *c, const struct tls_hello *hello);

/* Turns the tunnel, whose first bytes are in client->in, into an inspected connection. */
void inspect_start(struct conn *c, const struct tls_hello *hello);
/* Both sockets' events during hand-shakes. */
void inspect_event(struct conn *c);
/* The host was dialled anew. */
void inspect_connected(struct conn *c);
void inspect_free(struct conn *c);
/* Answers a request with why the host cannot be had. */
void inspect_refuse(struct conn *c, bool keep);

/* A request's head, of len bytes in client->in: inspect_request.c. */
void inspect_on_head(struct conn *c, struct http_head *h, size_t len);
/* Records the placeholders of other hosts' secrets in what is sent here. */
void inspect_find_foreign(struct conn *c, const struct swaps *s, const char *text, size_t len);
/* The same for all of a plain request's head. */
void inspect_plain_head(struct conn *c, const struct http_head *h);
/* Replaces values in the head of an answer, which stands in data, and sets how to go on with the body. */
struct body;
void inspect_response(struct conn *c, struct http_head *h, char *data, struct body *b);

/* HTTP/2: inspect_h2.c. */
void h2_start(struct conn *c);
void h2_event(struct conn *c);
bool h2_is_idle(const struct conn *c);
void h2_free(struct h2 *h);
