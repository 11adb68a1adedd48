/* Which stores in workspaces are the user's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tmp.h"
#include <base/cleanup.h>
#include <store/locate.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void make(const char *top, const char *path)
{
	auto_free char *full = xasprintf("%s/%s", top, path);

	assert_int_equal(dir_make(AT_FDCWD, full, 0700, NULL), 0);
}

static unsigned mode_of(const char *top, const char *path)
{
	auto_free char *full = xasprintf("%s/%s", top, path);
	struct stat st = {0};

	assert_int_equal(lstat(full, &st), 0);
	return st.st_mode & 0777;
}

static void test_marks(void **state)
{
	(void)state;
	char *top = tmp_dir();
	auto_free char *home = xasprintf("%s/home", top), *other = xasprintf("%s/other", top);
	auto_free char *a = xasprintf("%s/a/.iterion", top), *b = xasprintf("%s/b/.iterion", top);

	make(top, "a/.iterion/runs/r1");
	make(top, "b/.iterion/runs");
	assert_false(store_is_known(a, home));
	assert_int_equal(store_keep_known(a, home, NULL), 0);
	assert_true(store_is_known(a, home));
	assert_int_equal(mode_of(top, "home/runs/.key"), 0600);
	assert_int_equal(mode_of(top, "a/.iterion/runs/.mark"), 0600);
	/* Neither for somebody else nor for another folder, not even with the same mark. */
	assert_false(store_is_known(a, other));
	assert_false(store_is_known(b, home));
	auto_free char *copy = xasprintf("cp %s/runs/.mark %s/runs/", a, b);
	assert_int_equal(system(copy), 0);
	assert_false(store_is_known(b, home));
	/* Again, and with the same key for a second one. */
	assert_int_equal(store_keep_known(a, home, NULL), 0);
	assert_int_equal(store_keep_known(b, home, NULL), 0);
	assert_true(store_is_known(a, home) && store_is_known(b, home));
	/* Moved away it is another folder. */
	auto_free char *moved = xasprintf("%s/moved", top);
	assert_int_equal(rename(a, moved), 0);
	assert_false(store_is_known(moved, home) || store_is_known(a, home));
	tmp_remove(top);
}

static void test_a_damaged_key(void **state)
{
	(void)state;
	char *top = tmp_dir();
	auto_free char *home = xasprintf("%s/home", top), *a = xasprintf("%s/a", top);
	auto_free char *key = xasprintf("%s/home/runs/.key", top);

	make(top, "a/runs");
	assert_int_equal(store_keep_known(a, home, NULL), 0);
	assert_int_equal(truncate(key, 0), 0);
	assert_false(store_is_known(a, home));
	assert_int_equal(store_keep_known(a, home, NULL), 0);
	assert_true(store_is_known(a, home));
	tmp_remove(top);
}

/* Many first runs at once, each with a store of its own. */
static void test_one_key(void **state)
{
	(void)state;
	enum { N = 8, ROUNDS = 10 };

	for (int round = 0; round < ROUNDS; round++) {
		char *top = tmp_dir();
		auto_free char *home = xasprintf("%s/home", top);
		int go[2], status;
		assert_int_equal(pipe2(go, O_CLOEXEC), 0);
		for (int i = 0; i < N; i++) {
			auto_free char *name = xasprintf("%d/runs", i), *store = xasprintf("%s/%d", top, i);
			make(top, name);
			if (fork() != 0)
				continue;
			char c;
			close(go[1]);
			(void)!read(go[0], &c, 1);
			_exit(store_keep_known(store, home, NULL) < 0);
		}
		close(go[0]);
		close(go[1]);
		for (int i = 0; i < N; i++)
			assert_true(wait(&status) > 0 && status == 0);
		for (int i = 0; i < N; i++) {
			auto_free char *store = xasprintf("%s/%d", top, i);
			assert_true(store_is_known(store, home));
		}
		tmp_remove(top);
	}
}

static void test_has_runs(void **state)
{
	(void)state;
	static const struct {
		const char *made;
		bool has;
	} cases[] = {{"none", false}, {"empty/runs", false}, {"odd/runs/.mark", false}, {"one/runs/0190", true}};
	char *top = tmp_dir();

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		make(top, cases[i].made);
		auto_free char *store = xasprintf("%s/%.*s", top, (int)strcspn(cases[i].made, "/"), cases[i].made);
		assert_int_equal(store_has_runs(store), cases[i].has);
	}
	/* What a link leads to is not looked at. */
	make(top, "link");
	auto_free char *link = xasprintf("%s/link/runs", top), *store = xasprintf("%s/link", top);
	assert_int_equal(symlink(top, link), 0);
	assert_true(store_has_runs(store));
	tmp_remove(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_a_damaged_key),
		cmocka_unit_test(test_one_key),
		cmocka_unit_test(test_has_runs),
	};

	return cmocka_run_group_tests_name("store known", tests, NULL, NULL);
}
