/* Strings, lists, UTF-8, durations, quoting (through a real shell). */
#include <base/buf.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "test.h"

static void test_compare(void **state)
{
	(void)state;
	assert_true(str_eq("a", "a") && str_eq(NULL, NULL));
	assert_false(str_eq("a", "b") || str_eq("a", NULL) || str_eq(NULL, "a"));
	assert_true(str_starts("abc", "ab") && str_starts("abc", "") && !str_starts("ab", "abc"));
	assert_true(str_ends("abc", "bc") && str_ends("abc", "") && !str_ends("bc", "abc"));
}

static void test_lists(void **state)
{
	(void)state;
	auto_strv l = {0};

	for (int i = 0; i < 100; i++)
		strv_take(&l, xasprintf("%d", i));
	assert_int_equal(l.n, 100);
	assert_null(l.v[100]);
	assert_true(strv_has(&l, "99") && !strv_has(&l, "100"));
	strv_done(&l);
	assert_null(l.v);
	strv_set_env(&l, "A", "1");
	strv_set_env(&l, "AB", "2");
	strv_set_env(&l, "A", "3=4");
	assert_int_equal(l.n, 2);
	assert_string_equal(strv_get_env(&l, "A"), "3=4");
	assert_string_equal(strv_get_env(&l, "AB"), "2");
	assert_null(strv_get_env(&l, "B"));
}

