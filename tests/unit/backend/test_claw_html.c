/* Pages as text; every page is also cut at every byte, right before memory that cannot be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "claw/html.h"
#include <base/cleanup.h>
#include <base/mem.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static const char *const rows[][2] = {
	{"plain words", "plain words"},
	{"  a \n\t b  ", "a b"},
	{"<p>one</p><p>two</p>", "one\n\ntwo\n\n"},
	{"<h2>Head</h2>text", "## Head\n\ntext"},
	{"<ul><li>a</li><li>b</li></ul>", "- a\n- b\n\n"},
	{"a<br>b<br/>c", "a\nb\nc"},
	{"x <script>var a = '<p>no</p>';</script>y", "x y"},
	{"<head><title>T</title></head><body>b</body>", "b"},
	{"<style>p{}</style >z", "z"},
	{"<!-- <p>gone</p> -->there", "there"},
	{"<a href=\"https://e.org/x\">link</a>.", "link (https://e.org/x)."},
	{"<a class=c href='/y'>l</a>", "l (/y)"},
	{"<a href=/z>l</a>", "l (/z)"},
	{"<a href=\"#top\">up</a> <a href=\"javascript:no()\">js</a>", "up js"},
	{"<img alt=\"a > b\">after", "after"},
	{"&lt;b&gt; &amp; &quot;q&quot; &nbsp;&#65;&#x42;", "<b> & \"q\" AB"},
	{"AT&T &unknown; &#xd800; &;", "AT&T &unknown; \xef\xbf\xbd &;"},
	{"1 < 2 <3", "1 < 2 <3"},
	{"<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc\n\n"},
	{"<script>never closed", ""},
	{"<p", ""},
	{"", ""},
};

static void test_pages(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_buf to = BUF_INIT(10000);
		assert_int_equal(html_to_text(&to, rows[i][0], strlen(rows[i][0])), 0);
		if (strcmp(buf_str(&to), rows[i][1]) != 0)
			fail_msg("row %zu: \"%s\"", i, buf_str(&to));
	}
}

static void test_cut_anywhere(void **state)
{
	const size_t page = 4096;
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t len = 0; len <= strlen(rows[i][0]); len++) {
			auto_buf to = BUF_INIT(10000);
			char *at = memory + page - len;
			memcpy(at, rows[i][0], len);
			assert_int_equal(html_to_text(&to, at, len), 0);
		}
	}
	assert_int_equal(munmap(memory, 2 * page), 0);
}

static void test_bounds(void **state)
{
	auto_buf to = BUF_INIT(8);

	(void)state;
	assert_int_equal(html_to_text(&to, "<p>words and more words</p>", 27), -ENOBUFS);
	assert_true(to.len <= 8);
	auto_buf other = BUF_INIT(100);
	assert_int_equal(html_to_text(&other, "a\0b\0", 4), 0);
	assert_string_equal(buf_str(&other), "ab");
}

static void test_what_is_html(void **state)
{
	(void)state;
	assert_true(html_is("text/html; charset=utf-8", "", 0));
	assert_true(html_is("application/xhtml+xml", "", 0));
	assert_false(html_is("application/json", "<html>", 6));
	assert_true(html_is(NULL, "\n<!DOCTYPE html>", 16));
	assert_true(html_is(NULL, "<html>", 6));
	assert_false(html_is(NULL, "words", 5));
	assert_false(html_is(NULL, "", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_what_is_html),
	};

	return cmocka_run_group_tests_name("claw html", tests, NULL, NULL);
}
