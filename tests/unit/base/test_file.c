/* Files, in a folder of the test's own. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test.h"

static char folder[] = "/tmp/test-base-file-XXXXXX";
static int dir = -1;

static void write_file(const char *name, const char *text)
{
	assert_int_equal(file_replace(dir, name, text, strlen(text), 0644, FILE_NO_SYNC, NULL), 0);
}

static int count_entries(void)
{
	auto_dir d = opendir(folder);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	return n - 2;
}

static void test_read(void **state)
{
	(void)state;
	struct err e = ERR_INIT;
	char *data = NULL;
	size_t len = 77;

	assert_int_equal(mkdirat(dir, "d", 0700), 0);
	assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
	assert_int_equal(symlinkat("loop", dir, "loop"), 0);
	assert_int_equal(file_replace(dir, "f", "ab\0cd", 5, 0600, FILE_SYNC, &e), 0);
	assert_int_equal(file_read(dir, "f", 5, &data, &len, &e), 0);
	assert_int_equal(len, 5);
	assert_memory_equal(data, "ab\0cd", 6);
	free(data);
	data = NULL;
	static const struct {
		const char *name;
		size_t limit;
		int want;
		const char *says;
	} rows[] = {
		{"f", 4, -EFBIG, "larger than the limit of 4 bytes"},
		{"d", 100, -EISDIR, "Is a directory"},
		{"fifo", 100, -EINVAL, "not a regular file"},
		{"missing", 100, -ENOENT, "No such file"},
		{"loop", 100, -ELOOP, "symbolic links"},
		{"f/x", 100, -ENOTDIR, "Not a directory"},
		/* No size is known beforehand there. */
		{"/proc/self/status", 10, -EFBIG, "larger than the limit"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(file_read(dir, rows[i].name, rows[i].limit, &data, &len, &e), rows[i].want);
		assert_non_null(strstr(e.msg, rows[i].says));
		assert_null(data);
	}
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/status", 100000, &data, NULL, &e), 0);
	assert_true(strlen(data) > 100);
	free(data);
}

static void test_empty_limits(void **state)
{
	(void)state;
	char *data = NULL;

	write_file("empty", "");
	write_file("one", "x");
	assert_int_equal(file_read(dir, "empty", 0, &data, NULL, NULL), 0);
	assert_string_equal(data, "");
	free(data);
	assert_int_equal(file_read(dir, "one", 0, &data, NULL, NULL), -EFBIG);
}

static void test_read_all_limit(void **state)
{
	(void)state;
	int p[2];
	auto_buf exact = BUF_INIT(3), small = BUF_INIT(2);

	assert_int_equal(pipe(p), 0);
	assert_int_equal(fd_write_all(p[1], "abc", 3), 0);
	close(p[1]);
	assert_int_equal(fd_read_all(p[0], &exact), 0);
	assert_string_equal(buf_str(&exact), "abc");
	close(p[0]);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(fd_write_all(p[1], "abc", 3), 0);
	close(p[1]);
	assert_int_equal(fd_read_all(p[0], &small), -EFBIG);
	close(p[0]);
	assert_int_equal(fd_read_all(-1, &exact), -EBADF);
	assert_int_equal(fd_write_all(-1, "x", 1), -EBADF);
}

static void test_replace(void **state)
{
	(void)state;
	struct err e = ERR_INIT;
	struct stat before, after;
	char *data = NULL;

	write_file("r", "old");
	auto_fd old = openat(dir, "r", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(old, &before), 0);
	assert_int_equal(file_replace(dir, "r", "new", 3, 0600, FILE_NO_SYNC, &e), 0);
	assert_int_equal(fstatat(dir, "r", &after, 0), 0);
	/* Another file, so that whoever reads the old one reads it to its end. */
	assert_int_not_equal(before.st_ino, after.st_ino);
	assert_int_equal(after.st_mode & 07777, 0600);
	char text[4] = "";
	assert_int_equal(read(old, text, 3), 3);
	assert_string_equal(text, "old");
	/* A symlink is replaced, not followed. */
	write_file("target", "untouched");
	assert_int_equal(symlinkat("target", dir, "link"), 0);
	assert_int_equal(file_replace(dir, "link", "x", 1, 0600, FILE_NO_SYNC, &e), 0);
	assert_int_equal(file_read(dir, "target", 100, &data, NULL, &e), 0);
	assert_string_equal(data, "untouched");
	free(data);
}

