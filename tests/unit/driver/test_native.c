/* The native driver for real: namespaces of this kernel, as the user that runs the test. */
#include "sandboxed.h"

#include <base/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static void test_statuses(void **state)
{
	struct sandboxed s;
	char out[256];

	(void)state;
	sandboxed_start(&s, &driver_native, true);
	assert_true(s.ready);
	struct exec_status st = sandboxed_sh(&s, "echo hello; exit 7", out, sizeof out);
	assert_int_equal(st.end, EXEC_EXITED);
	assert_int_equal(st.code, 7);
	assert_string_equal(out, "hello\n");
	st = sandboxed_sh(&s, "kill -SEGV $$", NULL, 0);
	assert_int_equal(st.end, EXEC_SIGNALED);
	assert_int_equal(st.code, SIGSEGV);
	assert_false(st.core);
	sandboxed_end(&s);
}

struct result {
	struct exec_status status;
	bool done;
};

static void on_done(void *arg, const struct exec_status *st)
{
	struct result *r = arg;

	r->status = *st;
	r->done = true;
}

static struct exec *start_program(struct sandboxed *s, const char *const *argv, struct result *r)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	const struct exec_opts o = {.argv = argv, .env = env, .stdio = {-1, -1, -1}};
	struct err e = ERR_INIT;
	struct exec *x = NULL;

	if (s->sandbox->ops->exec(s->sandbox, &o, on_done, r, &x, &e) < 0)
		fail_msg("%s", e.msg);
	return x;
}

static void test_exec_errors_are_exact(void **state)
{
	static const struct {
		const char *program;
		int errnum;
	} rows[] = {{"no-such-program", ENOENT}, {"/no/such/file", ENOENT}, {"/etc/passwd", EACCES}, {"/usr", EACCES}};
	struct sandboxed s;

	(void)state;
	sandboxed_start(&s, &driver_native, true);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const char *const argv[] = {rows[i].program, NULL};
		struct result r = {0};
		start_program(&s, argv, &r);
		sandboxed_wait(&s, &r.done);
		assert_int_equal(r.status.end, EXEC_NOT_FOUND);
		assert_int_equal(r.status.code, rows[i].errnum);
	}
	sandboxed_end(&s);
}

static void test_signals_reach_the_whole_session(void **state)
{
	static const char *const argv[] = {"sh", "-c", "sleep 1000 & wait", NULL};
	struct sandboxed s;
	struct result r = {0};
	char out[64];

	(void)state;
	sandboxed_start(&s, &driver_native, true);
	struct exec *x = start_program(&s, argv, &r);
	while (sandboxed_sh(&s, "pidof sleep", NULL, 0).code != 0)
		;
	x->ops->signal(x, SIGTERM);
	sandboxed_wait(&s, &r.done);
	assert_int_equal(r.status.end, EXEC_SIGNALED);
	assert_int_equal(r.status.code, SIGTERM);
	while (sandboxed_sh(&s, "pidof sleep", out, sizeof out).code == 0)
		;
	sandboxed_end(&s);
}

static void test_group_ends_with_its_leader(void **state)
{
	static const char *const argv[] = {"sh", "-c", "(trap '' TERM; exec sleep 1000) & wait", NULL};
	struct sandboxed s;
	struct result r = {0};

	(void)state;
	sandboxed_start(&s, &driver_native, true);
	struct exec *x = start_program(&s, argv, &r);
	while (sandboxed_sh(&s, "pidof sleep", NULL, 0).code != 0)
		;
	x->ops->signal(x, SIGTERM);
	sandboxed_wait(&s, &r.done);
	while (sandboxed_sh(&s, "pidof sleep", NULL, 0).code == 0)
		;
	sandboxed_end(&s);
}

static void test_many_at_once(void **state)
{
	enum { N = 64 };
	static const char *const argv[] = {"sh", "-c", "exit 3", NULL};
	struct sandboxed s;
	struct result r[N] = {0};

	(void)state;
	sandboxed_start(&s, &driver_native, true);
	for (int i = 0; i < N; i++)
		start_program(&s, argv, &r[i]);
	for (int i = 0; i < N; i++) {
		sandboxed_wait(&s, &r[i].done);
		assert_int_equal(r[i].status.end, EXEC_EXITED);
		assert_int_equal(r[i].status.code, 3);
	}
	sandboxed_end(&s);
}