static const struct {
	const char *text;
	size_t len;
	int valid;
	const char *clean;
} utf8_rows[] = {
	{"", 0, 1, ""},
	{"a\0b", 3, 1, "a"},
	{"\xc3\xa9", 2, 1, "\xc3\xa9"},
	{"\xe2\x82\xac", 3, 1, "\xe2\x82\xac"},
	{"\xf0\x9f\x98\x80", 4, 1, "\xf0\x9f\x98\x80"},
	{"\xf4\x8f\xbf\xbf", 4, 1, "\xf4\x8f\xbf\xbf"},
	{"\xc0\xaf", 2, 0, "\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
	{"\xc1\xbf", 2, 0, "\xef\xbf\xbd\xef\xbf\xbd"},
	{"\xe0\x9f\xbf", 3, 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},			/* overlong */
	{"\xed\xa0\x80", 3, 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},			/* surrogate */
	{"\xf4\x90\x80\x80", 4, 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* past U+10FFFF */
	{"\xf0\x8f\xbf\xbf", 4, 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	{"x\x80y", 3, 0, "x\xef\xbf\xbdy"},
	{"\xff", 1, 0, "\xef\xbf\xbd"},
	{"a\xc3", 2, 0, "a\xef\xbf\xbd"}, /* cut */
	{"\xe2\x82", 2, 0, "\xef\xbf\xbd\xef\xbf\xbd"},
};

static void test_utf8(void **state)
{
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(utf8_rows); i++) {
		char *s = guarded_copy(utf8_rows[i].text, utf8_rows[i].len);
		auto_buf b = BUF_INIT(1000);
		assert_int_equal(utf8_valid(s, utf8_rows[i].len), utf8_rows[i].valid);
		assert_int_equal(utf8_sanitize(&b, s, utf8_rows[i].len), 0);
		assert_string_equal(buf_str(&b), utf8_rows[i].clean);
		assert_true(utf8_valid(buf_str(&b), b.len));
		guarded_free(s, utf8_rows[i].len);
	}
}

static void test_neutralise(void **state)
{
	(void)state;
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"plain\ttext\n", "plain\ttext\n"},
		{"\x1b[31mred", "\\x1b[31mred"},
		{"a\rb\bc\x7f", "a\\x0db\\x08c\\x7f"},
		{"\xc2\x9b"
		 "31m",
		 "\\x9b31m"}, /* CSI as one C1 character */
		{"\xc2\xa0", "\xc2\xa0"},
		{"\xff\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"},
		{"a\u202eb\u2066c\u2069\u2028", "a\\u202eb\\u2066c\\u2069\\u2028"},
		{"\u2027\u202f\u2065\u206a\u200f", "\u2027\u202f\u2065\u206a\u200f"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_buf b = BUF_INIT(1000);
		assert_int_equal(text_neutralise(&b, rows[i].text, strlen(rows[i].text)), 0);
		assert_string_equal(buf_str(&b), rows[i].want);
	}
	auto_buf small = BUF_INIT(3);
	assert_int_equal(text_neutralise(&small, "\x1b", 1), -ENOBUFS);
}

static void test_nearest(void **state)
{
	(void)state;
	static const char *const words[] = {"allowlist", "denylist", "open", "preset", "rules", ""};
	static const struct {
		const char *word, *want;
	} rows[] = {
		{"alowlist", "allowlist"}, {"denylits", "denylist"}, {"opne", "open"},
		{"Preset", "preset"},	   {"zzzzzzzz", NULL},	     {"", NULL},
		{"rule", "rules"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *got = str_nearest(rows[i].word, words, ARRAY_LEN(words));
		if (rows[i].want)
			assert_string_equal(got ? got : "(none)", rows[i].want);
		else
			assert_null(got);
	}
	char lengthy[1000];
	memset(lengthy, 'a', sizeof lengthy - 1);
	lengthy[sizeof lengthy - 1] = '\0';
	assert_null(str_nearest(lengthy, words, ARRAY_LEN(words)));
	const char *const lengthy_words[] = {lengthy};
	assert_null(str_nearest("aaaa", lengthy_words, 1));
	static const char *const letters[] = {"n", "ok"};
	assert_null(str_nearest("x", letters, ARRAY_LEN(letters)));
	assert_string_equal(str_nearest("o", letters, ARRAY_LEN(letters)), "ok");
}

static void test_durations(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int r;
		unsigned long long ms;
	} rows[] = {
		{"0", 0, 0},
		{"30m", 0, 1800000},
		{"1h30m", 0, 5400000},
		{"500ms", 0, 500},
		{"1.5s", 0, 1500},
		{"1500us", 0, 2},
		{"1m30.5s", 0, 90500},
		{".5s", 0, 500},
		{"1.s", 0, 1000},
		{"2000000ns", 0, 2},
		{"1000\xc2\xb5s", 0, 1},
		{"1000\xce\xbcs", 0, 1},
		{"", -EINVAL, 0},
		{"5", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{".s", -EINVAL, 0},
		{"-1s", -EINVAL, 0},
		{"+1s", -EINVAL, 0},
		{"1 s", -EINVAL, 0},
		{"1s ", -EINVAL, 0},
		{"1d", -EINVAL, 0},
		{"1s2", -EINVAL, 0},
		{"1e3s", -EINVAL, 0},
		{"infs", -EINVAL, 0},
		{"1..5s", -EINVAL, 0},
		{"99999999999999999999h", -ERANGE, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned long long ms = 77;
		int r = str_parse_duration(rows[i].text, &ms);
		if (r != rows[i].r || ms != (r ? 77 : rows[i].ms))
			print_error("%s: %d, %llu\n", rows[i].text, r, ms);
		assert_int_equal(r, rows[i].r);
		assert_int_equal(ms, r ? 77 : rows[i].ms);
	}
}

static void test_numbers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned long long min, max;
		int r;
		unsigned long long want;
	} rows[] = {
		{"0", 0, 9, 0, 0},
		{"65535", 1, 65535, 0, 65535},
		{"65536", 1, 65535, -ERANGE, 0},
		{"0", 1, 65535, -ERANGE, 0},
		{"18446744073709551615", 0, ULLONG_MAX, 0, ULLONG_MAX},
		{"18446744073709551616", 0, ULLONG_MAX, -ERANGE, 0},
		{"99999999999999999999999999", 0, ULLONG_MAX, -ERANGE, 0},
		{"", 0, 9, -EINVAL, 0},
		{"+1", 0, 9, -EINVAL, 0},
		{"-1", 0, 9, -EINVAL, 0},
		{" 1", 0, 9, -EINVAL, 0},
		{"1x", 0, 9, -EINVAL, 0},
		{"0x1", 0, 9, -EINVAL, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned long long v = 77;
		assert_int_equal(str_parse_uint(rows[i].text, rows[i].min, rows[i].max, &v), rows[i].r);
		assert_int_equal(v, rows[i].r ? 77 : rows[i].want);
	}
}

static void test_identifiers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int want;
	} rows[] = {{"a", 1}, {"_", 1}, {"A9_z", 1}, {"", 0}, {"9a", 0}, {"a-b", 0}, {"a b", 0}, {"\xc3\xa9", 0}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(str_is_identifier(rows[i].text), rows[i].want);
}

/* Every byte but NUL and the words that shells treat worst, through a real sh. */
static void test_has_control(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool want;
	} rows[] = {
		{"", false},	{"plain ~", false}, {"\xc3\xa9", false}, {"a\tb", true},
		{"\x01", true}, {"end\n", true},    {"\x7f", true},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(str_has_control(rows[i].text), rows[i].want);
}

static void test_quote(void **state)
{
	(void)state;
	char every[256];
	for (int i = 1; i < 256; i++)
		every[i - 1] = (char)i;
	every[255] = '\0';
	const char *words[] = {every, "", "'", "''", "a'b'c", "$(id)`id`$HOME", "\\", "\n", "-n", "*"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		auto_buf cmd = BUF_INIT(10000);
		assert_int_equal(buf_puts(&cmd, "printf %s "), 0);
		assert_int_equal(shell_quote(&cmd, words[i], strlen(words[i])), 0);
		assert_int_equal(buf_puts(&cmd, "; printf ."), 0);
		/* cppcheck-suppress popen: the shell is the judge of quoting */
		FILE *f = popen(buf_str(&cmd), "re");
		assert_non_null(f);
		char got[1000] = "";
		size_t n = fread(got, 1, sizeof got - 1, f);
		assert_int_equal(pclose(f), 0);
		assert_int_equal(n, strlen(words[i]) + 1);
		got[n - 1] = '\0';
		assert_string_equal(got, words[i]);
	}
	auto_buf small = BUF_INIT(3);
	assert_int_equal(shell_quote(&small, "ab", 2), -ENOBUFS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_has_control), cmocka_unit_test(test_compare),
		cmocka_unit_test(test_lists),	    cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_neutralise),  cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_durations),   cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_identifiers), cmocka_unit_test(test_quote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
