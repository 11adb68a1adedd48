/* Certificates for the hosts whose connections are inspected.
 *
 * One authority a proxy, with a P-256 key that is made when the proxy starts and dies with it, so a copy of its
 * certificate is worth nothing once the run is over. It can be constrained to the hosts that secrets are bound to: then
 * a program inside that trusts it trusts it for those hosts only. Leaves share one key and are minted on demand; the
 * last ones that were asked for are kept. */
#include "tls_ca.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/id.h>
#include <base/mem.h>
#include <base/str.h>
#include <net/policy.h>

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE = 64, SERIAL_BYTES = 16, BEFORE_S = 3600, AFTER_S = 30 * 24 * 3600, PEM_MAX = 64 * 1024 };

struct tls_ca {
	EVP_PKEY *key, *leaf_key;
	X509 *cert;
	struct leaf {
		char host[HOST_TEXT_SIZE];
		X509 *cert;
		uint64_t used;
	} cache[CACHE];
	uint64_t clock;
};

static int failed(struct err *e, const char *what)
{
	unsigned long code = ERR_peek_last_error();
	const char *why = code ? ERR_reason_error_string(code) : NULL;
	int r = err_set(e, ERR_SYSTEM, EIO, "%s: %s", what, why ? why : "the TLS library refused");

	err_hint(e, "This is a fault of the TLS library that iterion was built with; build it anew.");
	ERR_clear_error();
	return r;
}

static bool set_serial(X509 *c)
{
	unsigned char bytes[SERIAL_BYTES];

	random_bytes(bytes, sizeof bytes);
	bytes[0] = (bytes[0] & 0x3f) | 0x40; /* positive, and of one length */
	BIGNUM *n = BN_bin2bn(bytes, sizeof bytes, NULL);
	bool good = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(c));
	BN_free(n);
	return good;
}

static bool add_extension(X509 *c, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, c, NULL, NULL, 0);
	X509_EXTENSION *x = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	bool good = x && X509_add_ext(c, x, -1) == 1;
	X509_EXTENSION_free(x);
	return good;
}

static bool set_name(X509_NAME *name, const char *common)
{
	return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const unsigned char *)"iterion", -1, -1, 0) == 1 &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common, -1, -1, 0) == 1;
}

/* What both kinds of certificate have. */
static X509 *blank(EVP_PKEY *key, const char *common)
{
	X509 *c = X509_new();

	if (c && X509_set_version(c, X509_VERSION_3) == 1 && set_serial(c) &&
	    X509_gmtime_adj(X509_getm_notBefore(c), -BEFORE_S) && X509_gmtime_adj(X509_getm_notAfter(c), AFTER_S) &&
	    X509_set_pubkey(c, key) == 1 && set_name(X509_get_subject_name(c), common))
		return c;
	X509_free(c);
	return NULL;
}

/* "critical,permitted;DNS:a,permitted;DNS:b", and no address: a kind of name that is not spoken of is free. */
static char *constraints(const struct strv *hosts)
{
	auto_buf b = BUF_INIT(SIZE_MAX / 2);

	(void)buf_puts(&b, "critical");
	for (size_t i = 0; i < hosts->n; i++)
		(void)buf_printf(&b, ",permitted;DNS:%s", hosts->v[i]);
	(void)buf_puts(&b, ",excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0");
	return buf_steal(&b);
}

static bool make_authority(struct tls_ca *ca, const struct strv *hosts)
{
	/* A common name of its own: two of them must not be taken for each other. */
	char id[9];
	id_hex(id, 4);
	auto_free char *name = xasprintf("iterion TLS inspection %s", id);

	ca->cert = blank(ca->key, name);
	if (!ca->cert || X509_set_issuer_name(ca->cert, X509_get_subject_name(ca->cert)) != 1 ||
	    !add_extension(ca->cert, ca->cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
	    !add_extension(ca->cert, ca->cert, NID_key_usage, "critical,keyCertSign,cRLSign") ||
	    !add_extension(ca->cert, ca->cert, NID_subject_key_identifier, "hash"))
		return false;
	if (hosts && hosts->n) {
		auto_free char *only = constraints(hosts);
		if (!add_extension(ca->cert, ca->cert, NID_name_constraints, only))
			return false;
	}
	return X509_sign(ca->cert, ca->key, EVP_sha256()) > 0;
}

int tls_ca_new(const struct strv *hosts, struct tls_ca **ret, struct err *e)
{
	struct tls_ca *ca = xcalloc(1, sizeof *ca);

	ca->key = EVP_EC_gen("P-256");
	ca->leaf_key = EVP_EC_gen("P-256");
	if (!ca->key || !ca->leaf_key || !make_authority(ca, hosts)) {
		tls_ca_free(ca);
		return failed(e, "make the certificate authority of TLS inspection");
	}
	*ret = ca;
	return 0;
}

void tls_ca_free(struct tls_ca *ca)
{
	if (!ca)
		return;
	for (size_t i = 0; i < CACHE; i++)
		X509_free(ca->cache[i].cert);
	X509_free(ca->cert);
	EVP_PKEY_free(ca->key);
	EVP_PKEY_free(ca->leaf_key);
	free(ca);
}

int tls_ca_pem(const struct tls_ca *ca, struct buf *to, struct err *e)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *text = NULL;
	int r = 0;

	if (b && PEM_write_bio_X509(b, ca->cert) == 1) {
		long n = BIO_get_mem_data(b, &text);
		r = n > 0 && n < PEM_MAX ? buf_add(to, text, (size_t)n) : -ENOBUFS;
	} else {
		r = failed(e, "write the certificate of TLS inspection");
	}
	BIO_free(b);
	return r;
}

static X509 *mint(struct tls_ca *ca, const struct host *h)
{
	auto_free char *alternative = xasprintf("%s:%s", h->family == AF_UNSPEC ? "DNS" : "IP", h->text);
	/* A common name has at most 64 characters, and nobody reads it beside the alternative name. */
	X509 *c = blank(ca->leaf_key, "inspected");

	if (c && X509_set_issuer_name(c, X509_get_subject_name(ca->cert)) == 1 &&
	    add_extension(c, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	    add_extension(c, ca->cert, NID_key_usage, "critical,digitalSignature") &&
	    add_extension(c, ca->cert, NID_ext_key_usage, "serverAuth") &&
	    add_extension(c, ca->cert, NID_subject_alt_name, alternative) &&
	    add_extension(c, ca->cert, NID_authority_key_identifier, "keyid:always") &&
	    X509_sign(c, ca->key, EVP_sha256()) > 0)
		return c;
	X509_free(c);
	ERR_clear_error();
	return NULL;
}

X509 *tls_ca_leaf(struct tls_ca *ca, const struct host *h)
{
	struct leaf *place = &ca->cache[0];

	ca->clock++;
	for (size_t i = 0; i < CACHE; i++) {
		struct leaf *l = &ca->cache[i];
		if (l->cert && strcmp(l->host, h->text) == 0) {
			l->used = ca->clock;
			return l->cert;
		}
		if (l->used < place->used)
			place = l;
	}
	X509 *c = mint(ca, h);
	if (!c)
		return NULL;
	X509_free(place->cert);
	*place = (struct leaf){.cert = c, .used = ca->clock};
	memcpy(place->host, h->text, sizeof place->host);
	return c;
}

EVP_PKEY *tls_ca_leaf_key(const struct tls_ca *ca)
{
	return ca->leaf_key;
}
