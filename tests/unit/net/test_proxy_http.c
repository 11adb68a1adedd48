/* The HTTP parsers against the tables in tests/data/net/http. Each input stands right before an unreadable page, so
 * that reading one byte too far ends the test, and is also fed byte by byte: the answer must be the same. */
#include "http_chunk.h"
#include "http_head.h"
#include "http_write.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { AREA = 128 * 1024 };

/* The end of a readable area; the page behind it is not. */
static char *fence;

static void make_fence(void)
{
	char *p = mmap(NULL, AREA + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	fence = p + AREA;
	assert_int_equal(mprotect(fence, 4096, PROT_NONE), 0);
}

static const char *before_fence(const void *data, size_t len)
{
	memcpy(fence - len, data, len);
	return fence - len;
}

static int hex(char c)
{
	return c >= 'a' ? c - 'a' + 10 : c - '0';
}

/* C escapes to bytes, in place; returns the length. */
static size_t unescape(char *s)
{
	size_t n = 0;

	for (char *p = s; *p; p++) {
		if (*p != '\\') {
			s[n++] = *p;
			continue;
		}
		switch (*++p) {
		case 'r':
			s[n++] = '\r';
			break;
		case 'n':
			s[n++] = '\n';
			break;
		case 't':
			s[n++] = '\t';
			break;
		case '0':
			s[n++] = '\0';
			break;
		case 'x':
			s[n++] = (char)(hex(p[1]) << 4 | hex(p[2]));
			p += 2;
			break;
		default:
			fail_msg("bad escape \\%c", *p);
		}
	}
	return n;
}

static void escape(struct buf *to, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\r')
			(void)buf_puts(to, "\\r");
		else if (s[i] == '\n')
			(void)buf_puts(to, "\\n");
		else
			(void)buf_putc(to, s[i]);
	}
}

/* Calls check for each case of a file: input as bytes, and the line that is expected. */
static void each_case(const char *name, void (*check)(const char *in, size_t len, struct buf *got), size_t at_least)
{
	char path[512], in[4096], want[4096], original[4096];
	size_t n = 0;

	snprintf(path, sizeof path, TEST_DATA "/net/http/%s", name);
	auto_file f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(in, sizeof in, f)) {
		if (in[0] == '#')
			continue;
		assert_non_null(fgets(want, sizeof want, f));
		in[strcspn(in, "\n")] = '\0';
		want[strcspn(want, "\n")] = '\0';
		memcpy(original, in, sizeof in);
		auto_buf got = BUF_INIT(65536);
		size_t len = unescape(in);
		check(in, len, &got);
		if (strcmp(buf_str(&got), want) != 0)
			fail_msg("%s\n  gave:   %s\n  wanted: %s", original, buf_str(&got), want);
		n++;
		if (!fgets(in, sizeof in, f))
			break;
	}
	assert_true(n >= at_least);
}

/* http_scan over growing prefixes; must agree with one call over everything. */
static ssize_t scan_both(const char *in, size_t len)
{
	struct http_scan whole = {0}, stepped = {0};
	const char *why = "";
	ssize_t r = http_scan(&whole, before_fence(in, len), len, &why), s = 0;

	for (size_t n = 0; n <= len && s == 0; n++)
		s = http_scan(&stepped, before_fence(in, n), n, &why);
	assert_int_equal(r, s);
	return r;
}

static void describe(struct buf *to, const struct http_head *h)
{
	if (h->has_length)
		(void)buf_printf(to, " length=%llu", (unsigned long long)h->length);
	(void)buf_printf(to, "%s%s%s", h->chunked ? " chunked" : "", h->keep_alive ? " keep" : " close",
			 h->websocket ? " websocket" : "");
}

static void check_request(const char *in, size_t len, struct buf *got)
{
	static struct http_head h;
	const char *why = NULL;
	ssize_t n = scan_both(in, len);

	if (n == 0) {
		(void)buf_puts(got, "more");
		return;
	}
	if (n < 0) {
		(void)buf_puts(got, "400");
		return;
	}
	unsigned status = http_parse_request(before_fence(in, (size_t)n), (size_t)n, &h, &why);
	if (status) {
		assert_non_null(why);
		(void)buf_printf(got, "%u", status);
		return;
	}
	(void)buf_printf(got, "%.*s %.*s", (int)h.method.len, h.method.p, (int)h.target.len, h.target.p);
	describe(got, &h);
	/* No proper prefix is a head. */
	for (size_t i = 0; i < (size_t)n; i++)
		assert_int_not_equal(http_parse_request(before_fence(in, i), i, &h, &why), 0);
}

