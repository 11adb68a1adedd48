/* The tmpfs of HOME against tests/data/sandbox/home-tmpfs.json, and what that table leaves open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/home.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static void check_case(const json_t *c)
{
	const json_t *binds = json_object_get(c, "binds"), *want = json_object_get(c, "tmpfs"), *item;
	const char *error = json_get_str(c, "error");
	auto_strv in = {0};
	auto_strv out = {0};
	struct err e = ERR_INIT;
	size_t i;

	json_array_foreach(binds, i, item) strv_add(&in, json_string_value(item));
	int r = sandbox_home_tmpfs(json_get_str(c, "home"), (const char *const *)in.v, in.n, &out, &e);
	if (error) {
		assert_int_equal(r, -EINVAL);
		assert_string_equal(e.msg, error);
		assert_true(e.hint[0]);
		return;
	}
	assert_int_equal(r, 0);
	assert_int_equal(out.n, json_array_size(want));
	json_array_foreach(want, i, item) assert_string_equal(out.v[i], json_string_value(item));
}

static void test_table(void **state)
{
	auto_free char *text = NULL;
	size_t len, i;
	const json_t *c;

	(void)state;
	assert_int_equal(file_read(AT_FDCWD, TEST_DATA "/sandbox/home-tmpfs.json", 1 << 20, &text, &len, NULL), 0);
	auto_json all = json_parse(text, len, NULL);
	assert_non_null(all);
	assert_int_equal(json_array_size(all), 10);
	json_array_foreach(all, i, c) check_case(c);
}

static void test_more(void **state)
{
	static const struct {
		const char *home;
		const char *binds[4];
		const char *tmpfs[4];
	} rows[] = {
		/* a bind at HOME or above it shows what is there */
		{"/home/u", {"/home/u"}, {NULL}},
		{"/home/u", {"/home"}, {NULL}},
		{"/home/u", {"/home", "/home/u/.cache/x"}, {NULL}},
		/* the order of the binds does not matter */
		{"/home/u", {"/home/u/a/b/c", "/home/u/a"}, {"/home/u"}},
		{"/home/u", {"/home/u/a", "/home/u/a/b/c"}, {"/home/u"}},
		{"/home/u", {"/home/u/a/b", "/home/u/a/b"}, {"/home/u", "/home/u/a"}},
		/* a prefix of the text is not a folder above */
		{"/home/u", {"/home/u/work", "/home/u/work2/x/y"}, {"/home/u", "/home/u/work2", "/home/u/work2/x"}},
		{"/home/u", {"relative/path", "/home/u/../u/x/y"}, {"/home/u", "/home/u/x"}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_strv out = {0};
		size_t n = 0, want = 0;
		while (n < 4 && rows[i].binds[n])
			n++;
		while (want < 4 && rows[i].tmpfs[want])
			want++;
		assert_int_equal(sandbox_home_tmpfs(rows[i].home, rows[i].binds, n, &out, NULL), 0);
		assert_int_equal(out.n, want);
		for (size_t k = 0; k < want; k++)
			assert_string_equal(out.v[k], rows[i].tmpfs[k]);
	}
}

static void test_bad_home(void **state)
{
	auto_strv out = {0};
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(sandbox_home_tmpfs("home/u", NULL, 0, &out, &e), -EINVAL);
	assert_true(e.hint[0]);
	assert_int_equal(sandbox_home_tmpfs("/home/..", NULL, 0, &out, &e), -EINVAL);
	assert_int_equal(out.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_more),
		cmocka_unit_test(test_bad_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
