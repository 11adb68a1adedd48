/* The growing buffer and its limit. */
#include <base/buf.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>

#include "test.h"

static void test_add(void **state)
{
	(void)state;
	auto_buf b = BUF_INIT(100);

	assert_string_equal(buf_str(&b), "");
	assert_int_equal(buf_puts(&b, "ab"), 0);
	assert_int_equal(buf_putc(&b, 'c'), 0);
	assert_int_equal(buf_printf(&b, "-%d-%s", 5, "x"), 0);
	assert_int_equal(buf_add(&b, NULL, 0), 0);
	assert_string_equal(buf_str(&b), "abc-5-x");
	assert_int_equal(b.len, 7);
	buf_consume(&b, 3);
	assert_string_equal(buf_str(&b), "-5-x");
	buf_consume(&b, 99);
	assert_int_equal(b.len, 0);
	assert_string_equal(buf_str(&b), "");
	buf_consume(&b, 1);
	assert_int_equal(buf_printf(&b, "%s", ""), 0);
}

static void test_limit(void **state)
{
	(void)state;

	/* The limit is exact for every size, and what is refused leaves no part of it behind. */
	for (size_t max = 0; max < 300; max++) {
		auto_buf b = BUF_INIT(max);
		for (size_t i = 0; i < max; i++)
			assert_int_equal(buf_putc(&b, 'x'), 0);
		assert_int_equal(buf_putc(&b, 'y'), -ENOBUFS);
		assert_int_equal(buf_printf(&b, "%d", 1), -ENOBUFS);
		assert_int_equal(buf_add(&b, "zz", 2), -ENOBUFS);
		assert_int_equal(b.len, max);
		assert_int_equal(strlen(buf_str(&b)), max);
		assert_true(b.cap <= max + 1);
	}
}

static void test_huge_requests(void **state)
{
	(void)state;
	auto_buf small = BUF_INIT(10), unlimited = BUF_INIT(SIZE_MAX);

	assert_int_equal(buf_puts(&small, "abc"), 0);
	assert_int_equal(buf_reserve(&small, SIZE_MAX), -ENOBUFS);
	assert_int_equal(buf_reserve(&small, SIZE_MAX - 2), -ENOBUFS);
	/* One byte more than can be counted, with the NUL: no room was made, so it must not say so. */
	assert_int_equal(buf_reserve(&unlimited, SIZE_MAX), -ENOBUFS);
}

static void test_steal_and_clear(void **state)
{
	(void)state;
	auto_buf b = BUF_INIT(100);
	char *s = buf_steal(&b);

	assert_string_equal(s, "");
	free(s);
	assert_int_equal(buf_puts(&b, "hello"), 0);
	buf_clear(&b);
	assert_string_equal(buf_str(&b), "");
	assert_int_equal(buf_puts(&b, "again"), 0);
	s = buf_steal(&b);
	assert_string_equal(s, "again");
	free(s);
	assert_int_equal(b.len, 0);
	assert_int_equal(buf_puts(&b, "third"), 0);
	assert_string_equal(buf_str(&b), "third");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_huge_requests),
		cmocka_unit_test(test_steal_and_clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
