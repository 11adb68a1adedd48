/* The two sides of an inspected connection.
 *
 * Towards the client the proxy is the host, by a certificate of its own authority (tls_ca.c); towards the host it is a
 * client that believes the system's store, insists on the host's name and on TLS 1.2. Nothing is read from the
 * library's configuration files, and no session is kept: what the library knows is what is said here. */
#include "tls.h"
#include "tls_ca.h"
#include "tls_priv.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/mem.h>
#include <net/policy.h>

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

struct tls {
	struct tls_ca *ca;
	SSL_CTX *server, *client;
};

static const unsigned char h1[] = "\x8http/1.1", h2[] = "\x2h2", both[] = "\x2h2\x8http/1.1";

/* Takes what the host speaks, if the client does. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
		       unsigned in_len, void *arg)
{
	const struct tls_state *st = SSL_get_app_data(ssl);
	unsigned char *chosen = NULL;
	bool use_h2 = st && (st->alpn & TLS_OFFER_H2);

	(void)arg;
	if (SSL_select_next_proto(&chosen, out_len, use_h2 ? h2 : h1, use_h2 ? 3 : 9, in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *context(const SSL_METHOD *method)
{
	SSL_CTX *c = SSL_CTX_new(method);

	if (!c)
		return NULL;
	(void)SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
	(void)SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
	(void)SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_num_tickets(c, 0);
	return c;
}

int tls_new(const struct strv *hosts, struct tls **ret, struct buf *pem, struct err *e)
{
	/* Its clean-up at exit would be of no use in a process that leaves by _exit. */
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1) {
		err_hint(e, "Build iterion anew with a working OpenSSL.");
		return err_set(e, ERR_SYSTEM, EIO, "start TLS inspection: the TLS library does not start");
	}
	struct tls *t = xcalloc(1, sizeof *t);
	int r = tls_ca_new(hosts, &t->ca, e);
	if (r == 0)
		r = tls_ca_pem(t->ca, pem, e);
	t->server = r == 0 ? context(TLS_server_method()) : NULL;
	t->client = r == 0 ? context(TLS_client_method()) : NULL;
	if (r == 0 && (!t->server || !t->client))
		r = err_set(e, ERR_SYSTEM, EIO, "start TLS inspection: the TLS library makes no context");
	if (r < 0) {
		SSL_CTX_free(t->server);
		SSL_CTX_free(t->client);
		tls_ca_free(t->ca);
		free(t);
		return r;
	}
	SSL_CTX_set_alpn_select_cb(t->server, choose_alpn, NULL);
	SSL_CTX_set_verify(t->client, SSL_VERIFY_PEER, NULL);
	*ret = t;
	return 0;
}

int tls_trust(struct tls *t, const char *file, struct err *e)
{
	if (SSL_CTX_load_verify_file(t->client, file) == 1)
		return 0;
	const char *why = ERR_reason_error_string(ERR_peek_last_error());
	int r = err_set(e, ERR_INPUT, EINVAL, "read the certificates to trust from %s: %s", file,
			why ? why : "none could be read");
	err_hint(e, "Install the system's certificates (ca-certificates), or name a PEM file in SSL_CERT_FILE.");
	ERR_clear_error();
	return r;
}

int tls_sock_serve(struct tls *t, struct proxy_sock *s, const struct host *h, unsigned alpn)
{
	X509 *leaf = tls_ca_leaf(t->ca, h);
	SSL *ssl = leaf ? SSL_new(t->server) : NULL;

	if (!ssl || SSL_use_certificate(ssl, leaf) != 1 || SSL_use_PrivateKey(ssl, tls_ca_leaf_key(t->ca)) != 1 ||
	    tls_state_attach(s, ssl, alpn) < 0) {
		SSL_free(ssl);
		ERR_clear_error();
		return -EIO;
	}
	SSL_set_accept_state(ssl);
	return 0;
}

static bool expect_host(SSL *ssl, const struct host *h)
{
	if (h->family != AF_UNSPEC)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), h->text) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	return SSL_set1_host(ssl, h->text) == 1 && SSL_set_tlsext_host_name(ssl, h->text) == 1;
}

static bool offer(SSL *ssl, unsigned alpn)
{
	switch (alpn & (TLS_OFFER_H1 | TLS_OFFER_H2)) {
	case 0:
		return true;
	case TLS_OFFER_H1:
		return SSL_set_alpn_protos(ssl, h1, sizeof h1 - 1) == 0;
	case TLS_OFFER_H2:
		return SSL_set_alpn_protos(ssl, h2, sizeof h2 - 1) == 0;
	default:
		return SSL_set_alpn_protos(ssl, both, sizeof both - 1) == 0;
	}
}

int tls_sock_connect(struct tls *t, struct proxy_sock *s, const struct host *h, unsigned alpn)
{
	SSL *ssl = SSL_new(t->client);

	if (!ssl || !expect_host(ssl, h) || !offer(ssl, alpn) || tls_state_attach(s, ssl, alpn) < 0) {
		SSL_free(ssl);
		ERR_clear_error();
		return -EIO;
	}
	SSL_set_connect_state(ssl);
	return 0;
}
