/* Paths as text. */
#include <base/cleanup.h>
#include <base/mem.h>
#include <base/path.h>

#include "test.h"

static void test_clean(void **state)
{
	(void)state;
	static const struct {
		const char *path, *want;
	} rows[] = {
		{"/", "/"},	      {"//", "/"},	   {"/a", "/a"},	 {"/a/", "/a"},
		{"/a//b", "/a/b"},    {"/./a/.", "/a"},	   {"/a/../b", "/b"},	 {"/..", "/"},
		{"/../../a", "/a"},   {"/a/b/../..", "/"}, {"/a/...", "/a/..."}, {"/a/..b", "/a/..b"},
		{"/.a/b.", "/.a/b."}, {"a", NULL},	   {"", NULL},		 {"./a", NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = path_clean(rows[i].path);
		if (rows[i].want)
			assert_string_equal(got, rows[i].want);
		else
			assert_null(got);
	}
}

static void test_join(void **state)
{
	(void)state;
	static const struct {
		const char *a, *b, *want;
	} rows[] = {{"/a", "b", "/a/b"}, {"/a/", "b", "/a/b"}, {"/", "b", "/b"}, {"/a", "/b", "/b"},
		    {"a", "b", "a/b"},	 {"", "b", "b"},       {"", "/b", "/b"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = path_join(rows[i].a, rows[i].b);
		assert_string_equal(got, rows[i].want);
	}
}

static void test_within(void **state)
{
	(void)state;
	static const struct {
		const char *path, *dir;
		int want;
	} rows[] = {{"/a", "/a", 1}, {"/a/b", "/a", 1}, {"/ab", "/a", 0}, {"/", "/a", 0},
		    {"/a", "/", 1},  {"/", "/", 1},	{"a", "/", 0},	  {"/a", "/a/b", 0}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(path_within(rows[i].path, rows[i].dir), rows[i].want);
}

static void test_parts(void **state)
{
	(void)state;
	static const struct {
		const char *path, *base, *parent;
	} rows[] = {{"/", "", "/"}, {"/a", "a", "/"}, {"/a/b", "b", "/a"}, {"/a/b/c", "c", "/a/b"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *parent = path_parent(rows[i].path);
		assert_string_equal(path_base(rows[i].path), rows[i].base);
		assert_string_equal(parent, rows[i].parent);
	}
	assert_string_equal(path_base("plain"), "plain");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_within),
		cmocka_unit_test(test_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
