/* What of the user's own state is shared, and what is left out with which reason. */
#include <sandbox/host_state.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char home[32];

static int set_up(void **state)
{
	(void)state;
	snprintf(home, sizeof home, "/tmp/iterion-home-XXXXXX");
	return mkdtemp(home) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return tree_remove(AT_FDCWD, home, NULL);
}

static void make(const char *below)
{
	auto_free char *path = path_join(home, below);

	assert_int_equal(dir_make(AT_FDCWD, path, 0755, NULL), 0);
}

static bool has(const struct strv *l, const char *below)
{
	auto_free char *path = path_join(home, below);

	return strv_has(l, path);
}

static void choose(const char *workspace, struct host_state_plan *ret)
{
	auto_free char *store = path_join(home, ".iterion");
	const struct host_state_facts f = {.home = home, .iterion_home = store, .workspace = workspace};

	host_state_choose(&f, ret);
	assert_int_equal(ret->mounts.n, ret->sources.n);
	assert_int_equal(ret->skipped.n, ret->reasons.n);
}

static void test_only_what_exists(void **state)
{
	auto_host_state p;

	(void)state;
	make(".npm");
	make("go/pkg/mod");
	choose("/srv/work", &p);
	assert_int_equal(p.mounts.n, 2);
	assert_true(has(&p.mounts, ".npm") && has(&p.mounts, "go/pkg/mod"));
	assert_true(has(&p.skipped, ".claude") && has(&p.skipped, ".iterion") && has(&p.skipped, ".cargo/registry"));
	assert_int_equal(p.covers.n, 0);
}

static void test_the_store_is_covered(void **state)
{
	auto_host_state p;

	(void)state;
	make(".iterion");
	choose("/srv/work", &p);
	assert_true(has(&p.mounts, ".iterion"));
	assert_true(has(&p.covers, ".iterion/runs") && has(&p.covers, ".iterion/worktrees") &&
		    has(&p.covers, ".iterion/images"));
}

static void test_what_the_workspace_holds_is_there_already(void **state)
{
	auto_host_state p;

	(void)state;
	make(".claude");
	make(".iterion");
	auto_free char *workspace = path_join(home, ".claude");
	choose(workspace, &p);
	assert_false(has(&p.mounts, ".claude"));
	assert_true(has(&p.mounts, ".iterion"));
	for (size_t i = 0; i < p.skipped.n; i++)
		if (str_ends(p.skipped.v[i], "/.claude"))
			assert_non_null(strstr(p.reasons.v[i], "workspace"));
}

static void test_a_link_is_mounted_from_where_it_leads(void **state)
{
	auto_free char *link = path_join(home, ".npm");
	auto_free char *to = path_join(home, "elsewhere");
	auto_host_state p;

	(void)state;
	make("elsewhere");
	assert_int_equal(symlink(to, link), 0);
	choose("/srv/work", &p);
	assert_int_equal(p.mounts.n, 1);
	assert_string_equal(p.mounts.v[0], link);
	assert_string_equal(p.sources.v[0], to);
}

static void test_a_file_is_no_folder(void **state)
{
	auto_free char *path = path_join(home, ".npm");
	auto_host_state p;

	(void)state;
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	choose("/srv/work", &p);
	assert_int_equal(p.mounts.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_only_what_exists, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_store_is_covered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_the_workspace_holds_is_there_already, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_link_is_mounted_from_where_it_leads, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_file_is_no_folder, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
