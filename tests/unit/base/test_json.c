/* JSON helpers. */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>

#include <stdlib.h>

#include "test.h"

static void test_text(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t len;
		const char *want;
	} rows[] = {
		{"", 0, "\"\""},
		{"a\"\n", 3, "\"a\\\"\\n\""},
		{"a\0b", 3, "\"a\\u0000b\""},
		{"\xff", 1, "\"\xef\xbf\xbd\""},
		{"\xc3\xa9\xed\xa0\x80", 5, "\"\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_json j = json_text(rows[i].text, rows[i].len);
		auto_free char *got = json_compact(j);
		assert_string_equal(got, rows[i].want);
	}
}

static void test_put(void **state)
{
	(void)state;
	auto_json o = json_object();

	json_put_str(o, "s", "x\xff");
	json_put_str(o, "none", NULL);
	json_put_int(o, "i", -9007199254740993);
	json_put_bool(o, "b", true);
	json_put(o, "a", json_array());
	auto_free char *got = json_compact(o);
	assert_string_equal(got, "{\"s\":\"x\xef\xbf\xbd\",\"i\":-9007199254740993,\"b\":true,\"a\":[]}");
	assert_string_equal(json_get_str(o, "s"), "x\xef\xbf\xbd");
	assert_null(json_get_str(o, "i"));
	assert_null(json_get_str(o, "none"));
	assert_null(json_get_str(NULL, "s"));
}

static void test_parse(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t len;
		int good;
	} rows[] = {
		{"{\"a\":[1,2]}", 11, 1},
		{" [] ", 4, 1},
		{"", 0, 0},
		{"{", 1, 0},
		{"[1]x", 4, 0},
		{"{\"a\":1,\"a\":2}", 13, 0},
		{"[\"\\u0000\"]", 10, 1},
		{"[\"a\0\"]", 6, 0},
		{"[\"\xff\"]", 5, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = ERR_INIT;
		char *s = guarded_copy(rows[i].text, rows[i].len);
		auto_json j = json_parse(s, rows[i].len, &e);
		guarded_free(s, rows[i].len);
		if (!!j != rows[i].good)
			print_error("%s\n", rows[i].text);
		assert_int_equal(!!j, rows[i].good);
		assert_int_equal(e.kind, j ? ERR_NONE : ERR_INPUT);
		if (!j)
			assert_memory_equal(e.msg, "JSON, line ", 11);
	}
}

static void test_depth(void **state)
{
	(void)state;
	static char deep[1000000];

	memset(deep, '[', sizeof deep);
	assert_null(json_parse(deep, sizeof deep, NULL));
	assert_null(json_parse_value(deep, sizeof deep, NULL));
}

/* A program's output may be any bytes; the record that holds it must be readable. */
static void test_written_text_is_read(void **state)
{
	(void)state;
	auto_json o = json_object();

	json_put(o, "a\xc3\xa9", json_text("x\0y\xff\x01", 5));
	auto_free char *written = json_compact(o);
	auto_json again = json_parse(written, strlen(written), NULL);
	assert_true(json_equal(o, again));
	assert_null(json_parse_value(written, strlen(written), NULL));
}

/* A value at the limit stands within other documents that must still be read; brackets in strings are none. */
static void test_depth_of_a_value(void **state)
{
	(void)state;
	static char text[4 * JSON_VALUE_DEPTH];

	for (size_t depth = JSON_VALUE_DEPTH; depth <= JSON_VALUE_DEPTH + 1; depth++) {
		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		struct err e = ERR_INIT;
		auto_json j = json_parse_value(text, 2 * depth, &e);
		assert_int_equal(j != NULL, depth == JSON_VALUE_DEPTH);
		assert_int_equal(e.kind, j ? ERR_NONE : ERR_INPUT);
	}
	memset(text, '[', sizeof text);
	memcpy(text, "[\"\\\"", 4);
	memcpy(text + sizeof text - 2, "\"]", 2);
	auto_json j = json_parse_value(text, sizeof text, NULL);
	assert_non_null(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_put),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_depth_of_a_value),
		cmocka_unit_test(test_written_text_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
