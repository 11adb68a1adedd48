/* The smaller pure parts of the proxy: TLS names, SOCKS5 messages, credentials, the hosts table, totals and reports. */
#include "dns_hosts.h"
#include "proxy_auth.h"
#include "proxy_report.h"
#include "proxy_sni.h"
#include "proxy_socks5.h"
#include "proxy_totals.h"
#include "proxy_wire.h"

#include <base/buf.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/pack.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { AREA = 64 * 1024 };
static char *fence;

static const char *before_fence(const void *data, size_t len)
{
	memcpy(fence - len, data, len);
	return fence - len;
}

/* ---- TLS ---- */

/* Builds a hello by hand, so that single bytes can be made wrong. */
struct hello {
	unsigned char b[4096];
	size_t n;
};

static void put(struct hello *h, size_t v, unsigned bytes)
{
	while (bytes--)
		h->b[h->n++] = (unsigned char)(v >> 8 * bytes);
}

static void put_name(struct hello *h, const char *name)
{
	size_t len = strlen(name);

	put(h, 0, 2);
	put(h, len + 5, 2);
	put(h, len + 3, 2);
	put(h, 0, 1);
	put(h, len, 2);
	memcpy(h->b + h->n, name, len);
	h->n += len;
}

enum { WITH_NAME = 1, TWO_NAMES = 2, WITH_ECH = 4, NO_EXTENSIONS = 8 };

/* A whole ClientHello message without its record. */
static struct hello make_message(const char *name, unsigned flags)
{
	struct hello h = {.n = 4};

	put(&h, 0x0303, 2);
	h.n += 32;
	put(&h, 0, 1);
	put(&h, 4, 2);
	put(&h, 0x13011302, 4);
	put(&h, 0x0100, 2);
	if (!(flags & NO_EXTENSIONS)) {
		size_t at = h.n;
		put(&h, 0, 2);
		put(&h, 0x0a0a0000, 4); /* an unknown one */
		if (flags & WITH_NAME)
			put_name(&h, name);
		if (flags & TWO_NAMES)
			put_name(&h, name);
		if (flags & WITH_ECH)
			put(&h, 0xfe0d0001, 4), put(&h, 0, 1);
		h.b[at] = (unsigned char)((h.n - at - 2) >> 8);
		h.b[at + 1] = (unsigned char)(h.n - at - 2);
	}
	h.b[0] = 1;
	h.b[2] = (unsigned char)((h.n - 4) >> 8);
	h.b[3] = (unsigned char)(h.n - 4);
	return h;
}

static struct hello in_records(const struct hello *m, size_t cut)
{
	struct hello r = {0};

	for (size_t at = 0; at < m->n; at += cut) {
		size_t len = MIN(cut, m->n - at);
		put(&r, 0x160301, 3);
		put(&r, len, 2);
		memcpy(r.b + r.n, m->b + at, len);
		r.n += len;
	}
	return r;
}

static int parse(const struct hello *r, size_t len, struct tls_hello *ret)
{
	return tls_hello_parse(before_fence(r->b, len), len, ret);
}

static void hello_names(void **state)
{
	static const struct {
		unsigned flags;
		int result;
		bool has_name, ech;
	} rows[] = {
		{WITH_NAME, 1, true, false},	       {0, 1, false, false},
		{NO_EXTENSIONS, 1, false, false},      {WITH_ECH, 1, false, true},
		{WITH_NAME | WITH_ECH, 1, true, true}, {WITH_NAME | TWO_NAMES, -EBADMSG, true, false},
	};
	static const size_t cuts[] = {4000, 64, 7, 1};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct hello m = make_message("a.example", rows[i].flags);
		for (size_t k = 0; k < ARRAY_LEN(cuts); k++) {
			struct hello r = in_records(&m, cuts[k]);
			struct tls_hello got;
			assert_int_equal(parse(&r, r.n, &got), rows[i].result);
			assert_int_equal(got.has_name, rows[i].has_name);
			assert_int_equal(got.ech, rows[i].ech);
			if (rows[i].has_name)
				assert_string_equal(got.name, "a.example");
			for (size_t n = 0; n < r.n; n++)
				assert_int_equal(parse(&r, n, &got), 0);
			/* What follows the hello is not looked at: early data, for one. */
			put(&r, 0x17030300, 4);
			assert_int_equal(parse(&r, r.n, &got), rows[i].result);
		}
	}
}

