/* The certificate authority of one proxy: its key is made here and never leaves this memory. */
#pragma once

#include <openssl/types.h>
#include <stddef.h>

struct buf;
struct err;
struct host;
struct strv;
struct tls_ca;

/* Makes the key and the certificate. hosts: the only names that it may speak for (name constraints); NULL: any.
 * Returns 0 or -errno. */
int tls_ca_new(const struct strv *hosts, struct tls_ca **ret, struct err *e) __attribute__((warn_unused_result));
void tls_ca_free(struct tls_ca *ca);

/* Appends its certificate as PEM. */
int tls_ca_pem(const struct tls_ca *ca, struct buf *to, struct err *e) __attribute__((warn_unused_result));

/* The certificate of a host (a name or an address), minted when nobody asked for it lately, and the key of all of them.
 * Borrowed until the next call; NULL when it cannot be made. */
X509 *tls_ca_leaf(struct tls_ca *ca, const struct host *h);
EVP_PKEY *tls_ca_leaf_key(const struct tls_ca *ca);
