/* The authority of TLS inspection: what its certificates say, and whom they convince. */
#include "h2_fields.h"
#include "tls_ca.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/str.h>
#include <net/policy.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

static struct host host(const char *text)
{
	struct host h;

	assert_int_equal(host_parse(text, strlen(text), &h), 0);
	return h;
}

/* What a client says that trusts the authority's PEM and nothing else: X509_V_OK or another. */
static int verdict(const struct tls_ca *ca, X509 *leaf, const char *name)
{
	auto_buf pem = BUF_INIT(65536);

	assert_int_equal(tls_ca_pem(ca, &pem, NULL), 0);
	BIO *b = BIO_new_mem_buf(pem.data, (int)pem.len);
	X509 *root = PEM_read_bio_X509(b, NULL, NULL, NULL);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	assert_non_null(root);
	assert_int_equal(X509_STORE_add_cert(store, root), 1);
	assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, NULL), 1);
	X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_purpose(p, X509_PURPOSE_SSL_SERVER);
	X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_X509_STRICT);
	if (X509_VERIFY_PARAM_set1_ip_asc(p, name) != 1)
		assert_int_equal(X509_VERIFY_PARAM_set1_host(p, name, 0), 1);
	int v = X509_verify_cert(ctx) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(root);
	BIO_free(b);
	return v;
}

static void test_leaves(void **state)
{
	static const char *const names[] = {"api.test", "xn--bcher-kva.test", "192.0.2.7", "2001:db8::7", "localhost"};
	struct tls_ca *ca = NULL;

	(void)state;
	assert_int_equal(tls_ca_new(NULL, &ca, NULL), 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct host h = host(names[i]), other = host("other.test");
		assert_int_equal(verdict(ca, tls_ca_leaf(ca, &h), names[i]), X509_V_OK);
		assert_int_equal(verdict(ca, tls_ca_leaf(ca, &other), names[i]),
				 h.family ? X509_V_ERR_IP_ADDRESS_MISMATCH : X509_V_ERR_HOSTNAME_MISMATCH);
	}
	tls_ca_free(ca);
}

static void test_constraints(void **state)
{
	auto_strv hosts = {0};
	struct tls_ca *ca = NULL;
	struct host in = host("api.test"), out = host("bank.test");

	(void)state;
	strv_add(&hosts, "api.test");
	strv_add(&hosts, "two.test");
	assert_int_equal(tls_ca_new(&hosts, &ca, NULL), 0);
	assert_int_equal(verdict(ca, tls_ca_leaf(ca, &in), "api.test"), X509_V_OK);
	assert_int_equal(verdict(ca, tls_ca_leaf(ca, &out), "bank.test"), X509_V_ERR_PERMITTED_VIOLATION);
	/* Names that it may speak for do not keep it from speaking for addresses. */
	struct host v4 = host("192.0.2.1"), v6 = host("2001:db8::1");
	assert_int_equal(verdict(ca, tls_ca_leaf(ca, &v4), "192.0.2.1"), X509_V_ERR_EXCLUDED_VIOLATION);
	assert_int_equal(verdict(ca, tls_ca_leaf(ca, &v6), "2001:db8::1"), X509_V_ERR_EXCLUDED_VIOLATION);
	tls_ca_free(ca);
}

/* Another run's authority is another one, though it looks the same. */
static void test_authorities_are_apart(void **state)
{
	struct tls_ca *one = NULL, *two = NULL;
	struct host h = host("api.test");

	(void)state;
	assert_int_equal(tls_ca_new(NULL, &one, NULL), 0);
	assert_int_equal(tls_ca_new(NULL, &two, NULL), 0);
	assert_int_not_equal(verdict(two, tls_ca_leaf(one, &h), "api.test"), X509_V_OK);
	tls_ca_free(one);
	tls_ca_free(two);
}

static void test_cache(void **state)
{
	struct tls_ca *ca = NULL;
	struct host first = host("first.test");
	char name[32];

	(void)state;
	assert_int_equal(tls_ca_new(NULL, &ca, NULL), 0);
	X509 *kept = tls_ca_leaf(ca, &first);
	assert_ptr_equal(tls_ca_leaf(ca, &first), kept);
	X509_up_ref(kept);
	for (int i = 0; i < 200; i++) {
		(void)snprintf(name, sizeof name, "h%d.test", i);
		struct host h = host(name);
		assert_non_null(tls_ca_leaf(ca, &h));
		/* What is asked for stays. */
		assert_ptr_equal(tls_ca_leaf(ca, &first), kept);
	}
	for (int i = 0; i < 70; i++) {
		(void)snprintf(name, sizeof name, "h%d.test", i);
		struct host h = host(name);
		assert_non_null(tls_ca_leaf(ca, &h));
	}
	assert_ptr_not_equal(tls_ca_leaf(ca, &first), kept);
	X509_free(kept);
	tls_ca_free(ca);
}