static void test_stop_ends_what_runs(void **state)
{
	static const char *const argv[] = {"sh", "-c", "trap '' TERM; sleep 1000", NULL};
	struct sandboxed s;
	struct result r = {0};

	(void)state;
	sandboxed_start(&s, &driver_native, true);
	start_program(&s, argv, &r);
	sandboxed_end(&s);
	assert_true(r.done);
	assert_int_equal(r.status.end, EXEC_LOST);
}

/* The sockets that the guest hands out live in the sandbox's network namespace: what connects inside arrives here. */
static void test_listener_is_inside(void **state)
{
	struct sandboxed s;
	struct result r = {0};
	static const char *const argv[] = {"/run/iterion/bin/iterion", "connect", "x.test", "1", NULL};
	static const char *const env[] = {"HTTPS_PROXY=http://u:tok@127.0.0.1:47128", NULL};
	const struct exec_opts o = {.argv = argv, .env = env, .stdio = {-1, -1, -1}};
	struct err e = ERR_INIT;
	struct exec *x;

	(void)state;
	sandboxed_start(&s, &driver_native, true);
	assert_true(s.n_listeners >= 1);
	assert_int_equal(s.sandbox->ops->exec(s.sandbox, &o, on_done, &r, &x, &e), 0);
	int conn = -1;
	while (conn < 0 && !r.done) {
		conn = accept4(s.listeners[0], NULL, NULL, SOCK_CLOEXEC);
		uv_run(&s.loop, UV_RUN_NOWAIT);
	}
	assert_true(conn >= 0);
	char head[512];
	ssize_t n = read(conn, head, sizeof head - 1);
	assert_true(n > 0);
	head[n] = '\0';
	assert_non_null(strstr(head, "CONNECT x.test:1 HTTP/1.1\r\n"));
	assert_non_null(strstr(head, "Proxy-Authorization: Bearer tok\r\n"));
	close(conn);
	sandboxed_wait(&s, &r.done);
	assert_int_equal(r.status.code, 1);
	sandboxed_end(&s);
}

/* The same port on the host is another one: nothing there answers to what the sandbox opened. */
static void test_listener_is_not_on_the_host(void **state)
{
	const struct sockaddr_in sa = {
		.sin_family = AF_INET, .sin_port = htons(47128), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sandboxed s;

	(void)state;
	sandboxed_start(&s, &driver_native, true);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&sa, sizeof sa), -1);
	assert_int_equal(errno, ECONNREFUSED);
	close(fd);
	sandboxed_end(&s);
}

static void test_missing_source_fails_the_start(void **state)
{
	struct sandbox_mount m = {.type = MOUNT_BIND, .source = (char[]){"/usr"}, .target = (char[]){"/usr/none/such"}};
	const struct sandbox_spec spec = {.mounts = &m, .n_mounts = 1};
	struct sandboxed run = {0};

	(void)state;
	sandboxed_start_with(&run, &driver_native, true, &spec);
	assert_true(run.lost);
	assert_non_null(strstr(run.why.msg, "/usr/none/such"));
	assert_string_not_equal(run.why.hint, "");
	sandboxed_end(&run);
}

static void test_init_killed_is_lost(void **state)
{
	static const char *const argv[] = {"sleep", "1000", NULL};
	struct sandboxed s;
	struct result r = {0};
	char path[64], pids[256];

	(void)state;
	sandboxed_start(&s, &driver_native, true);
	start_program(&s, argv, &r);
	/* PID 1 of the sandbox is this process's only child. */
	snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(pids, sizeof pids, f));
	fclose(f);
	assert_int_equal(kill(atoi(pids), SIGKILL), 0);
	sandboxed_wait(&s, &s.lost);
	assert_true(r.done);
	assert_int_equal(r.status.end, EXEC_LOST);
	assert_string_not_equal(s.why.msg, "");
	sandboxed_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_exec_errors_are_exact),
		cmocka_unit_test(test_signals_reach_the_whole_session),
		cmocka_unit_test(test_group_ends_with_its_leader),
		cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_stop_ends_what_runs),
		cmocka_unit_test(test_listener_is_inside),
		cmocka_unit_test(test_listener_is_not_on_the_host),
		cmocka_unit_test(test_missing_source_fails_the_start),
		cmocka_unit_test(test_init_killed_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
