/* Where the store lies: a table for the pure part, real folders for the search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "tmp.h"
#include <errno.h>
#include <store/locate.h>

static bool any(void *arg, const char *store)
{
	(void)arg;
	(void)store;
	return true;
}

static void test_locate(void **state)
{
	(void)state;
	static const struct {
		struct store_where w;
		const char *want; /* NULL: an error */
	} cases[] = {
		{{.home = "/home/u"}, "/home/u/.iterion"},
		{{.home = "/home/u", .iterion_home = "/data/it"}, "/data/it"},
		{{.home = "/home/u", .iterion_home = ""}, "/home/u/.iterion"},
		{{.home = "/home/u", .iterion_home = "it", .cwd = "/w"}, "/w/it"},
		{{.home = "/home/u", .iterion_home = "/d", .workspace_store = "/repo/.iterion"}, "/repo/.iterion"},
		{{.home = "/h", .workspace_store = "/repo/.iterion", .store_dir = "/s/../t/"}, "/t"},
		{{.store_dir = "rel/./store", .cwd = "/w"}, "/w/rel/store"},
		{{.store_dir = "rel"}, NULL},
		{{.store_dir = "", .home = "/h"}, NULL},
		{{.cwd = "/w"}, NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		char *got = NULL;
		int r = store_locate(&cases[i].w, &got, &e);
		if (cases[i].want) {
			assert_int_equal(r, 0);
			assert_string_equal(got, cases[i].want);
		} else {
			assert_int_equal(r, -EINVAL);
			assert_int_equal(err_exit_code(e.kind), 2);
			assert_true(e.hint[0]);
		}
		free(got);
	}
}

static void make(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);

	assert_int_equal(dir_make(AT_FDCWD, path, 0700, NULL), 0);
	free(path);
}

static void check_find(const char *top, const char *workspace, const char *home, const char *want)
{
	char *w = xasprintf("%s/%s", top, workspace);
	char *h = xasprintf("%s/%s", top, home);
	char *expected = want ? xasprintf("%s/%s", top, want) : NULL;
	char *got = store_find_in_workspace(w, h, any, NULL);

	if (expected)
		assert_string_equal(got, expected);
	else
		assert_null(got);
	free(w);
	free(h);
	free(expected);
	free(got);
}

static void test_find(void **state)
{
	(void)state;
	char *top = tmp_dir();

	make(top, "repo/.git");
	make(top, "repo/.iterion");
	make(top, "repo/a/b");
	make(top, "plain/.git");
	make(top, "plain/x");
	make(top, "home/.iterion");
	make(top, "home/.git");
	make(top, "outer/.iterion");
	make(top, "outer/inner/.git");
	check_find(top, "repo", "home", "repo/.iterion");
	check_find(top, "repo/a/b", "home", "repo/.iterion");
	check_find(top, "plain/x", "home", NULL);
	check_find(top, "home", "home", NULL);
	check_find(top, "outer/inner", "home", NULL); /* the repository ends at its .git */
	/* Outside of a repository what stands above may be anybody's. */
	make(top, "shared/.iterion");
	make(top, "shared/mine/.iterion");
	make(top, "shared/work/deep");
	check_find(top, "shared/mine", "home", "shared/mine/.iterion");
	check_find(top, "shared/work/deep", "home", NULL);
	/* A link is no folder of ours. */
	make(top, "linked/.git");
	char *link = xasprintf("%s/linked/.iterion", top), *to = xasprintf("%s/shared/.iterion", top);
	assert_int_equal(symlink(to, link), 0);
	check_find(top, "linked", "home", NULL);
	if (geteuid() == 0) {
		make(top, "foreign/.git");
		make(top, "foreign/.iterion");
		char *foreign = xasprintf("%s/foreign/.iterion", top);
		assert_int_equal(chown(foreign, 65534, 65534), 0);
		check_find(top, "foreign", "home", NULL);
		free(foreign);
	}
	free(link);
	free(to);
	tmp_remove(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_locate), cmocka_unit_test(test_find)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
