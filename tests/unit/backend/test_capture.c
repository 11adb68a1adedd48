/* What a program prints: kept in memory, in a file, and no more than the file may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../store/tmp.h"
#include "capture.h"

#include <base/cleanup.h>
#include <base/str.h>
#include <store/run.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1024 * 1024 };

static void on_closed(void *arg)
{
	*(bool *)arg = true;
}

/* A program of its own prints so many bytes, then ends. */
static pid_t print(int fd, size_t bytes)
{
	pid_t pid = fork();

	if (pid == 0) {
		auto_free char *text = xcalloc(1, bytes);
		_exit(fd_write_all(fd, memset(text, 'x', bytes), bytes) < 0);
	}
	assert_true(pid > 0);
	return pid;
}

static void test_bounds(void **state)
{
	(void)state;
	static const struct {
		size_t bytes, file_max;
		long long in_file; /* -1: none */
		bool fails, splices;
	} rows[] = {
		{1000, 3 * MIB, -1, false, true},
		{MIB, 3 * MIB, -1, false, true},
		{2 * MIB, 3 * MIB, 2 * MIB, false, true},
		{3 * MIB, 3 * MIB, 3 * MIB, false, true},
		{3 * MIB + 1, 3 * MIB, 3 * MIB, true, true},
		{8 * MIB, 3 * MIB, 3 * MIB, true, true},
		{3 * MIB, 3 * MIB, 3 * MIB, false, false},
		{8 * MIB, 3 * MIB, 3 * MIB, true, false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *top = tmp_dir();
		const struct store_run_params p = {.store_dir = top,
						   .run_id = "r",
						   .workflow = "w",
						   .file = "f",
						   .file_sha256 = "",
						   .workspace = top};
		struct store_run *run = NULL;
		struct capture c;
		uv_loop_t loop;
		struct stat st;
		bool closed = false;
		int status;

		assert_int_equal(store_run_create(&p, &run, NULL), 0);
		assert_int_equal(uv_loop_init(&loop), 0);
		assert_int_equal(capture_open(&c, &loop, run, "stdout", NULL), 0);
		c.file_max = rows[i].file_max;
		c.no_splice = !rows[i].splices;
		pid_t pid = print(c.writer, rows[i].bytes);
		capture_started(&c);
		while (c.total < rows[i].bytes)
			uv_run(&loop, UV_RUN_ONCE);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		uv_run(&loop, UV_RUN_NOWAIT); /* the end of the pipe is no byte too many */
		capture_finish(&c, on_closed, &closed);
		uv_run(&loop, UV_RUN_DEFAULT);
		assert_true(closed);
		assert_int_equal(c.failure.kind != ERR_NONE, rows[i].fails);
		assert_true(!rows[i].fails || (strstr(c.failure.msg, "3145728 bytes") && c.failure.hint[0]));
		assert_int_equal(c.file >= 0, rows[i].in_file >= 0);
		if (c.file >= 0) {
			assert_int_equal(fstat(c.file, &st), 0);
			assert_int_equal(st.st_size, rows[i].in_file);
		}
		capture_done(&c);
		assert_int_equal(uv_loop_close(&loop), 0);
		store_run_free(run);
		tmp_remove(top);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds)};

	return cmocka_run_group_tests_name("backend capture", tests, NULL, NULL);
}
