/* TLS of the proxy: who it is towards clients, whom it believes among servers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct host;
struct proxy_sock;
struct strv;
struct tls;

enum { TLS_OFFER_H1 = 1, TLS_OFFER_H2 = 2 }; /* protocols of ALPN; 0: no ALPN at all */

/* Makes the authority and appends its certificate as PEM to `pem`. hosts: the only ones that it speaks for; NULL: any.
 * Needs files only in tls_trust. Returns 0 or -errno. */
int tls_new(const struct strv *hosts, struct tls **ret, struct buf *pem, struct err *e)
	__attribute__((warn_unused_result));
/* Reads whom to believe: a file of certificates. Before the doors close. */
int tls_trust(struct tls *t, const char *file, struct err *e) __attribute__((warn_unused_result));

/* Makes a socket speak TLS from here on, as a server for that host: what was read into its `in` counts as received.
 * alpn: what the host itself speaks. 0 or -EIO. */
int tls_sock_serve(struct tls *t, struct proxy_sock *s, const struct host *h, unsigned alpn);
/* As a client: the certificate must be the host's. */
int tls_sock_connect(struct tls *t, struct proxy_sock *s, const struct host *h, unsigned alpn);

/* Goes on with the hand-shake: 1 done, 0 with the event to wait for in *ret_want, -EIO with why in `why`. */
int tls_sock_handshake(struct proxy_sock *s, int *ret_want, char *why, size_t why_size);
/* Whether HTTP/2 was agreed on. */
bool tls_sock_is_h2(const struct proxy_sock *s);

/* As sock_fill and its kin (proxy_sock.h), which call these. */
int tls_sock_fill(struct proxy_sock *s, size_t limit);
int tls_sock_flush(struct proxy_sock *s);
void tls_sock_shut(struct proxy_sock *s);
void tls_sock_free(struct proxy_sock *s);
/* Whether bytes wait that came off the socket already. */
bool tls_sock_pending(const struct proxy_sock *s);
