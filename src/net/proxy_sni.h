/* The server name and the protocols in the first bytes of a TLS connection. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { TLS_HELLO_MAX = 16 * 1024, TLS_NAME_MAX = 255 };

struct tls_hello {
	bool has_name;
	bool ech; /* an encrypted ClientHello lies inside: the name seen may not be the one meant */
	char name[TLS_NAME_MAX + 1];
	/* The protocols that it offers (RFC 7301): HTTP/1.1, HTTP/2, anything else. */
	bool offers_h1, offers_h2, offers_other;
};

/* Looks at what a client sent first. Returns 1 with *ret for a whole ClientHello, 0 when more is needed,
 * -ENOMSG when it is no TLS at all, -EBADMSG for a ClientHello that is malformed or longer than TLS_HELLO_MAX. */
int tls_hello_parse(const void *data, size_t len, struct tls_hello *ret);
