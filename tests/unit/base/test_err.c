/* Errors by value. */
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "test.h"

static void test_set(void **state)
{
	(void)state;
	struct err e = ERR_INIT;

	assert_int_equal(err_set(&e, ERR_INPUT, ENOENT, "reading %s", "x"), -ENOENT);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(e.errnum, ENOENT);
	assert_string_equal(e.msg, "reading x");
	assert_int_equal(err_set(&e, ERR_USAGE, 0, "plain"), -EINVAL);
	assert_int_equal(err_set(NULL, ERR_USAGE, EPERM, "nobody listens"), -EPERM);
}

static void test_sys(void **state)
{
	(void)state;
	struct err e = ERR_INIT;

	assert_int_equal(err_sys(&e, EACCES, "open %s", "/x"), -EACCES);
	assert_string_equal(e.msg, "open /x: Permission denied");
	assert_int_equal(e.kind, ERR_SYSTEM);
	assert_int_equal(err_sys(NULL, EACCES, "open"), -EACCES);
}

static void test_wrap_and_hint(void **state)
{
	(void)state;
	struct err e = ERR_INIT;
	int r = err_sys(&e, ENOENT, "open %s", "p");

	err_hint(&e, "create %s", "it");
	err_hint(&e, "a later hint does not replace the first");
	assert_int_equal(err_wrap(&e, r, "loading policy %d", 7), -ENOENT);
	assert_string_equal(e.msg, "loading policy 7: open p: No such file or directory");
	assert_string_equal(e.hint, "create it");
	assert_int_equal(err_set(&e, ERR_NODE, 0, "new"), -EINVAL);
	assert_string_equal(e.hint, "");
	assert_int_equal(err_wrap(NULL, -5, "x"), -5);
	err_hint(NULL, "x");
	err_set_kind(NULL, ERR_NODE);
	err_copy(NULL, &e);
}

static void test_long_texts_are_cut(void **state)
{
	(void)state;
	struct err e = ERR_INIT;
	char text[4096];

	memset(text, 'a', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	(void)err_set(&e, ERR_INPUT, EIO, "%s", text);
	assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
	(void)err_wrap(&e, -EIO, "%s", "front");
	assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
	assert_memory_equal(e.msg, "front: aaa", 10);
	(void)err_sys(&e, EIO, "%s", text);
	assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
	err_hint(&e, "%s", text);
	assert_int_equal(strlen(e.hint), sizeof e.hint - 1);
	/* A child sends its error in one write that is never split. */
	assert_true(sizeof e <= PIPE_BUF);
}

static void test_kinds(void **state)
{
	(void)state;
	static const struct {
		enum err_kind kind;
		const char *name;
		int code;
	} rows[] = {
		{ERR_NONE, "no error", 0},     {ERR_USAGE, "usage", 2},		  {ERR_PREFLIGHT, "preflight", 2},
		{ERR_PAUSED, "paused", 3},     {ERR_CANCELLED, "cancelled", 130}, {ERR_TERMINATED, "terminated", 143},
		{ERR_INTERNAL, "internal", 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_string_equal(err_kind_name(rows[i].kind), rows[i].name);
		assert_int_equal(err_exit_code(rows[i].kind), rows[i].code);
	}
	assert_string_equal(err_kind_name((enum err_kind)1000), "unknown");
	assert_int_equal(err_exit_code((enum err_kind)1000), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),	      cmocka_unit_test(test_sys),
		cmocka_unit_test(test_wrap_and_hint), cmocka_unit_test(test_long_texts_are_cut),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
