/* The driver that isolates nothing runs programs all the same. */
#include "sandboxed.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void test_statuses(void **state)
{
	struct sandboxed s;
	char out[64];

	(void)state;
	sandboxed_start(&s, &driver_noop, false);
	assert_true(s.ready);
	assert_int_equal(sandboxed_sh(&s, "echo hi; exit 5", out, sizeof out).code, 5);
	assert_string_equal(out, "hi\n");
	struct exec_status st = sandboxed_sh(&s, "kill -KILL $$", NULL, 0);
	assert_int_equal(st.end, EXEC_SIGNALED);
	assert_int_equal(st.code, SIGKILL);
	sandboxed_end(&s);
}

static void on_done(void *arg, const struct exec_status *st)
{
	*(struct exec_status *)arg = *st;
}

static void test_not_found(void **state)
{
	static const char *const argv[] = {"/no/such/program", NULL}, *const env[] = {NULL};
	const struct exec_opts o = {.argv = argv, .env = env, .stdio = {-1, -1, -1}};
	struct exec_status st = {.end = EXEC_LOST};
	struct sandboxed s;
	struct err e = ERR_INIT;
	struct exec *x;

	(void)state;
	sandboxed_start(&s, &driver_noop, false);
	assert_int_equal(s.sandbox->ops->exec(s.sandbox, &o, on_done, &st, &x, &e), 0);
	/* A signal to what never ran hits nobody, least of all ourselves. */
	x->ops->signal(x, SIGKILL);
	while (st.end == EXEC_LOST)
		uv_run(&s.loop, UV_RUN_ONCE);
	assert_int_equal(st.end, EXEC_NOT_FOUND);
	assert_int_equal(st.code, ENOENT);
	sandboxed_end(&s);
}

static void test_stop_kills(void **state)
{
	static const char *const argv[] = {"/bin/sh", "-c", "trap '' TERM; sleep 1000", NULL}, *const env[] = {NULL};
	const struct exec_opts o = {.argv = argv, .env = env, .stdio = {-1, -1, -1}};
	struct exec_status st = {.end = EXEC_EXITED};
	struct sandboxed s;
	struct err e = ERR_INIT;
	struct exec *x;

	(void)state;
	sandboxed_start(&s, &driver_noop, false);
	assert_int_equal(s.sandbox->ops->exec(s.sandbox, &o, on_done, &st, &x, &e), 0);
	sandboxed_end(&s);
	assert_int_equal(st.end, EXEC_LOST);
}

/* What ignores TERM in the group of a program that was told to end goes with it. */
static void test_group_ends_with_its_leader(void **state)
{
	static const char *const argv[] = {"/bin/sh", "-c", "(trap '' TERM; exec sleep 1000) & echo $!; wait", NULL},
				 *const env[] = {NULL};
	struct exec_status st = {.end = EXEC_LOST};
	struct sandboxed s;
	struct err e = ERR_INIT;
	struct exec *x;
	char line[32];
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	const struct exec_opts o = {.argv = argv, .env = env, .stdio = {-1, fds[1], -1}};
	sandboxed_start(&s, &driver_noop, false);
	assert_int_equal(s.sandbox->ops->exec(s.sandbox, &o, on_done, &st, &x, &e), 0);
	ssize_t n = read(fds[0], line, sizeof line - 1);
	assert_true(n > 1);
	line[n] = '\0';
	x->ops->signal(x, SIGTERM);
	while (st.end == EXEC_LOST)
		uv_run(&s.loop, UV_RUN_ONCE);
	assert_int_equal(st.end, EXEC_SIGNALED);
	/* The pipe's other ends are closed when the last of them is gone. */
	close(fds[1]);
	assert_int_equal(read(fds[0], line, sizeof line), 0);
	close(fds[0]);
	sandboxed_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_not_found),
		cmocka_unit_test(test_stop_kills),
		cmocka_unit_test(test_group_ends_with_its_leader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
