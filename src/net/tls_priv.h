/* What hangs on a socket that speaks TLS. */
#pragma once

#include <base/buf.h>
#include <openssl/types.h>

struct proxy_sock;

struct tls_state {
	SSL *ssl;
	struct buf raw; /* what came before TLS began: read first */
	unsigned alpn;
};

/* Gives the socket the state, and the connection the socket; takes ssl on success. 0 or -EIO. */
int tls_state_attach(struct proxy_sock *s, SSL *ssl, unsigned alpn);