static void hello_not_tls(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int result;
	} rows[] = {
		{"", 0, 0},
		{"SSH-2.0-x", 9, -ENOMSG},
		{"\x16\x02\x01", 3, -ENOMSG},
		{"\x16", 1, 0},
		{"\x16\x03\x01\x00\x00", 5, -EBADMSG},
		{"\x16\x03\x01\xff\xff", 5, -EBADMSG},
		{"\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9, -EBADMSG},
		{"\x16\x03\x01\x00\x04\x01\x01\x00\x00", 9, -EBADMSG},
		{"\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9, -EBADMSG},
		{"\x16\x03\x01\x00\x02\x01\x00\x17\x03\x03\x00\x02\x00\x00", 14, -EBADMSG},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tls_hello got;
		assert_int_equal(tls_hello_parse(before_fence(rows[i].bytes, rows[i].len), rows[i].len, &got),
				 rows[i].result);
	}
}

/* Each length byte made wrong in every way: never a read past the end, never a name that is not there. */
static void hello_damaged(void **state)
{
	struct hello m = make_message("a.example", WITH_NAME | WITH_ECH);
	struct hello r = in_records(&m, 4000);
	struct tls_hello got;
	size_t bad = 0;

	(void)state;
	for (size_t i = 0; i < r.n; i++) {
		for (unsigned v = 0; v < 256; v++) {
			struct hello d = r;
			d.b[i] = (unsigned char)v;
			int result = parse(&d, d.n, &got);
			bad += result != 1;
			assert_true(strlen(got.name) <= TLS_NAME_MAX);
		}
	}
	assert_true(bad > 1000);
	m = make_message("a.example", WITH_NAME);
	r = in_records(&m, 4000);
	r.b[r.n - 3] = '\0';
	assert_int_equal(parse(&r, r.n, &got), -EBADMSG);
}

/* ---- SOCKS5 ---- */

static void socks_requests(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		unsigned code;
		const char *host;
		unsigned port;
	} rows[] = {
		{"\5\1\0\1\x7f\0\0\1\x01\xbb", 10, 0, "127.0.0.1", 443},
		{"\5\1\0\3\4A.ex\x00\x50", 11, 0, "a.ex", 80},
		{"\5\1\0\3\x07"
		 "1.2.3.4\x00\x50",
		 14, 0, "1.2.3.4", 80},
		{"\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\x50", 22, 0, "::1", 80},
		{"\5\3\0\1\x7f\0\0\1\0\x50", 10, 7, NULL, 0},
		{"\5\1\0\3\4a\0ex\x00\x50", 11, 1, NULL, 0},
		{"\5\1\0\3\0\0\x50", 7, 1, NULL, 0},
		{"\5\1\0\1\x7f\0\0\1\0\0", 10, 1, NULL, 0},
		{"\5\1\0\2\x7f", 5, 8, NULL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct host h;
		uint16_t port;
		unsigned code;
		size_t len = rows[i].len;
		assert_int_equal(socks5_request(before_fence(rows[i].bytes, len), len, &code, &h, &port), len);
		assert_int_equal(code, rows[i].code);
		if (code == 0) {
			assert_string_equal(h.text, rows[i].host);
			assert_int_equal(port, rows[i].port);
		}
		for (size_t n = 0; n < len; n++)
			assert_int_equal(socks5_request(before_fence(rows[i].bytes, n), n, &code, &h, &port), 0);
	}
}

static void socks_hand_shake(void **state)
{
	uint32_t methods = 0;
	const char *p;
	size_t n;

	(void)state;
	assert_int_equal(socks5_greeting(before_fence("\5\3\0\2\x80", 5), 5, &methods), 5);
	assert_int_equal(methods, 5);
	assert_int_equal(socks5_greeting(before_fence("\5\3\0\2", 4), 4, &methods), 0);
	assert_int_equal(socks5_greeting(before_fence("\5", 1), 1, &methods), 0);
	assert_int_equal(socks5_greeting(before_fence("\4\1", 2), 2, &methods), -EBADMSG);
	assert_int_equal(socks5_password(before_fence("\1\1u\2pw", 6), 6, &p, &n), 6);
	assert_int_equal(n, 2);
	assert_memory_equal(p, "pw", 2);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(socks5_password(before_fence("\1\1u\2pw", i), i, &p, &n), 0);
	assert_int_equal(socks5_password(before_fence("\5\1u\2pw", 6), 6, &p, &n), -EBADMSG);
}

/* ---- credentials ---- */

static void credentials(void **state)
{
	static const struct {
		const char *value;
		bool ok;
	} rows[] = {
		{"Bearer tok:en", true},
		{"bearer   tok:en", true},
		{"Bearer tok:e", false},
		{"Bearer tok:en ", false},
		{"Bearer", false},
		{"Bearer ", false},
		{"", false},
		{"tok:en", false},
		{"Digest tok:en", false},
		{"Basic dTp0b2s6ZW4=", true},
		{"BASIC dTp0b2s6ZW4", true},
		{"Basic OnRvazplbg==", true},
		{"Basic dG9rOmVu", false},
		{"Basic dTp0b2s6ZW4===", false},
		{"Basic dT*0b2s6ZW4=", false},
		{"Basic ", false},
		{"Basic =", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = strlen(rows[i].value);
		struct http_text v = {before_fence(rows[i].value, n), n};
		if (auth_check(v, "tok:en", 6) != rows[i].ok)
			fail_msg("%s", rows[i].value);
	}
	/* Longer than any credentials are. */
	static char big[8192] = "Basic ";
	memset(big + 6, 'A', sizeof big - 6);
	assert_false(auth_check((struct http_text){big, sizeof big}, "tok:en", 6));
}

/* ---- hosts ---- */

static struct host host_of(const char *text)
{
	struct host h;

	assert_int_equal(host_parse(text, strlen(text), &h), 0);
	return h;
}

static void hosts_file(void **state)
{
	static const char text[] = "# comment\n127.0.0.1 localhost me\n\n::1\tlocalhost # same\r\n"
				   "10.0.0.1 Some.Host. other#x\nnonsense here\n10.0.0.2\n10.0.0.3 bad..name good";
	struct dns_hosts t = {0};
	struct host name, got[4];

	(void)state;
	dns_hosts_parse(&t, before_fence(text, sizeof text - 1), sizeof text - 1);
	name = host_of("localhost");
	assert_int_equal(dns_hosts_find(&t, &name, AF_UNSPEC, got, 4), 2);
	assert_string_equal(got[1].text, "::1");
	assert_int_equal(dns_hosts_find(&t, &name, AF_INET6, got, 4), 1);
	assert_int_equal(dns_hosts_find(&t, &name, AF_UNSPEC, got, 1), 1);
	name = host_of("some.host");
	assert_int_equal(dns_hosts_find(&t, &name, AF_UNSPEC, got, 4), 1);
	assert_string_equal(got[0].text, "10.0.0.1");
	name = host_of("good");
	assert_int_equal(dns_hosts_find(&t, &name, AF_UNSPEC, got, 4), 1);
	name = host_of("here");
	assert_int_equal(dns_hosts_find(&t, &name, AF_UNSPEC, got, 4), 0);
	dns_hosts_done(&t);
}

static void overrides(void **state)
{
	static const struct {
		const char *text;
		bool ok;
	} rows[] = {
		{"a:1.2.3.4", true}, {"a:[::1]", true},	  {"a:::1", true}, {"a", false},
		{"a:b", false},	     {":1.2.3.4", false}, {"a:", false},   {"", false},
	};
	struct dns_hosts t = {0};
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		e = ERR_INIT;
		assert_int_equal(dns_hosts_add_override(&t, rows[i].text, &e) == 0, rows[i].ok);
		assert_int_equal(e.hint[0] != '\0', !rows[i].ok);
	}
	dns_hosts_done(&t);
}

/* ---- totals ---- */

static void totals_are_bounded(void **state)
{
	struct proxy_totals *t = proxy_totals_new();
	struct buf b = BUF_INIT(PROXY_TO_PARENT_MAX);
	char name[256];

	(void)state;
	for (int i = 0; i < 3 * PROXY_MAX_HOSTS; i++) {
		/* As long as a name can be: the record must still fit. */
		int n = snprintf(name, sizeof name, "host%d.", i);
		memset(name + n, 'x', 253 - (size_t)n);
		name[253] = '\0';
		proxy_totals_of(t, name)->blocked++;
	}
	proxy_totals_pack(t, &b);
	struct unpack u = {.p = b.data, .left = b.len};
	unsigned long long sum = 0;
	uint32_t count = unpack_u32(&u);
	assert_int_equal(count, PROXY_MAX_HOSTS + 1);
	for (uint32_t i = 0; i < count; i++) {
		free(unpack_str(&u));
		(void)unpack_u64(&u);
		sum += unpack_u64(&u);
		(void)unpack_u64(&u);
		(void)unpack_u64(&u);
	}
	assert_true(unpack_end(&u));
	assert_int_equal(sum, 3 * PROXY_MAX_HOSTS);
	buf_done(&b);
	proxy_totals_free(t);
}

/* ---- reports ---- */

struct sent {
	unsigned records, count, other;
	uint64_t begin_ms;
};

static void count_sent(void *arg, const struct proxy_blocked *b)
{
	struct sent *s = arg;

	assert_true(b->first_ms >= s->begin_ms && b->first_ms <= b->last_ms && b->last_ms <= clock_ms());
	s->records++;
	s->count += b->count;
	s->other += strcmp(b->host, "(other)") == 0 ? b->count : 0;
}

static void reports_are_folded(void **state)
{
	struct sent s = {.begin_ms = clock_ms()};
	char name[32];
	uv_loop_t loop;

	(void)state;
	uv_loop_init(&loop);
	struct proxy_report *r = proxy_report_new(&loop, count_sent, &s);
	for (int i = 0; i < 1000; i++)
		proxy_report_blocked(r, "same", 443, "why", "default");
	assert_int_equal(s.records, 1);
	proxy_report_blocked(r, "same", 80, "why", "default");
	assert_int_equal(s.records, 2);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "h%d", i);
		proxy_report_blocked(r, name, 443, "why", "default");
		proxy_report_blocked(r, name, 443, "another why", "default");
	}
	proxy_report_flush(r);
	assert_in_range(s.records, 2, 2 * PROXY_BLOCKED_PER_SECOND);
	assert_int_equal(s.count, 3001);
	assert_true(s.other > 1000);
	proxy_report_free(r);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

static int set_up(void **state)
{
	char *p = mmap(NULL, AREA + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (p == MAP_FAILED)
		return -1;
	fence = p + AREA;
	return mprotect(fence, 4096, PROT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_names),	      cmocka_unit_test(hello_not_tls),
		cmocka_unit_test(hello_damaged),      cmocka_unit_test(socks_requests),
		cmocka_unit_test(socks_hand_shake),   cmocka_unit_test(credentials),
		cmocka_unit_test(hosts_file),	      cmocka_unit_test(overrides),
		cmocka_unit_test(totals_are_bounded), cmocka_unit_test(reports_are_folded),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
