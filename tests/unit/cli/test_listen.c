/* Addresses to listen on, as a user writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "listen.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void tcp(void **state)
{
	static const struct {
		const char *where;
		const char *begins;
		bool reachable;
	} cases[] = {
		{"127.0.0.1:0", "127.0.0.1:", false}, {"localhost:0", "127.0.0.1:", false},
		{"[::1]:0", "[::1]:", false},	      {"0.0.0.0:0", "0.0.0.0:", true},
		{"127.1.2.3:0", "127.1.2.3:", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct listen_address a = {0};
		struct err e = ERR_INIT;
		auto_fd fd = listen_open(cases[i].where, &a, &e);
		if (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT)
			continue; /* a machine without IPv6 */
		assert_true(fd >= 0);
		assert_true(str_starts(a.text, cases[i].begins));
		assert_true(a.port > 0);
		assert_int_equal(a.reachable, cases[i].reachable);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		listen_close(&a);
	}
}

static void refused(void **state)
{
	static const char *const cases[] = {"",
					    "127.0.0.1",
					    "127.0.0.1:",
					    "127.0.0.1:65536",
					    ":0",
					    "host.example:0",
					    "::1",
					    "127.0.0.1:0x10",
					    "127.0.0.1: 1",
					    "unix:"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct listen_address a = {0};
		struct err e = ERR_INIT;
		int fd = listen_open(cases[i], &a, &e);
		if (fd >= 0)
			fail_msg("\"%s\" was taken", cases[i]);
		assert_int_equal(e.kind, ERR_USAGE);
		assert_true(e.hint[0] != '\0');
	}
}

static void unix_socket(void **state)
{
	char dir[] = "/tmp/iterion-listen.XXXXXX", path[64], where[80];
	struct listen_address a = {0}, b = {0};
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/s", dir);
	snprintf(where, sizeof where, "unix:%s", path);
	auto_fd fd = listen_open(where, &a, NULL);
	assert_true(fd >= 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(listen_open(where, &b, NULL) == -EADDRINUSE);
	/* Another's file in its place stays. */
	assert_int_equal(unlink(path), 0);
	auto_fd other = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(other >= 0);
	listen_close(&a);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp),
		cmocka_unit_test(refused),
		cmocka_unit_test(unix_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
