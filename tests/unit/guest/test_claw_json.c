/* The runner's JSON: what is read, what is refused, what is written, and the envelopes made of it. */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/test.h"
#include "jout.h"
#include "wire.h"

#define D16 "[[[[[[[[[[[[[[[["
#define E16 "]]]]]]]]]]]]]]]]"
#define D128 D16 D16 D16 D16 D16 D16 D16 D16
#define E128 E16 E16 E16 E16 E16 E16 E16 E16

static const char *const good_rows[] = {
	"null",
	"true",
	" false ",
	"0",
	"-0",
	"-12.5e+3",
	"1E9",
	"\"\"",
	"\"a\\u00e9\\ud83d\\ude00\\/\\n\"",
	"[]",
	"[ ]",
	"{}",
	"[1,[2,{\"a\":[]}],\"x\"]",
	"{\"a\":1,\"b\":{\"c\":null}}",
	"\t[1 ,2]\r\n",
	D128 E128,
};

static const char *const bad_rows[] = {
	"",
	" ",
	"nul",
	"True",
	"01",
	"1.",
	".5",
	"1e",
	"+1",
	"-",
	"0x1",
	"\"",
	"\"a",
	"\"\\x\"",
	"\"\\u12g4\"",
	"\"\\u12\"",
	"\"\\ud800\"",
	"\"\\ud800\\u0041\"",
	"\"\\udc00\"",
	"\"a\nb\"",
	"\"\x01\"",
	"[",
	"[1",
	"[1,",
	"[1,]",
	"[,1]",
	"[1 2]",
	"{",
	"{\"a\"}",
	"{\"a\":}",
	"{\"a\":1,}",
	"{a:1}",
	"{\"a\" 1}",
	"{1:2}",
	"[1]]",
	"1 2",
	"{}x",
	"\"\xff\"",
	"\"\xed\xa0\x80\"",
	"\"\xc0\xaf\"",
	"'a'",
	"[1}",
	"{\"a\":1]",
	"//x\n1",
	"NaN",
	"[" D128 E128 "]",
	"\"\\",
};

static void test_accepts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good_rows); i++) {
		size_t len = strlen(good_rows[i]);
		char *text = guarded_copy(good_rows[i], len);
		struct err e = ERR_INIT;
		struct jdoc *d = jdoc_parse(text, len, &e);
		if (!d)
			fail_msg("%s: %s", good_rows[i], e.msg);
		jdoc_free(d);
		guarded_free(text, len);
	}
}

static void test_refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad_rows); i++) {
		size_t len = strlen(bad_rows[i]);
		char *text = guarded_copy(bad_rows[i], len);
		struct err e = ERR_INIT;
		struct jdoc *d = jdoc_parse(text, len, &e);
		if (d)
			fail_msg("row %zu was accepted: %s", i, bad_rows[i]);
		assert_int_equal(e.kind, ERR_PROTOCOL);
		guarded_free(text, len);
	}
	assert_null(jdoc_parse("[1\0]", 4, NULL));
	assert_null(jdoc_parse("1\0", 2, NULL));
}

static void test_every_prefix_is_refused(void **state)
{
	(void)state;
	static const char whole[] = "{\"a\":[1,-2.5e3,\"x\\u00e9\\ud83d\\ude00\",true,null],\"b\":{}}";

	for (size_t len = 0; len < sizeof whole - 1; len++) {
		char *text = guarded_copy(whole, len);
		struct jdoc *d = jdoc_parse(text, len, NULL);
		if (d)
			fail_msg("%zu bytes were accepted", len);
		guarded_free(text, len);
	}
}

static void test_count_is_bounded(void **state)
{
	(void)state;
	struct buf b = BUF_INIT(4 * JDOC_VALUES);

	assert_int_equal(buf_putc(&b, '['), 0);
	for (int i = 0; i < JDOC_VALUES; i++)
		assert_int_equal(buf_puts(&b, "1,"), 0);
	assert_int_equal(buf_puts(&b, "1]"), 0);
	struct err e = ERR_INIT;
	assert_null(jdoc_parse(b.data, b.len, &e));
	assert_non_null(strstr(e.msg, "more values"));
	buf_done(&b);
}

