/* The generator, through its command line: what a profile or a mark may say, and the message for what it may not. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef SECCOMP_GEN
#error "the build says where the generator is"
#endif

struct row {
	const char *how;  /* --profile or --marks */
	const char *text; /* the file */
	const char *want; /* part of the message; NULL: succeeds */
};

static const struct row rows[] = {
	{"--profile", "allow read write\n", NULL},
	{"--profile", "allow read # comment\n\n# only a comment\ndefault errno ENOSYS\nforeign errno ENOSYS\n", NULL},
	{"--profile", "allow ?open openat\nallow read\nallow read\n", NULL},
	{"--profile", "errno EPERM clone if arg0 & CLONE_NEWUSER|CLONE_NEWNET != 0\nallow clone\n", NULL},
	{"--profile", "allow socket if arg0 in AF_UNIX,AF_INET and arg1 & 0xf == SOCK_STREAM and arg2 != 6\n", NULL},
	{"--profile", "allow mseal=462\n", NULL},
	{"--profile", "allow raed\n", "no system call is named raed"},
	{"--profile", "allow ?raed\n", "no system call is named raed"},
	{"--profile", "allow read\n\nallow raed\n", ":3: "},
	{"--profile", "allow\n", "no system call is named"},
	{"--profile", "permit read\n", "not an action: permit"},
	{"--profile", "errno EWHAT read\n", "not an action: errno EWHAT"},
	{"--profile", "errno 5 read\n", "not an action: errno 5"},
	{"--profile", "allow read if\n", "the line ends where argN"},
	{"--profile", "allow read if arg6 == 1\n", "not an argument"},
	{"--profile", "allow read if arg0\n", "the line ends where an operator"},
	{"--profile", "allow read if arg0 < 1\n", "not an operator"},
	{"--profile", "allow read if arg0 == NO_SUCH\n", "neither a number nor a known name: NO_SUCH"},
	{"--profile", "allow read if arg0 == 0x100000000\n", "neither a number nor a known name"},
	{"--profile", "allow read if arg0 == 1 or arg1 == 2\n", "\"and\" is expected, not or"},
	{"--profile", "allow read if arg0 & 1 == 2\n", "the condition could never hold"},
	{"--profile", "allow read\nerrno EPERM read\n", "this one can never hold"},
	{"--profile", "allow read\nerrno EPERM read if arg0 == 1\n", "this one can never hold"},
	{"--profile", "allow landlock_create_ruleset=445\n", "has number 444, not 445"},
	{"--profile", "allow newcall=12\n", "from 424 on only"},
	{"--marks", "/* #syscalls: read write ?open */\nint x; /* #syscalls-kill: execve */\n", NULL},
	{"--marks", "/* #syscalls: socket if arg0 == AF_UNIX */\n", NULL},
	{"--marks", "// #syscalls: read\n// #syscalls: read\n", NULL},
	{"--marks", "/* #syscalls-allow: read */\n", "not a mark"},
	{"--marks", "/* #syscalls: read */\n/* #syscalls-kill: read */\n", "this one can never hold"},
	{"--marks", "/* #syscalls: */\n", "no system call is named"},
};

static char folder[] = "/tmp/test-generator-XXXXXX";

static void run_generator(const struct row *r, const char *arch, struct buf *message, int *ret_status)
{
	auto_free char *in = xasprintf("%s/in", folder);
	auto_free char *out = xasprintf("%s/out.h", folder);
	int p[2];

	assert_int_equal(file_replace(AT_FDCWD, in, r->text, strlen(r->text), 0600, FILE_NO_SYNC, NULL), 0);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(p[1], 2);
		execl(SECCOMP_GEN, "seccomp-gen", "--name", "x", "--arch", arch, "--output", out, r->how, in, NULL);
		_exit(127);
	}
	close(p[1]);
	auto_fd from = p[0];
	assert_int_equal(fd_read_all(from, message), 0);
	assert_int_equal(waitpid(pid, ret_status, 0), pid);
}

static void test_rows(void **state)
{
	(void)state;
	static const char *const arches[] = {"x86_64", "aarch64"};

	for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(arches); i++) {
		const struct row *r = &rows[i / ARRAY_LEN(arches)];
		auto_buf message = BUF_INIT(64 * 1024);
		int status;
		run_generator(r, arches[i % ARRAY_LEN(arches)], &message, &status);
		bool good =
			r->want ? WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(buf_str(&message), r->want)
				: status == 0 && message.len == 0;
		if (!good)
			print_error("%s: status 0x%x, \"%s\" instead of \"%s\"\n", r->text, (unsigned)status,
				    buf_str(&message), r->want ? r->want : "");
		assert_true(good);
	}
}

static void test_missing_on_the_target(void **state)
{
	(void)state;
	const struct row r = {"--profile", "allow open\n", NULL};
	auto_buf none = BUF_INIT(64 * 1024), message = BUF_INIT(64 * 1024);
	int status;

	run_generator(&r, "x86_64", &none, &status);
	assert_int_equal(status, 0);
	run_generator(&r, "aarch64", &message, &status);
	assert_int_not_equal(status, 0);
	assert_non_null(strstr(buf_str(&message), "write ?open when it may be missing"));
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return tree_remove(AT_FDCWD, folder, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_missing_on_the_target),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