static void test_replace_leaves_nothing_behind(void **state)
{
	(void)state;
	struct err e = ERR_INIT;

	assert_int_equal(mkdirat(dir, "occupied", 0700), 0);
	int n = count_entries();
	assert_int_equal(file_replace(dir, "occupied", "x", 1, 0600, FILE_NO_SYNC, &e), -EISDIR);
	assert_string_equal(e.msg, "write occupied: Is a directory");
	assert_int_equal(file_replace(dir, "no/such", "x", 1, 0600, FILE_NO_SYNC, &e), -ENOENT);
	assert_int_equal(count_entries(), n);
}

/* Readers that look all the time while the file is replaced see one content or the other, never a part. */
static void test_replace_is_atomic(void **state)
{
	(void)state;
	static char a[20000], b[20000];
	int status;

	memset(a, 'a', sizeof a);
	memset(b, 'b', sizeof b);
	assert_int_equal(file_replace(dir, "atomic", a, sizeof a, 0600, FILE_NO_SYNC, NULL), 0);
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 300; i++)
			if (file_replace(dir, "atomic", i % 2 ? a : b, sizeof a, 0600, FILE_NO_SYNC, NULL) < 0)
				_exit(1);
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		char *data = NULL;
		size_t len;
		assert_int_equal(file_read(dir, "atomic", sizeof a, &data, &len, NULL), 0);
		assert_int_equal(len, sizeof a);
		assert_memory_equal(data, data[0] == 'a' ? a : b, sizeof a);
		free(data);
	}
	assert_int_equal(status, 0);
}

