/* Ids, time, the arena, log lines and memory. */
#include <base/arena.h>
#include <base/clock.h>
#include <base/id.h>
#include <base/log.h>
#include <base/mem.h>
#include <base/proc.h>

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "test.h"

static void test_hex(void **state)
{
	(void)state;
	char a[65], b[65];

	id_hex(a, 32);
	id_hex(b, 32);
	assert_int_equal(strlen(a), 64);
	assert_int_equal(strspn(a, "0123456789abcdef"), 64);
	assert_string_not_equal(a, b);
	id_hex(a, 0);
	assert_string_equal(a, "");
}

static void test_hex_encode(void **state)
{
	(void)state;
	char text[11] = "..........";

	hex_encode(text, "\x00\x09\xaf\xff", 4);
	assert_string_equal(text, "0009afff");
	assert_int_equal(text[9], '.');
	hex_encode(text, "", 0);
	assert_string_equal(text, "");
}

/* A child's start is not before ours, and a process that is gone has none. */
static void test_start_time(void **state)
{
	(void)state;
	unsigned long long mine = 0, child = 0, again = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(1);
	}
	assert_true(pid > 0);
	assert_int_equal(proc_start_time(getpid(), &mine), 0);
	assert_int_equal(proc_start_time(pid, &child), 0);
	assert_int_equal(proc_start_time(pid, &again), 0);
	assert_true(mine > 0 && child >= mine && child == again);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(proc_start_time(pid, &again), -ENOENT);
}

static void test_uuid7(void **state)
{
	(void)state;
	static const uint64_t times[] = {0, 1, 0xffff, 0x10000, 1767225600000, 1767225600001, 0xffffffffffff};
	char last[UUID_SIZE] = "";

	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		char u[UUID_SIZE], want[14];
		id_uuid7(u, times[i]);
		assert_int_equal(strlen(u), 36);
		for (size_t k = 0; k < 36; k++) {
			if (k == 8 || k == 13 || k == 18 || k == 23)
				assert_int_equal(u[k], '-');
			else
				assert_true(isxdigit((unsigned char)u[k]) && !isupper((unsigned char)u[k]));
		}
		assert_int_equal(u[14], '7');
		assert_non_null(strchr("89ab", u[19]));
		snprintf(want, sizeof want, "%08x-%04x", (unsigned)(times[i] >> 16), (unsigned)(times[i] & 0xffff));
		assert_memory_equal(u, want, 13);
		assert_true(strcmp(last, u) < 0);
		memcpy(last, u, sizeof last);
	}
}

static void test_constant_time(void **state)
{
	(void)state;
	assert_true(equal_constant_time("abc", "abc", 3) && equal_constant_time("x", "y", 0));
	assert_false(equal_constant_time("abc", "abd", 3) || equal_constant_time("abc", "bbc", 3));
}

static void test_time(void **state)
{
	(void)state;
	static const struct {
		uint64_t ms;
		const char *want;
	} rows[] = {
		{0, "1970-01-01T00:00:00.000Z"},
		{1767323045678, "2026-01-02T03:04:05.678Z"},
		{951782400000, "2000-02-29T00:00:00.000Z"},
		{253402300799999, "9999-12-31T23:59:59.999Z"},
		/* The format has four digits for the year: what lies behind its end is shown as its end. */
		{253402300800000, "9999-12-31T23:59:59.999Z"},
		{UINT64_MAX, "9999-12-31T23:59:59.999Z"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char got[TIMESTAMP_SIZE];
		clock_format(got, rows[i].ms);
		assert_string_equal(got, rows[i].want);
	}
	uint64_t a = clock_ns(), b = clock_ns();
	assert_true(b >= a);
	assert_true(clock_wall_ms() > 1600000000000);
}

static void test_arena(void **state)
{
	(void)state;
	struct arena *a = arena_new();
	static const size_t sizes[] = {0, 1, 3, 16, 100, 16 * 1024, 16 * 1024 + 1, 1000000};
	unsigned char *kept[200];
	size_t kept_size[200], n = 0;

	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		size_t size = sizes[i % ARRAY_LEN(sizes)];
		unsigned char *p = arena_alloc(a, size);
		assert_int_equal((uintptr_t)p % alignof(max_align_t), 0);
		for (size_t k = 0; k < size; k++)
			assert_int_equal(p[k], 0);
		memset(p, (int)i, size);
		kept[n] = p;
		kept_size[n++] = size;
	}
	/* Nothing overlaps: each still holds what was written. */
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < kept_size[i]; k++)
			assert_int_equal(kept[i][k], (unsigned char)i);
	assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
	assert_string_equal(arena_strndup(a, NULL, 0), "");
	arena_free(a);
	arena_free(NULL);
}

static char last_line[4096];
static int n_lines;

static void keep_line(void *arg, enum log_level level, const char *line)
{
	(void)level;
	assert_ptr_equal(arg, last_line);
	snprintf(last_line, sizeof last_line, "%s", line);
	n_lines++;
}

static void test_log(void **state)
{
	(void)state;
	char text[5000];

	log_error("goes nowhere");
	log_set(keep_line, last_line, LOG_WARN);
	log_info("not important enough");
	assert_int_equal(n_lines, 0);
	log_warn("a %d", 1);
	assert_string_equal(last_line, "a 1");
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	log_error("%s", text);
	assert_int_equal(n_lines, 2);
	assert_int_equal(strlen(last_line), 2047);
	log_set(NULL, NULL, LOG_DEBUG);
	log_error("nowhere again");
	assert_int_equal(n_lines, 2);
}

static void test_memory(void **state)
{
	(void)state;
	size_t cap = 0;
	int *v = NULL;

	for (size_t n = 0; n < 1000; n++) {
		v = grow_array(v, n, &cap, sizeof *v);
		v[n] = (int)n;
	}
	assert_int_equal(v[999], 999);
	free(v);
	char *s = xstrndup("abcdef", 3);
	assert_string_equal(s, "abc");
	free(s);
	s = xasprintf("%s-%d", "x", 5);
	assert_string_equal(s, "x-5");
	free(s);
	free(xmalloc(0));
}

#ifndef __SANITIZE_ADDRESS__
static void test_out_of_memory(void **state)
{
	(void)state;
	int p[2], status;
	char text[64] = "";

	assert_int_equal(pipe(p), 0);
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(p[1], 2);
		/* A product that overflows size_t is refused, not wrapped. */
		void *none = xreallocarray(NULL, SIZE_MAX / 2, 4);
		_exit(none ? 0 : 1);
	}
	close(p[1]);
	assert_true(read(p[0], text, sizeof text - 1) > 0);
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_string_equal(text, "iterion: out of memory\n");
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hex),	      cmocka_unit_test(test_hex_encode),
		cmocka_unit_test(test_start_time),    cmocka_unit_test(test_uuid7),
		cmocka_unit_test(test_constant_time), cmocka_unit_test(test_time),
		cmocka_unit_test(test_arena),	      cmocka_unit_test(test_log),
		cmocka_unit_test(test_memory),
#ifndef __SANITIZE_ADDRESS__
		cmocka_unit_test(test_out_of_memory),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
