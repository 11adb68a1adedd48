/* Placeholders, and texts in which one replaces the other. */
#include "http_body.h"
#include "secret_priv.h"
#include "secret_swap.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void test_placeholders(void **state)
{
	static const struct {
		const char *value, *prefix, *alphabet; /* of what is drawn, behind the prefix */
	} rows[] = {
		{"ghp_Zq7Lm2Xw9Rt4Kc8Vb3Ns6Hd1Jf5Gp0Ya7Ue2", "ghp_", NULL},
		{"github_pat_11ABCDEFG0abcdefgh_ijklmnop", "github_pat_", NULL},
		{"sk-ant-api03-abcDEF123-_xyzXYZ789", "sk-ant-api03-", NULL},
		{"sk-abcdef123456", "sk-", "abcdefghijklmnopqrstuvwxyz0123456789"},
		{"xoxb-123456789-abcdefgh", "xoxb-", NULL},
		{"0123456789", "", "0123456789"},
		{"00ff00ff00ff00ffaa", "", "0123456789abcdef"},
		{"PASSWORD", "", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
		/* Too little would be left behind the prefix. */
		{"sk-abcde", "", NULL},
		{"eyJhbGci.eyJzdWIi.c2lnbmF0", "", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].value), keep = strlen(rows[i].prefix);
		char a[128], b[128];
		assert_int_equal(secret_placeholder(rows[i].value, len, a, NULL), 0);
		assert_int_equal(secret_placeholder(rows[i].value, len, b, NULL), 0);
		assert_int_equal(strlen(a), len);
		assert_memory_equal(a, rows[i].prefix, keep);
		assert_string_not_equal(a, rows[i].value);
		assert_string_not_equal(a, b);
		if (rows[i].alphabet)
			assert_int_equal(strspn(a + keep, rows[i].alphabet), len - keep);
		for (size_t k = 0; k < len; k++)
			if (strchr("-_.", rows[i].value[k]))
				assert_int_equal(a[k], rows[i].value[k]);
	}
}

static void test_values_that_cannot_be(void **state)
{
	static const char *const bad[] = {"short", "with\nnewline", "with\ttab-in", "caf\xc3\xa9-caf\xc3\xa9",
					  "--------------"};
	auto_secrets s = secrets_new();
	auto_strv hosts = {0};
	char long_one[SECRET_MAX + 2];

	(void)state;
	strv_add(&hosts, "a.test");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = ERR_INIT;
		assert_true(secrets_add(s, "X", bad[i], strlen(bad[i]), &hosts, &e) < 0);
		assert_int_equal(e.kind, ERR_INPUT);
		assert_true(e.hint[0]);
		/* The value itself is never part of the words. */
		assert_null(strstr(e.msg, bad[i]));
	}
	memset(long_one, 'a', sizeof long_one);
	assert_true(secrets_add(s, "X", long_one, SECRET_MAX + 1, &hosts, NULL) < 0);
	assert_int_equal(secrets_add(s, "X", long_one, SECRET_MAX, &hosts, NULL), 0);
	assert_int_equal(secrets_count(s), 1);
	secrets_forget(s);
	assert_int_equal(strlen(secrets_placeholder_of(s, "X")), SECRET_MAX);
	assert_null(secrets_placeholder_of(s, "Y"));
}

#define P "PPPPPPPPPP"
#define V "VVVVVVVVV/"
static const struct swap pairs[] = {
	{P, V, 10}, {"shared-01", "SHARED-99", 9}, {"shared-01-more", "SHARED-99-MORE", 14}};