static void requests(void **state)
{
	(void)state;
	each_case("request.test", check_request, 60);
}

static void check_response(const char *in, size_t len, struct buf *got)
{
	static struct http_head h;
	const char *why;
	ssize_t n = scan_both(in, len);

	if (n == 0) {
		(void)buf_puts(got, "more");
	} else if (n < 0 || http_parse_response(before_fence(in, (size_t)n), (size_t)n, &h, &why) < 0) {
		(void)buf_puts(got, "bad");
	} else {
		(void)buf_printf(got, "%u", h.status);
		describe(got, &h);
	}
}

static void responses(void **state)
{
	(void)state;
	each_case("response.test", check_response, 15);
}

/* Feeds in pieces of `step` bytes. */
static void run_chunks(const char *in, size_t len, size_t step, size_t room, struct buf *got)
{
	struct http_chunk c = {0};
	auto_buf out = BUF_INIT(65536);
	auto_buf part = BUF_INIT(65536);
	size_t at = 0;

	while (at < len && !c.done) {
		size_t n = MIN(step, len - at);
		ssize_t used = http_chunk_step(&c, before_fence(in + at, n), n, &part, room);
		if (used < 0) {
			(void)buf_puts(got, "bad");
			return;
		}
		(void)buf_add(&out, part.data, part.len);
		buf_clear(&part);
		at += (size_t)used;
	}
	if (!c.done) {
		(void)buf_puts(got, "more");
		return;
	}
	escape(got, out.data, out.len);
	(void)buf_printf(got, " + %zu", len - at);
}

static void check_chunks(const char *in, size_t len, struct buf *got)
{
	static const size_t steps[] = {1, 2, 3, 7}, rooms[] = {1, 2, 1000};

	run_chunks(in, len, len, 1000, got);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		for (size_t k = 0; k < ARRAY_LEN(rooms); k++) {
			auto_buf again = BUF_INIT(65536);
			run_chunks(in, len, steps[i], rooms[k], &again);
			assert_string_equal(buf_str(&again), buf_str(got));
		}
	}
}

static void chunks(void **state)
{
	(void)state;
	each_case("chunk.test", check_chunks, 25);
}

static void plain_chunks(void **state)
{
	static const char in[] = "5;x\r\nhello\r\n6\r\n world\r\n0\r\nX: 1\r\n\r\n";
	struct http_chunk c = {.plain = true};
	auto_buf out = BUF_INIT(100);

	(void)state;
	assert_int_equal(http_chunk_step(&c, in, sizeof in - 1, &out, 100), sizeof in - 1);
	assert_true(c.done);
	assert_string_equal(buf_str(&out), "hello world");
}

static void check_target(const char *in, size_t len, struct buf *got)
{
	struct http_text authority, path;
	const char *why;

	if (http_absolute_target((struct http_text){before_fence(in, len), len}, &authority, &path, &why) < 0)
		(void)buf_puts(got, "bad");
	else
		(void)buf_printf(got, "%.*s %.*s", (int)authority.len, authority.p, (int)path.len, path.p);
}

static void targets(void **state)
{
	(void)state;
	each_case("target.test", check_target, 15);
}

static void check_write(const char *in, size_t len, struct buf *got)
{
	static struct http_head h;
	const char *why;
	auto_buf out = BUF_INIT(65536);

	assert_int_equal(http_parse_request(in, len, &h, &why), 0);
	assert_int_equal(http_write_request(&out, &h, "h", (struct http_text){"/p", 2}), 0);
	escape(got, out.data, out.len);
}

static void writes(void **state)
{
	(void)state;
	each_case("write.test", check_write, 6);
}

