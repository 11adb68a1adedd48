/* Where devcontainer.json is looked for, and what is not followed on the way. */
#include "devcontainer.h"

#include <base/file.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[] = "/tmp/iterion-test-devcontainer.XXXXXX";
static char *workspace;

static void make(const char *path, const char *text)
{
	auto_free char *whole = xasprintf("%s/%s", workspace, path);
	auto_free char *folder = xstrndup(whole, (size_t)(strrchr(whole, '/') - whole));

	assert_int_equal(dir_make(AT_FDCWD, folder, 0755, NULL), 0);
	assert_int_equal(file_replace(AT_FDCWD, whole, text, strlen(text), 0644, FILE_NO_SYNC, NULL), 0);
}

static void link_to(const char *target, const char *path)
{
	auto_free char *whole = xasprintf("%s/%s", workspace, path);

	assert_int_equal(symlink(target, whole), 0);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(base + strlen(base) - 6, "XXXXXX");
	if (!mkdtemp(base))
		return -1;
	workspace = xasprintf("%s/ws", base);
	return mkdir(workspace, 0755);
}

static int tear_down(void **state)
{
	(void)state;
	free(TAKE_PTR(workspace));
	return tree_remove(AT_FDCWD, base, NULL);
}

/* The file that is found, as the text in it; NULL when none is. */
static void expect(const char *text)
{
	auto_devcontainer_file f = {0};
	struct err e = ERR_INIT;

	if (devcontainer_find(workspace, &f, &e) < 0)
		fail_msg("%s", e.msg);
	if (!text) {
		assert_null(f.path);
		return;
	}
	assert_non_null(f.path);
	assert_string_equal(f.text, text);
	assert_int_equal(f.len, strlen(text));
}

static void test_order(void **state)
{
	(void)state;
	expect(NULL);
	make(".devcontainer/Dockerfile", "FROM x");
	make(".devcontainer/deep/er/devcontainer.json", "deep");
	expect(NULL);
	make(".devcontainer/one/devcontainer.json", "one");
	expect("one");
	make(".devcontainer.json", "top");
	expect("top");
	make(".devcontainer/devcontainer.json", "usual");
	expect("usual");
}

static void test_several(void **state)
{
	auto_devcontainer_file f = {0};
	struct err e = ERR_INIT;

	(void)state;
	make(".devcontainer/b/devcontainer.json", "b");
	make(".devcontainer/a/devcontainer.json", "a");
	assert_int_equal(devcontainer_find(workspace, &f, &e), -ENOTUNIQ);
	assert_non_null(strstr(e.msg, ".devcontainer/a/devcontainer.json, .devcontainer/b/devcontainer.json"));
	assert_non_null(strstr(e.hint, "--devcontainer"));
	auto_free char *path = xasprintf("%s/.devcontainer/b/../b/devcontainer.json", workspace);
	assert_int_equal(devcontainer_read(workspace, path, &f, &e), 0);
	assert_string_equal(f.text, "b");
	assert_null(strstr(f.path, ".."));
	/* Very many are still one message. */
	for (int i = 0; i < 300; i++) {
		auto_free char *more = xasprintf(".devcontainer/%0200d/devcontainer.json", i);
		make(more, "x");
	}
	devcontainer_file_done(&f);
	assert_int_equal(devcontainer_find(workspace, &f, &e), -ENOTUNIQ);
}

static void expect_refused(const char *path, int want, const char *why)
{
	auto_devcontainer_file f = {0};
	struct err e = ERR_INIT;
	int r = path ? devcontainer_read(workspace, path, &f, &e) : devcontainer_find(workspace, &f, &e);

	assert_int_equal(r, want);
	assert_null(f.path);
	if (!strstr(e.msg, why) || !*e.hint)
		fail_msg("%s", e.msg);
	assert_int_equal(e.kind, ERR_INPUT);
}