static nghttp2_nv *field(const struct h2_fields *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].namelen == strlen(name) && memcmp(f->v[i].name, name, f->v[i].namelen) == 0)
			return &f->v[i];
	return NULL;
}

static void add(struct h2_fields *f, const char *name, const char *value)
{
	assert_int_equal(h2_fields_add(f, name, strlen(name), value, strlen(value)), 0);
}

/* What got a secret is never put into a compression table. */
static void test_h2_fields(void **state)
{
	struct swap out[] = {{"placeholder", "a b-secret!", 11}}, in[] = {{"a b-secret!", "placeholder", 11}};
	const struct swaps s = {.out = out, .in = in, .n = 1, .n_in = 1};
	struct h2_fields f = {0};

	(void)state;
	add(&f, ":path", "/p?k=placeholder");
	add(&f, "authorization", "token placeholder");
	add(&f, "x-other", "plain");
	add(&f, "empty", "");
	assert_int_equal(h2_fields_swap_request(&f, &s), 0);
	struct http_text path = h2_fields_get(&f, ":path"), token = h2_fields_get(&f, "authorization");
	assert_int_equal(path.len, strlen("/p?k=a%20b-secret!"));
	assert_memory_equal(path.p, "/p?k=a%20b-secret!", path.len);
	assert_memory_equal(token.p, "token a b-secret!", token.len);
	assert_true(http_is(h2_fields_get(&f, "accept-encoding"), "identity"));
	assert_true(field(&f, ":path")->flags & NGHTTP2_NV_FLAG_NO_INDEX);
	assert_true(field(&f, "authorization")->flags & NGHTTP2_NV_FLAG_NO_INDEX);
	assert_false(field(&f, "x-other")->flags & NGHTTP2_NV_FLAG_NO_INDEX);
	h2_fields_swap_response(&f, &s);
	token = h2_fields_get(&f, "authorization");
	assert_memory_equal(token.p, "token placeholder", token.len);
	h2_fields_clear(&f);
}

/* A request that got a value takes the whole answer; another one may have parts. */
static void test_h2_ranges(void **state)
{
	struct swap out[] = {{"placeholder", "a-b-secret!", 11}};
	const struct swaps s = {.out = out, .n = 1};
	static const struct {
		const char *path, *token;
		bool range;
	} rows[] = {
		{"/p", "token x", true}, {"/p?k=placeholder", "token x", false}, {"/p", "token placeholder", false}};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct h2_fields f = {0};
		add(&f, ":path", rows[i].path);
		add(&f, "range", "bytes=0-3");
		add(&f, "proxy-authorization", "Bearer x");
		add(&f, "authorization", rows[i].token);
		assert_int_equal(h2_fields_swap_request(&f, &s), 0);
		assert_int_equal(field(&f, "range") != NULL, rows[i].range);
		h2_fields_drop_proxy(&f);
		assert_null(field(&f, "proxy-authorization"));
		assert_non_null(field(&f, "authorization"));
		h2_fields_clear(&f);
	}
}

static void test_h2_fields_are_bounded(void **state)
{
	static char value[HTTP_HEAD_MAX];
	struct h2_fields f = {0};

	(void)state;
	memset(value, 'x', sizeof value);
	assert_int_equal(h2_fields_add(&f, "a", 1, value, sizeof value), -E2BIG);
	assert_int_equal(h2_fields_add(&f, "a", 1, value, sizeof value / 2), 0);
	assert_int_equal(h2_fields_add(&f, "a", 1, value, sizeof value / 2), -E2BIG);
	for (size_t i = 1; i < H2_MAX_FIELDS; i++)
		assert_int_equal(h2_fields_add(&f, "b", 1, "c", 1), 0);
	assert_int_equal(h2_fields_add(&f, "b", 1, "c", 1), -E2BIG);
	h2_fields_clear(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaves),
		cmocka_unit_test(test_constraints),
		cmocka_unit_test(test_authorities_are_apart),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_h2_fields),
		cmocka_unit_test(test_h2_ranges),
		cmocka_unit_test(test_h2_fields_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