static void test_headers(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"token " P, "token " V},
		{P, V},
		{P P, V V},
		{"x" P "y", "x" V "y"},
		{"PPPPPPPPP", "PPPPPPPPP"},
		{"", ""},
		{"shared-01", "SHARED-99"},
		{"shared-01-more", "SHARED-99-MORE"},
		{"shared-01-mor", "SHARED-99-mor"},
		/* me:PPPPPPPPPP, PPPPPPPPPP:, x:PPPPPPPPPP */
		{"Basic bWU6UFBQUFBQUFBQUA==", "Basic bWU6VlZWVlZWVlZWLw=="},
		{"basic   UFBQUFBQUFBQUDo=", "basic   VlZWVlZWVlZWLzo="},
		{"BASIC eDpQUFBQUFBQUFBQ", "BASIC eDpWVlZWVlZWVlYv"},
		/* No base64, or of another scheme. */
		{"Basic bWU6UFBQUFBQUFBQUA=", "Basic bWU6UFBQUFBQUFBQUA="},
		{"Basic bWU6UFBQ=FBQUFBQUA==", "Basic bWU6UFBQ=FBQUFBQUA=="},
		{"Bearer bWU6UFBQUFBQUFBQUA==", "Bearer bWU6UFBQUFBQUFBQUA=="},
		{"Basic ", "Basic "},
		{"Basic ====", "Basic ===="},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		/* Right at the end of its memory, so that a step past it is seen. */
		size_t len = strlen(rows[i].in);
		auto_free char *text = len ? xmemdup(rows[i].in, len) : NULL;
		size_t n = swap_header(pairs, ARRAY_LEN(pairs), text, len);
		if (len)
			assert_memory_equal(text, rows[i].out, len);
		assert_int_equal(n > 0, strcmp(rows[i].in, rows[i].out) != 0);
	}
}

static void test_targets(void **state)
{
	static const struct swap odd[] = {{P, "a b&c=d#e+", 10}};
	static const struct {
		const struct swap *v;
		const char *in, *out;
	} rows[] = {
		{pairs, "/a?k=" P, "/a?k=" V},
		{pairs, "/a?" P "&" P, "/a?" V "&" V},
		/* In the query only. */
		{pairs, "/" P "?x=" P "&y", "/" P "?x=" V "&y"},
		{pairs, "/" P, "/" P},
		{pairs, "/?", "/?"},
		{odd, "/a?k=" P "&z", "/a?k=a%20b%26c%3Dd%23e%2B&z"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_buf b = BUF_INIT(4096);
		assert_int_equal(swap_target(rows[i].v, 1, rows[i].in, strlen(rows[i].in), &b), 0);
		assert_string_equal(buf_str(&b), rows[i].out);
	}
}

/* Every way to cut a text into three: the same comes out, and nothing is held that cannot be a beginning. */
static void test_streams_at_every_cut(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"before " P " after", "before " V " after"},
		{P P "PPPP", V V "PPPP"},
		{"shared-01-mo", "SHARED-99-mo"},
		{"shared-01-more shared-01", "SHARED-99-MORE SHARED-99"},
		{"sharedshared-01", "sharedSHARED-99"},
		{"xPPPPPPPPP", "xPPPPPPPPP"},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].in);
		for (size_t a = 0; a <= len; a++) {
			for (size_t b = a; b <= len; b++) {
				struct swap_stream *s = swap_stream_new(pairs, ARRAY_LEN(pairs));
				auto_buf out = BUF_INIT(4096);
				assert_int_equal(swap_stream_feed(s, rows[i].in, a, &out), 0);
				assert_true(a - out.len < 14);
				assert_int_equal(swap_stream_feed(s, rows[i].in + a, b - a, &out), 0);
				assert_int_equal(swap_stream_feed(s, rows[i].in + b, len - b, &out), 0);
				assert_int_equal(swap_stream_end(s, &out), 0);
				assert_string_equal(buf_str(&out), rows[i].out);
				swap_stream_free(s);
			}
		}
	}
}

/* An event that ends unlike any beginning goes on whole. */
static void test_streams_hold_nothing_else(void **state)
{
	struct swap_stream *s = swap_stream_new(pairs, ARRAY_LEN(pairs));
	auto_buf out = BUF_INIT(4096);

	(void)state;
	assert_int_equal(swap_stream_feed(s, "data: one\n\n", 11, &out), 0);
	assert_int_equal(out.len, 11);
	assert_int_equal(swap_stream_feed(s, "data: PPP", 9, &out), 0);
	assert_int_equal(out.len, 11 + 6);
	swap_stream_free(s);
}