static void test_values(void **state)
{
	(void)state;
	static const char text[] =
		"{\"s\":\"a\\\"\\\\\\u0041\\ud83d\\ude00\",\"n\":\"x\\u0000y\",\"i\":1e3,\"f\":1.5,"
		"\"big\":1e30,\"t\":true,\"a\":[1,{\"k\":2},3],\"\\u0073x\":4,\"s\":\"second\",\"z\":null}";
	auto_jdoc d = jdoc_parse(text, sizeof text - 1, NULL);
	struct jv root = jdoc_root(d);
	long long i;
	double f;
	bool t = false;
	size_t len;

	assert_non_null(d);
	auto_free char *s = jv_cstr(jv_get(root, "s"));
	assert_string_equal(s, "a\"\\A\xf0\x9f\x98\x80");
	assert_null(jv_cstr(jv_get(root, "n")));
	auto_free char *n = jv_text(jv_get(root, "n"), &len);
	assert_int_equal(len, 3);
	assert_memory_equal(n, "x\0y", 3);
	assert_true(jv_int(jv_get(root, "i"), &i) && i == 1000);
	assert_false(jv_int(jv_get(root, "f"), &i) || jv_int(jv_get(root, "big"), &i) || jv_int(jv_get(root, "s"), &i));
	assert_true(jv_number(jv_get(root, "f"), &f) && f > 1.4 && f < 1.6);
	assert_true(jv_bool(jv_get(root, "t"), &t) && t);
	assert_false(jv_bool(jv_get(root, "i"), &t));
	assert_true(jv_int(jv_get(root, "sx"), &i) && i == 4);
	assert_int_equal(jv_type(jv_get(root, "z")), J_NULL);
	assert_int_equal(jv_type(jv_get(root, "none")), J_MISSING);
	assert_int_equal(jv_type(jv_get(jv_get(root, "none"), "x")), J_MISSING);
	assert_int_equal(jv_type(jv_get(jv_get(root, "a"), "x")), J_MISSING);

	struct jv a = jv_first(jv_get(root, "a")), b = jv_next(a), c = jv_next(b);
	const char *raw = jv_raw(b, &len);
	assert_int_equal(len, 7);
	assert_memory_equal(raw, "{\"k\":2}", 7);
	assert_true(jv_int(c, &i) && i == 3);
	assert_int_equal(jv_type(jv_next(c)), J_MISSING);
}

static void test_writes(void **state)
{
	(void)state;
	auto_buf b = BUF_INIT(1000);
	struct jout o = {.b = &b};
	auto_jdoc d = jdoc_parse("[1.10]", 6, NULL);

	jout_open(&o, '{');
	jout_put_str(&o, "a", "x\"\\\n\t\x01\x7f");
	jout_put_str(&o, "none", NULL);
	jout_put_int(&o, "i", -5);
	jout_put_bool(&o, "b", true);
	jout_put_value(&o, "v", jv_first(jdoc_root(d)));
	jout_key(&o, "l");
	jout_open(&o, '[');
	jout_text(&o, "\xff\0{", 3);
	jout_open(&o, '{');
	jout_close(&o, '}');
	jout_raw(&o, "[]", 2);
	jout_close(&o, ']');
	jout_close(&o, '}');
	assert_int_equal(jout_end(&o), 0);
	assert_string_equal(b.data, "{\"a\":\"x\\\"\\\\\\n\\t\\u0001\\u007f\",\"i\":-5,\"b\":true,\"v\":1.10,"
				    "\"l\":[\"\xef\xbf\xbd\\u0000{\",{},[]]}");
	auto_jdoc again = jdoc_parse(b.data, b.len, NULL);
	assert_non_null(again);
}

static void test_writing_is_bounded(void **state)
{
	(void)state;
	auto_buf b = BUF_INIT(10);
	struct jout o = {.b = &b};

	jout_str(&o, "0123456789");
	jout_close(&o, '}');
	assert_int_equal(jout_end(&o), -ENOBUFS);
	assert_true(b.len <= 10);
}

static const struct {
	const char *line;
	const char *says; /* NULL: good */
} envelope_rows[] = {
	{"{\"type\":\"task\"}", NULL},
	{"{\"type\":\"task\",\"id\":null,\"data\":null}", NULL},
	{"{\"type\":\"task\",\"id\":\"1\",\"data\":{},\"more\":1}", NULL},
	{"{\"id\":\"1\"}", "it has no type"},
	{"{\"type\":1}", "it has no type"},
	{"{\"type\":\"a\\u0000b\"}", "it has no type"},
	{"{\"type\":\"t\",\"id\":1}", "its id is no string"},
	{"{\"type\":\"t\",\"data\":[]}", "its data is no object"},
	{"[]", "it has no type"},
	{"{\"type\":", "it ends where a value is expected"},
	{"", "it ends where a value is expected"},
};

static void test_envelopes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(envelope_rows); i++) {
		const char *line = envelope_rows[i].line, *says = envelope_rows[i].says;
		struct envelope env;
		struct jdoc *doc;
		struct err e = ERR_INIT;
		int r = envelope_parse(line, strlen(line), &doc, &env, &e);
		if ((r == 0) != !says || (says && !strstr(e.msg, says)))
			fail_msg("%s: %d %s", line, r, e.msg);
		if (r < 0)
			continue;
		free(env.type);
		free(env.id);
		jdoc_free(doc);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepts),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_every_prefix_is_refused),
		cmocka_unit_test(test_count_is_bounded),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_writes),
		cmocka_unit_test(test_writing_is_bounded),
		cmocka_unit_test(test_envelopes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
