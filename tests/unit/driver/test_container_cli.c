/* Running an engine's program: what is kept of its words, how its end is told, and that nothing holds it up. */
#include "container/cli.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct seen {
	bool done;
	struct spawn_status status;
	bool timed_out, out_cut;
	char out[256], err[CLI_ERR_TAIL + 1];
	size_t out_len, err_len;
	char lines[256];
	struct cli *cli;
};

static void on_done(void *arg, const struct cli_result *r)
{
	struct seen *s = arg;

	s->done = true;
	s->status = r->status;
	s->timed_out = r->timed_out;
	s->out_cut = r->out_cut;
	s->out_len = r->out_len;
	s->err_len = r->err_len;
	(void)snprintf(s->out, sizeof s->out, "%s", r->out);
	(void)snprintf(s->err, sizeof s->err, "%s", r->err);
}

static void on_line(void *arg, const char *line)
{
	struct seen *s = arg;
	size_t len = strlen(s->lines);

	(void)snprintf(s->lines + len, sizeof s->lines - len, "[%.20s]", line);
}

static void run(const char *script, size_t limit, unsigned timeout_ms, struct seen *s)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	const struct cli_opts o = {.argv = argv,
				   .stdin_fd = -1,
				   .out_limit = limit,
				   .timeout_ms = timeout_ms,
				   .on_line = on_line,
				   .line_arg = s};
	struct err e = ERR_INIT;

	memset(s, 0, sizeof *s);
	if (cli_run(&o, on_done, s, &e) < 0)
		fail_msg("%s", e.msg);
	assert_true(s->done);
}

static void test_words_and_end(void **state)
{
	static const struct {
		const char *script, *out, *err, *lines;
		size_t limit;
		bool cut, signaled;
		int code;
	} rows[] = {
		{"echo a; echo b >&2; exit 3", "a\n", "b\n", NULL, 100, false, false, 3},
		{"printf 'a\\rb\\n\\nc'", "a\rb\n\nc", "", "[a][b][c]", 100, false, false, 0},
		{"printf 1234567", "1234", "", "[1234567]", 4, true, false, 0},
		{"cat; echo end", "end\n", "", "[end]", 100, false, false, 0},
		{"kill -9 $$", "", "", "", 100, false, true, SIGKILL},
		/* A helper that it leaves behind holds the pipes; nobody waits for it. */
		{"sleep 100 & echo $! >&2; printf x", "x", NULL, NULL, 100, false, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct seen s;
		int left = 0;
		run(rows[i].script, rows[i].limit, 0, &s);
		assert_string_equal(s.out, rows[i].out);
		if (rows[i].err)
			assert_string_equal(s.err, rows[i].err);
		else if (sscanf(s.err, "%d", &left) == 1)
			(void)kill(left, SIGKILL);
		if (rows[i].lines)
			assert_string_equal(s.lines, rows[i].lines);
		assert_int_equal(s.out_cut, rows[i].cut);
		assert_int_equal(s.status.signaled, rows[i].signaled);
		assert_int_equal(s.status.code, rows[i].code);
	}
}

static void test_bounds(void **state)
{
	struct seen s;

	(void)state;
	/* Of stderr the end is kept, which is where the reason stands. */
	run("i=0; while [ $i -lt 3000 ]; do echo line $i >&2; i=$((i+1)); done", 16, 0, &s);
	assert_int_equal(s.err_len, CLI_ERR_TAIL);
	assert_non_null(strstr(s.err, "line 2999\n"));
	assert_null(strstr(s.err, "line 1\n"));
	run("head -c 5000000 /dev/zero | tr '\\0' x", 16, 0, &s);
	assert_int_equal(s.out_len, 16);
	assert_true(s.out_cut);
	assert_int_equal(s.status.code, 0);
}

static void test_time_out(void **state)
{
	struct seen s;

	(void)state;
	/* The whole group: the shell and what it started. */
	run("trap '' TERM; sleep 100; sleep 100", 16, 50, &s);
	assert_true(s.timed_out);
	assert_true(s.status.signaled);
}

static void test_missing_program(void **state)
{
	const char *const argv[] = {"/nowhere/docker", NULL};
	const struct cli_opts o = {.argv = argv, .stdin_fd = -1};
	struct err e = ERR_INIT;
	struct seen s = {0};

	(void)state;
	assert_int_equal(cli_run(&o, on_done, &s, &e), -ENOENT);
	assert_false(s.done);
	assert_non_null(strstr(e.msg, "/nowhere/docker"));
}

static void on_first_line(void *arg, const char *line)
{
	const struct seen *s = arg;

	(void)line;
	cli_signal(s->cli, SIGTERM);
}

static void test_signal(void **state)
{
	const char *const argv[] = {"/bin/sh", "-c", "echo up; exec sleep 100", NULL};
	uv_loop_t loop;
	struct seen s = {0};
	const struct cli_opts o = {
		.argv = argv, .stdin_fd = -1, .out_limit = 16, .on_line = on_first_line, .line_arg = &s};
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(cli_start(&loop, &o, on_done, &s, &s.cli, &e), 0);
	assert_false(s.done);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(s.done && s.status.signaled);
	assert_int_equal(s.status.code, SIGTERM);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_and_end),	cmocka_unit_test(test_bounds), cmocka_unit_test(test_time_out),
		cmocka_unit_test(test_missing_program), cmocka_unit_test(test_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