/* Where a stream stops must tell nothing of the value: ends that are its beginnings and ends that only look like them
 * are held alike. */
static void test_streams_hold_by_shape(void **state)
{
	static const char value[] = "ghp_Zq7L.m2Xw9Rt4Kc8", shown[] = "ghp_aB3d.E5fGh1jK2lM";
	static const struct swap one[] = {{value, shown, sizeof value - 1}};
	static const struct {
		const char *text;
		size_t through;
	} rows[] = {
		{"x ghp_Z", 2},	     {"x ghp_a", 2},	  {"x ghp_9", 2},	 {"x ghp_Zq7L.m", 2},
		{"x ghp_Zq7L.n", 2}, {"x ghp_aaaa.b", 2}, {"x ghp_Zq7L!", 11},	 {"x ghp_aaaa!", 11},
		{"x ghp_Zq7.", 10},  {"x ghp_aaa.", 10},  {"x ghp_Zq7L.\n", 12}, {"x ghp_aaaa.\n", 12},
		{"x abc_", 2},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct swap_stream *s = swap_stream_new(one, 1);
		auto_buf out = BUF_INIT(100);
		assert_int_equal(swap_stream_feed(s, rows[i].text, strlen(rows[i].text), &out), 0);
		assert_int_equal(out.len, rows[i].through);
		assert_int_equal(swap_stream_end(s, &out), 0);
		assert_string_equal(buf_str(&out), rows[i].text);
		swap_stream_free(s);
	}
}

/* A body of chunks, cut anywhere, with the text cut over chunks. */
static void test_chunked_bodies(void **state)
{
	static const char in[] = "7\r\nab PPPP\r\n8;x=y\r\nPPPPPP c\r\n0\r\nT: x\r\n\r\n";
	const size_t len = sizeof in - 1;

	(void)state;
	for (size_t cut = 0; cut <= len; cut++) {
		struct body b = {.kind = HTTP_BODY_CHUNKED};
		auto_buf from = BUF_INIT(4096);
		auto_buf to = BUF_INIT(4096);
		auto_buf plain = BUF_INIT(4096);
		struct http_chunk reader = {.plain = true};
		uint64_t count = 0;
		body_set_swap(&b, swap_stream_new(pairs, ARRAY_LEN(pairs)));
		(void)buf_add(&from, in, cut);
		while (body_move(&b, &from, &to, 4096, &count) > 0)
			;
		(void)buf_add(&from, in + cut, len - cut);
		while (body_move(&b, &from, &to, 4096, &count) > 0)
			;
		assert_true(b.done);
		assert_int_equal(http_chunk_step(&reader, to.data, to.len, &plain, 4096), to.len);
		assert_true(reader.done);
		assert_string_equal(buf_str(&plain), "ab " V " c");
		body_done(&b);
	}
}

static void note(void *arg, const char *name)
{
	(void)buf_printf(arg, "%s ", name);
}

static void test_hosts(void **state)
{
	auto_secrets s = secrets_new();
	auto_strv one = {0}, two = {0};
	struct swaps w;
	auto_buf names = BUF_INIT(100);

	(void)state;
	strv_add(&one, "One.Test.");
	strv_add(&two, "two.test");
	assert_int_equal(secrets_add(s, "A", "value-of-a-1", 12, &one, NULL), 0);
	assert_int_equal(secrets_add(s, "B", "value-of-b-2", 12, &two, NULL), 0);
	swaps_for(s, "one.test", &w);
	assert_int_equal(w.n, 1);
	assert_string_equal(w.out[0].to, "value-of-a-1");
	assert_int_equal(w.n_foreign, 1);
	const char *b = secrets_placeholder_of(s, "B");
	swaps_find_foreign(&w, b, strlen(b), note, &names);
	swaps_find_foreign(&w, secrets_placeholder_of(s, "A"), 12, note, &names);
	assert_string_equal(buf_str(&names), "B ");
	swaps_done(&w);
	swaps_for(s, "sub.one.test", &w);
	assert_int_equal(w.n, 0);
	swaps_done(&w);
}