static void test_dir_make(void **state)
{
	(void)state;
	struct err e = ERR_INIT;
	struct stat st;

	write_file("plain", "x");
	assert_int_equal(symlinkat("nowhere", dir, "dangling"), 0);
	static const struct {
		const char *path;
		int want;
	} rows[] = {
		{"m", 0},
		{"m", 0},
		{"m/a/b/c", 0},
		{"m/a/b/c", 0},
		{"m//x///y/", 0},
		{"plain", -ENOTDIR},
		{"plain/x", -ENOTDIR},
		{"dangling", -ENOENT},
		{"", -ENOENT},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int r = dir_make(dir, rows[i].path, 0750, &e);
		if (r != rows[i].want)
			print_error("%s: %d\n", rows[i].path, r);
		assert_int_equal(r, rows[i].want);
	}
	assert_int_equal(fstatat(dir, "m/a/b/c", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	auto_free char *absolute = xasprintf("%s/abs/x/y", folder);
	assert_int_equal(dir_make(AT_FDCWD, absolute, 0700, &e), 0);
	assert_int_equal(fstatat(dir, "abs/x/y", &st, 0), 0);
}

static void test_tree_remove(void **state)
{
	(void)state;
	struct err e = ERR_INIT;
	struct stat st;

	assert_int_equal(tree_remove(dir, "missing", &e), 0);
	write_file("outside", "kept");
	assert_int_equal(dir_make(dir, "outside.d/sub", 0700, &e), 0);
	assert_int_equal(dir_make(dir, "t/a/b", 0700, &e), 0);
	write_file("t/a/f", "x");
	assert_int_equal(symlinkat("../../outside", dir, "t/a/to-file"), 0);
	assert_int_equal(symlinkat("../../outside.d", dir, "t/a/to-folder"), 0);
	assert_int_equal(symlinkat("..", dir, "t/up"), 0);
	assert_int_equal(mkfifoat(dir, "t/fifo", 0600), 0);
	assert_int_equal(tree_remove(dir, "t", &e), 0);
	assert_int_equal(fstatat(dir, "t", &st, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(fstatat(dir, "outside", &st, 0), 0);
	assert_int_equal(fstatat(dir, "outside.d/sub", &st, 0), 0);
	/* A symlink in the place of the tree: the link goes, what it names stays. */
	assert_int_equal(symlinkat("outside.d", dir, "t"), 0);
	assert_int_equal(tree_remove(dir, "t", &e), 0);
	assert_int_equal(fstatat(dir, "outside.d/sub", &st, 0), 0);
	assert_int_equal(tree_remove(dir, "outside", &e), 0);
	assert_int_equal(fstatat(dir, "outside", &st, 0), -1);
}

/* A program can make folders as deep as it likes by entering each; they must go away again. */
static void test_tree_remove_deep(void **state)
{
	(void)state;
	struct err e = ERR_INIT;
	struct stat st;
	int at = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < 3000; i++) {
		assert_int_equal(mkdirat(at, "deep", 0700), 0);
		int next = openat(at, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
	int r = tree_remove(dir, "deep", &e);
	if (r < 0)
		print_error("%s\n", e.msg);
	assert_int_equal(r, 0);
	assert_int_equal(fstatat(dir, "deep", &st, AT_SYMLINK_NOFOLLOW), -1);
}

static void test_open_resolve(void **state)
{
	(void)state;

	write_file("in-root", "x");
	assert_int_equal(symlinkat("/etc/passwd", dir, "outward"), 0);
	assert_int_equal(symlinkat("/in-root", dir, "abs-inside"), 0);
	assert_int_equal(symlinkat("../../../../../etc/passwd", dir, "dots"), 0);
	static const struct {
		const char *path;
		unsigned long long resolve;
		int want; /* 0: opens */
	} rows[] = {
		{"in-root", RESOLVE_IN_ROOT, 0},
		{"abs-inside", RESOLVE_IN_ROOT, 0},
		{"/in-root", RESOLVE_IN_ROOT, 0},
		{"outward", RESOLVE_IN_ROOT, -ENOENT},
		{"dots", RESOLVE_IN_ROOT, -ENOENT},
		{"../../etc/passwd", RESOLVE_IN_ROOT, -ENOENT},
		{"outward", RESOLVE_NO_SYMLINKS, -ELOOP},
		{"outward", RESOLVE_BENEATH, -EXDEV},
		{"in-root", 1ull << 60, -EINVAL},
		/* What the others must not do, this one does. */
		{"outward", 0, 0},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_fd fd = file_open_resolve(dir, rows[i].path, O_RDONLY, rows[i].resolve);
		assert_int_equal(fd < 0 ? fd : 0, rows[i].want);
		if (fd >= 0)
			assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	}
	auto_fd made = file_open_resolve(dir, "made", O_WRONLY | O_CREAT | O_EXCL, RESOLVE_IN_ROOT);
	struct stat st;
	assert_true(made >= 0 && fstat(made, &st) == 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_flags(void **state)
{
	(void)state;
	int p[2];

	assert_int_equal(pipe(p), 0);
	assert_int_equal(fd_set_nonblock(p[0], true), 0);
	assert_true(fcntl(p[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(fd_set_nonblock(p[0], false), 0);
	assert_false(fcntl(p[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(fd_set_cloexec(p[0], true), 0);
	assert_int_equal(fcntl(p[0], F_GETFD), FD_CLOEXEC);
	close(p[0]);
	close(p[1]);
	assert_int_equal(fd_set_nonblock(-1, true), -EBADF);
	assert_int_equal(dir_open(dir, "flags-missing", NULL), -ENOENT);
}

static int make_folder(void **state)
{
	(void)state;
	umask(022);
	dir = mkdtemp(folder) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	return dir < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
	(void)state;
	close(dir);
	return tree_remove(AT_FDCWD, folder, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_empty_limits),
		cmocka_unit_test(test_read_all_limit),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_replace_leaves_nothing_behind),
		cmocka_unit_test(test_replace_is_atomic),
		cmocka_unit_test(test_dir_make),
		cmocka_unit_test(test_tree_remove),
		cmocka_unit_test(test_tree_remove_deep),
		cmocka_unit_test(test_open_resolve),
		cmocka_unit_test(test_flags),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