static void paths(void **state)
{
	static const struct {
		const char *method, *path, *want;
	} rows[] = {
		{"GET", "", "GET / HTTP/1.1\r\n"},
		{"GET", "?q", "GET /?q HTTP/1.1\r\n"},
		{"OPTIONS", "", "OPTIONS * HTTP/1.1\r\n"},
		{"OPTIONS", "/", "OPTIONS / HTTP/1.1\r\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		static struct http_head h;
		const char *why;
		auto_buf in = BUF_INIT(1000);
		auto_buf out = BUF_INIT(1000);
		(void)buf_printf(&in, "%s http://h HTTP/1.1\r\nHost: h\r\n\r\n", rows[i].method);
		assert_int_equal(http_parse_request(in.data, in.len, &h, &why), 0);
		struct http_text path = {rows[i].path, strlen(rows[i].path)};
		assert_int_equal(http_write_request(&out, &h, "h", path), 0);
		assert_memory_equal(out.data, rows[i].want, strlen(rows[i].want));
	}
}

static void response_bodies(void **state)
{
	static const struct {
		const char *head;
		bool head_request;
		unsigned client_minor;
		enum http_body body;
		const char *has, *has_not;
	} rows[] = {
		{"200 OK\r\nContent-Length: 3\r\n", false, 1, HTTP_BODY_LENGTH, "Content-Length: 3", "Transfer"},
		{"200 OK\r\nContent-Length: 0\r\n", false, 1, HTTP_BODY_NONE, "Content-Length: 0", "Transfer"},
		{"200 OK\r\nContent-Length: 3\r\n", true, 1, HTTP_BODY_NONE, "Content-Length: 3", "Transfer"},
		{"200 OK\r\n", false, 1, HTTP_BODY_UNTIL_CLOSE, "HTTP/1.1 200 OK\r\n", "Content-Length"},
		{"200 OK\r\nTransfer-Encoding: chunked\r\n", false, 1, HTTP_BODY_CHUNKED, "chunked", "Content-Length"},
		{"200 OK\r\nTransfer-Encoding: chunked\r\n", false, 0, HTTP_BODY_CHUNKED, "HTTP/1.1", "chunked"},
		{"204 No\r\nContent-Length: 3\r\n", false, 1, HTTP_BODY_NONE, "204 No", "Content-Length"},
		{"304 Same\r\nContent-Length: 3\r\n", false, 1, HTTP_BODY_NONE, "Content-Length: 3", "Transfer"},
		{"100 Continue\r\n", false, 1, HTTP_BODY_NONE, "100 Continue\r\n\r\n", "Connection"},
		{"200 OK\r\nX: 1\r\nConnection: x\r\nProxy-Authenticate: y\r\n", false, 1, HTTP_BODY_UNTIL_CLOSE,
		 "Connection: keep-alive\r\n\r\n", "X: 1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		static struct http_head h;
		const char *why;
		auto_buf in = BUF_INIT(1000);
		auto_buf out = BUF_INIT(1000);
		(void)buf_printf(&in, "HTTP/1.1 %s\r\n", rows[i].head);
		assert_int_equal(http_parse_response(in.data, in.len, &h, &why), 0);
		assert_int_equal(http_response_body(&h, rows[i].head_request), rows[i].body);
		assert_int_equal(http_write_response(&out, &h, rows[i].client_minor, true), 0);
		assert_non_null(strstr(buf_str(&out), rows[i].has));
		assert_null(strstr(buf_str(&out), rows[i].has_not));
	}
}

static void limits(void **state)
{
	static struct http_head h;
	struct http_scan s = {0};
	const char *why;
	auto_buf in = BUF_INIT(200000);

	(void)state;
	(void)buf_puts(&in, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
	while (in.len < HTTP_HEAD_MAX + 10)
		(void)buf_putc(&in, 'x');
	assert_int_equal(http_scan(&s, in.data, in.len, &why), -EMSGSIZE);
	/* Exactly at the limit it is taken. */
	in.len = HTTP_HEAD_MAX - 4;
	(void)buf_puts(&in, "\r\n\r\n");
	s = (struct http_scan){0};
	assert_int_equal(http_scan(&s, in.data, in.len, &why), HTTP_HEAD_MAX);
	assert_int_equal(http_parse_request(in.data, in.len, &h, &why), 0);
	buf_clear(&in);
	(void)buf_puts(&in, "GET / HTTP/1.1\r\n");
	for (int i = 0; i <= HTTP_MAX_FIELDS; i++)
		(void)buf_puts(&in, "X: 1\r\n");
	(void)buf_puts(&in, "\r\n");
	assert_int_equal(http_parse_request(in.data, in.len, &h, &why), 431);
}

static int set_up(void **state)
{
	(void)state;
	make_fence();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests),	cmocka_unit_test(responses),	   cmocka_unit_test(chunks),
		cmocka_unit_test(plain_chunks), cmocka_unit_test(targets),	   cmocka_unit_test(writes),
		cmocka_unit_test(paths),	cmocka_unit_test(response_bodies), cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