/* Whatever a host makes of the value, what comes in has the placeholder in the same form, and its length. */
static void test_forms(void **state)
{
	static const char value[] = "a+b/c=d e&f\"Zq7Lm2Xw9Rt";
	static const struct {
		const char *before, *with, *after; /* with: the part that must go */
	} rows[] = {
		{"raw ", "a+b/c=d e&f\"Zq7Lm2Xw9Rt", " end"},
		{"?k=", "a%2Bb/c%3Dd%20e%26f%22Zq7Lm2Xw9Rt", "&x"},
		{"?k=", "a%2Bb%2Fc%3Dd%20e%26f%22Zq7Lm2Xw9Rt", "&x"},
		{"?k=", "a%2bb%2fc%3dd%20e%26f%22Zq7Lm2Xw9Rt", "&x"},
		{"\"", "a+b/c=d e&f\\\"Zq7Lm2Xw9Rt", "\""},
		{"\"", "a+b\\/c=d e&f\\\"Zq7Lm2Xw9Rt", "\""},
		/* Behind nothing, x, xy: base64 of it begins at each of three places. */
		{"Basic ", "YStiL2M9ZCBlJmYiWnE3TG0yWHc5Un", "Q="},
		{"Basic eG", "ErYi9jPWQgZSZmIlpxN0xtMlh3OVJ0", ""},
		{"Basic eHl", "hK2IvYz1kIGUmZiJacTdMbTJYdzlSd", "A=="},
	};
	auto_secrets s = secrets_new();
	auto_strv hosts = {0};
	struct swaps w;

	(void)state;
	strv_add(&hosts, "one.test");
	assert_int_equal(secrets_add(s, "A", value, strlen(value), &hosts, NULL), 0);
	swaps_for(s, "one.test", &w);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_buf in = BUF_INIT(200);
		auto_buf out = BUF_INIT(200);
		struct swap_stream *stream = swap_stream_new(w.in, w.n_in);
		(void)buf_printf(&in, "%s%s%s", rows[i].before, rows[i].with, rows[i].after);
		for (size_t k = 0; k < in.len; k++)
			assert_int_equal(swap_stream_feed(stream, in.data + k, 1, &out), 0);
		assert_int_equal(swap_stream_end(stream, &out), 0);
		swap_stream_free(stream);
		assert_int_equal(out.len, in.len);
		assert_null(strstr(buf_str(&out), rows[i].with));
		assert_memory_equal(buf_str(&out), rows[i].before, strlen(rows[i].before));
		assert_string_equal(buf_str(&out) + out.len - strlen(rows[i].after), rows[i].after);
		assert_int_equal(swap_text(w.in, w.n_in, in.data, in.len), 1);
		assert_string_equal(buf_str(&in), buf_str(&out));
	}
	swaps_done(&w);
	/* What is forgotten is so in each form. */
	secrets_forget(s);
	swaps_for(s, "two.test", &w);
	assert_int_equal(w.n_in, 0);
	swaps_done(&w);
}

static void test_text_types(void **state)
{
	static const struct {
		const char *type;
		bool text;
	} rows[] = {
		{"text/plain", true},
		{"text/event-stream; charset=utf-8", true},
		{"application/json", true},
		{"Application/JSON;x=y", true},
		{"application/problem+json", true},
		{"image/svg+xml", true},
		{"application/octet-stream", false},
		{"multipart/byteranges; boundary=x", true},
		{"Message/http", true},
		{"application/json-seq", true},
		{"image/png", false},
		{"application/grpc", false},
		{"", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(swap_is_text((struct http_text){rows[i].type, strlen(rows[i].type)}), rows[i].text);
	assert_true(swap_is_text((struct http_text){0}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_placeholders),
		cmocka_unit_test(test_values_that_cannot_be),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_streams_at_every_cut),
		cmocka_unit_test(test_streams_hold_nothing_else),
		cmocka_unit_test(test_streams_hold_by_shape),
		cmocka_unit_test(test_chunked_bodies),
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_text_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
