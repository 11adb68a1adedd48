/* Records, whole, cut at every byte, and with lengths that lie; right before an unreadable page. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>
#include <base/pack.h>

#include <errno.h>
#include <stdlib.h>

#include "test.h"

static const char *const strings[] = {"one", "", "three"};

static void pack_record(struct buf *b)
{
	assert_int_equal(pack_u32(b, 0xfffffffe), 0);
	assert_int_equal(pack_u64(b, UINT64_MAX - 1), 0);
	assert_int_equal(pack_bytes(b, "a\0b", 3), 0);
	assert_int_equal(pack_str(b, "text"), 0);
	assert_int_equal(pack_strv(b, strings, ARRAY_LEN(strings)), 0);
	assert_int_equal(pack_strv(b, NULL, 0), 0);
}

/* Reads the whole record; whether it was good. */
static bool unpack_record(struct unpack *u)
{
	size_t len, n = 0, none = 7;
	uint32_t a = unpack_u32(u);
	uint64_t b = unpack_u64(u);
	const char *bytes = unpack_bytes(u, &len);
	auto_free char *text = unpack_str(u);
	char **list = unpack_strv(u, 10, &n);
	char **empty = unpack_strv(u, 10, &none);
	bool good = unpack_end(u);

	if (good) {
		assert_int_equal(a, 0xfffffffe);
		assert_true(b == UINT64_MAX - 1);
		assert_int_equal(len, 3);
		assert_memory_equal(bytes, "a\0b", 3);
		assert_string_equal(text, "text");
		assert_int_equal(n, ARRAY_LEN(strings));
		for (size_t i = 0; i < n; i++)
			assert_string_equal(list[i], strings[i]);
		assert_null(list[n]);
		assert_int_equal(none, 0);
		assert_null(empty[0]);
	}
	unpack_strv_free(list);
	unpack_strv_free(empty);
	return good;
}

static void test_whole_and_cut(void **state)
{
	(void)state;
	auto_buf b = BUF_INIT(4096);

	pack_record(&b);
	for (size_t len = 0; len <= b.len; len++) {
		char *p = guarded_copy(b.data, len);
		struct unpack u = {.p = p, .left = len};
		assert_int_equal(unpack_record(&u), len == b.len);
		guarded_free(p, len);
	}
	assert_int_equal(buf_putc(&b, 'x'), 0);
	struct unpack longer = {.p = b.data, .left = b.len};
	assert_false(unpack_record(&longer));
}

/* Every byte of a record replaced by values that make lengths and counts lie. */
static void test_changed_bytes(void **state)
{
	(void)state;
	static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	auto_buf b = BUF_INIT(4096);

	pack_record(&b);
	for (size_t i = 0; i < b.len; i++) {
		for (size_t k = 0; k < ARRAY_LEN(values); k++) {
			char *p = guarded_copy(b.data, b.len);
			size_t n;
			p[i] = (char)values[k];
			struct unpack u = {.p = p, .left = b.len};
			(void)unpack_u32(&u);
			(void)unpack_u64(&u);
			(void)unpack_bytes(&u, &n);
			free(unpack_str(&u));
			unpack_strv_free(unpack_strv(&u, 10, &n));
			unpack_strv_free(unpack_strv(&u, 10, &n));
			assert_true(u.p + u.left <= p + b.len);
			guarded_free(p, b.len);
		}
	}
}

static void test_lies(void **state)
{
	(void)state;
	auto_buf b = BUF_INIT(4096);
	size_t n = 77;

	/* A count that would size an array of gigabytes. */
	assert_int_equal(pack_u32(&b, UINT32_MAX), 0);
	struct unpack huge = {.p = b.data, .left = b.len};
	assert_null(unpack_strv(&huge, SIZE_MAX, &n));
	assert_true(huge.bad && n == 77);

	buf_clear(&b);
	assert_int_equal(pack_strv(&b, strings, ARRAY_LEN(strings)), 0);
	struct unpack many = {.p = b.data, .left = b.len};
	assert_null(unpack_strv(&many, ARRAY_LEN(strings) - 1, NULL));

	buf_clear(&b);
	assert_int_equal(pack_bytes(&b, "a\0b", 3), 0);
	struct unpack nul = {.p = b.data, .left = b.len};
	assert_null(unpack_str(&nul));
	assert_true(nul.bad);
	/* Bad sticks: what follows yields nothing. */
	assert_int_equal(unpack_u32(&nul), 0);
	assert_null(unpack_bytes(&nul, &n));
	assert_int_equal(n, 0);
	assert_false(unpack_end(&nul));

	struct unpack nothing = {0};
	assert_int_equal(unpack_u64(&nothing), 0);
	assert_true(nothing.bad);
}

static void test_full_buffer(void **state)
{
	(void)state;
	auto_buf b = BUF_INIT(6);

	assert_int_equal(pack_u64(&b, 1), -ENOBUFS);
	assert_int_equal(pack_u32(&b, 1), 0);
	assert_int_equal(pack_str(&b, "abc"), -ENOBUFS);
	assert_int_equal(pack_strv(&b, strings, ARRAY_LEN(strings)), -ENOBUFS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_and_cut),
		cmocka_unit_test(test_changed_bytes),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_full_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