static void test_symlinks(void **state)
{
	auto_free char *outside = xasprintf("%s/outside", base);
	auto_free char *asked = xasprintf("%s/.devcontainer/devcontainer.json", workspace);

	(void)state;
	assert_int_equal(mkdir(outside, 0755), 0);
	auto_free char *file = xasprintf("%s/devcontainer.json", outside);
	assert_int_equal(file_replace(AT_FDCWD, file, "{}", 2, 0644, FILE_NO_SYNC, NULL), 0);
	/* Inside they are fine. */
	make("conf/devcontainer.json", "linked");
	link_to("conf", ".devcontainer");
	expect("linked");
	auto_free char *link = xasprintf("%s/.devcontainer", workspace);
	assert_int_equal(unlink(link), 0);
	/* A folder outside, a file outside, by relative and absolute links, and /proc's. */
	link_to("../outside", ".devcontainer");
	expect_refused(NULL, -EXDEV, "out of the workspace");
	expect_refused(asked, -EXDEV, "out of the workspace");
	assert_int_equal(unlink(link), 0);
	make(".devcontainer/x", "");
	link_to(file, ".devcontainer/devcontainer.json");
	expect_refused(NULL, -EXDEV, "out of the workspace");
	assert_int_equal(unlink(asked), 0);
	link_to("../../outside/devcontainer.json", ".devcontainer/devcontainer.json");
	expect_refused(NULL, -EXDEV, "out of the workspace");
	assert_int_equal(unlink(asked), 0);
	make(".devcontainer/one/x", "");
	link_to(file, ".devcontainer/one/devcontainer.json");
	expect_refused(NULL, -EXDEV, "out of the workspace");
}

static void test_no_files(void **state)
{
	auto_free char *path = xasprintf("%s/.devcontainer/devcontainer.json", workspace);

	(void)state;
	make(".devcontainer/x", "");
	assert_int_equal(mkfifo(path, 0644), 0);
	expect_refused(NULL, -EINVAL, "devcontainer.json");
	expect_refused(path, -EINVAL, "devcontainer.json");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	expect_refused(NULL, -EISDIR, "directory");
	assert_int_equal(rmdir(path), 0);
	expect_refused(path, -ENOENT, "No such file");
	expect_refused("/nowhere/at/all.json", -ENOENT, "No such file");
	expect_refused("/dev/zero", -EINVAL, "/dev/zero");
	expect_refused(base, -EISDIR, "directory");
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(ftruncate(fd, 1L << 30), 0);
	expect_refused(NULL, -EFBIG, "too large");
}

/* One that was asked for may lie outside. */
static void test_outside(void **state)
{
	auto_free char *file = xasprintf("%s/other.json", base);
	auto_devcontainer_file f = {0};

	(void)state;
	assert_int_equal(file_replace(AT_FDCWD, file, "{}", 2, 0644, FILE_NO_SYNC, NULL), 0);
	assert_int_equal(devcontainer_read(workspace, file, &f, NULL), 0);
	assert_string_equal(f.path, file);
}

static void test_take(void **state)
{
	struct sandbox_block b = {0};
	struct err e = ERR_INIT;
	bool there = true;

	(void)state;
	assert_int_equal(devcontainer_take(workspace, NULL, case_env, NULL, &b, &there, &e), 0);
	assert_false(there);
	make(".devcontainer.json",
	     "{\"image\": \"debian:12\", \"containerEnv\": {\"W\": \"${containerWorkspaceFolder}\"}}");
	assert_int_equal(devcontainer_take(workspace, "none", case_env, NULL, &b, &there, &e), 0);
	assert_false(there);
	assert_int_equal(devcontainer_take(workspace, NULL, case_env, NULL, &b, &there, &e), 0);
	assert_true(there);
	assert_string_equal(b.spec.image, "debian:12");
	assert_string_equal(strv_get_env(&b.spec.env, "W"), workspace);
	assert_string_equal(strv_get_env(&b.spec.sources, "image"), ".devcontainer.json");
	sandbox_block_done(&b);
	assert_int_equal(devcontainer_take(workspace, NULL, case_env, "/elsewhere", &b, &there, &e), 0);
	assert_string_equal(strv_get_env(&b.spec.env, "W"), "/elsewhere");
	sandbox_block_done(&b);
	make(".devcontainer.json", "{\"image\": \n 5}");
	assert_int_equal(devcontainer_take(workspace, NULL, case_env, NULL, &b, &there, &e), -EINVAL);
	assert_true(str_starts(e.msg, ".devcontainer.json:2:2: devcontainer image: "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_several, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_symlinks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_outside, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_take, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("devcontainer find", tests, NULL, NULL);
}
