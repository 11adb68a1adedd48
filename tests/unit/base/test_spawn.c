/* Starting programs: exact errors, exactly three descriptors, and the state that the child begins with. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/spawn.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test.h"

/* A literal that execve's interface takes. */
#define WORD(text) ((char[]){text})

static char folder[] = "/tmp/test-base-spawn-XXXXXX";
static int dir = -1;
static char *plain_env[] = {WORD("PATH=/usr/bin:/bin"), NULL};

/* Runs sh -c script and returns what it printed. */
static char *output_of(const char *script, struct spawn_opts o, struct spawn_status *ret_status)
{
	const char *const words[] = {"sh", "-c", script, NULL};
	char *argv[ARRAY_LEN(words)];
	int p[2];
	pid_t pid;
	auto_buf b = BUF_INIT(1 << 20);
	int pidfd = -1;

	memcpy(argv, words, sizeof words);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	o.file = o.file ? o.file : "/bin/sh";
	o.argv = argv;
	o.envp = o.envp ? o.envp : plain_env;
	if (!o.controlling_tty)
		o.stdio[0] = -1;
	o.stdio[1] = o.stdio[2] = p[1];
	struct err e = ERR_INIT;
	int r = spawn_start(&o, &pid, &pidfd, &e);
	if (r < 0)
		print_error("%s\n", e.msg);
	assert_int_equal(r, 0);
	close(p[1]);
	assert_int_equal(fd_read_all(p[0], &b), 0);
	close(p[0]);
	struct pollfd wait_for = {.fd = pidfd, .events = POLLIN};
	assert_int_equal(poll(&wait_for, 1, 10000), 1);
	assert_int_equal(spawn_reap(pid, ret_status), 1);
	close(pidfd);
	return buf_steal(&b);
}

static void put_file(const char *name, const char *text, mode_t mode)
{
	assert_int_equal(file_replace(dir, name, text, strlen(text), mode, FILE_NO_SYNC, NULL), 0);
}

static void test_exact_errors(void **state)
{
	(void)state;
	put_file("plain", "x", 0644);
	put_file("nonsense", "\1\2\3\4", 0755);
	put_file("no-interpreter", "#!/no/such/file\n", 0755);
	assert_int_equal(mkdirat(dir, "folder", 0755), 0);
	assert_int_equal(mkdirat(dir, "second", 0755), 0);
	put_file("second/plain", "#!/bin/sh\nexit 0\n", 0755);
	auto_free char *path_env = xasprintf("PATH=%s:/no/such/folder:%s/plain", folder, folder);
	char *env[] = {path_env, NULL};
	static const struct {
		const char *file; /* below the folder, unless it has no slash */
		const char *cwd;
		int want;
		const char *says;
	} rows[] = {
		{"./missing", NULL, -ENOENT, "start %s: execute: No such file or directory"},
		{"./plain", NULL, -EACCES, "start %s: execute: Permission denied"},
		{"./folder", NULL, -EACCES, NULL},
		{"./nonsense", NULL, -ENOEXEC, "start %s: execute: Exec format error"},
		{"./no-interpreter", NULL, -ENOENT, NULL},
		{"./plain/x", NULL, -ENOTDIR, NULL},
		{"missing", NULL, -ENOENT, NULL},
		{"plain", NULL, -EACCES, NULL},
		{"nonsense", NULL, -ENOEXEC, NULL},
		{"", NULL, -ENOENT, NULL},
		{"/bin/true", "/no/such", -ENOENT,
		 "start %s: enter the working folder /no/such: No such file or directory"},
		{"/bin/true", "/etc/passwd", -ENOTDIR, NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *full = str_starts(rows[i].file, "./") ? xasprintf("%s/%s", folder, rows[i].file + 2)
								      : xstrdup(rows[i].file);
		char *argv[] = {full, NULL};
		struct spawn_opts o = {
			.file = full, .argv = argv, .envp = env, .stdio = {-1, -1, -1}, .cwd = rows[i].cwd};
		struct err e = ERR_INIT;
		pid_t pid = 77;
		int pidfd = 77, r = spawn_start(&o, &pid, &pidfd, &e);
		if (r != rows[i].want)
			print_error("\"%s\": %s\n", rows[i].file, e.msg);
		assert_int_equal(r, rows[i].want);
		assert_true(pid == 77 && pidfd == 77);
		if (rows[i].says) {
			auto_buf want = BUF_INIT(2000);
			const char *hole = strstr(rows[i].says, "%s");
			assert_int_equal(buf_add(&want, rows[i].says, (size_t)(hole - rows[i].says)), 0);
			assert_int_equal(buf_puts(&want, full), 0);
			assert_int_equal(buf_puts(&want, hole + 2), 0);
			assert_string_equal(e.msg, buf_str(&want));
		}
		/* No child is left. */
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
		assert_int_equal(errno, ECHILD);
	}
}

static void test_path_order(void **state)
{
	(void)state;
	struct spawn_status st;
	/* The first folder's file cannot be executed, the second's can. */
	auto_free char *path_env = xasprintf("PATH=%s:%s/second", folder, folder);
	char *env[] = {path_env, NULL};
	char *argv[] = {WORD("plain"), NULL};
	struct spawn_opts o = {.file = "plain", .argv = argv, .envp = env, .stdio = {-1, -1, -1}};
	pid_t pid;

	assert_int_equal(spawn_start(&o, &pid, NULL, NULL), 0);
	siginfo_t si;
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	assert_int_equal(spawn_reap(pid, &st), 1);
	assert_false(st.signaled);
	assert_int_equal(st.code, 0);
}

static void test_status(void **state)
{
	(void)state;
	static const struct {
		const char *script;
		bool signaled;
		int code;
	} rows[] = {{"exit 0", false, 0}, {"exit 255", false, 255}, {"kill -9 $$", true, 9}, {"kill -15 $$", true, 15}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct spawn_status st = {0};
		auto_free char *out = output_of(rows[i].script, (struct spawn_opts){0}, &st);
		assert_int_equal(st.signaled, rows[i].signaled);
		assert_int_equal(st.code, rows[i].code);
	}
	assert_int_equal(spawn_reap(1, &(struct spawn_status){0}), -ECHILD);
}

/* Many descriptors stand open without CLOEXEC; the child sees three. */
static void test_no_descriptor_leaks(void **state)
{
	(void)state;
	int open_fds[50];
	struct spawn_status st;

	for (size_t i = 0; i < ARRAY_LEN(open_fds); i++)
		open_fds[i] = open("/dev/null", O_RDONLY);
	auto_free char *seen = output_of("for i in 0 1 2 $(seq 3 70); do [ ! -e /proc/$$/fd/$i ] || echo $i; done",
					 (struct spawn_opts){0}, &st);
	for (size_t i = 0; i < ARRAY_LEN(open_fds); i++)
		close(open_fds[i]);
	assert_string_equal(seen, "0\n1\n2\n");
}

/* stdio given in each other's places, and on 0, 1, 2 themselves. */
static void test_stdio_permutations(void **state)
{
	(void)state;
	static const int rows[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 2, 2}, {1, 0, 0}, {-1, 0, 1}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			/* Three files whose names tell them apart stand at 0, 1, 2. */
			for (int fd = 0; fd < 3; fd++) {
				char name[] = {'s', (char)('0' + fd), '\0'};
				int f = openat(dir, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
				dup2(f, fd + 100);
			}
			for (int fd = 0; fd < 3; fd++)
				dup2(fd + 100, fd);
			char *argv[] = {WORD("sh"), WORD("-c"),
					WORD("echo from1; echo from2 >&2; readlink /proc/$$/fd/0 >&2"), NULL};
			struct spawn_opts o = {.file = "/bin/sh", .argv = argv, .envp = plain_env};
			memcpy(o.stdio, rows[i], sizeof rows[i]);
			pid_t pid;
			if (spawn_start(&o, &pid, NULL, NULL) < 0)
				_exit(90);
			if (waitpid(pid, &status, 0) != pid || status != 0)
				_exit(91);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		char out_name[] = {'s', (char)('0' + rows[i][1]), '\0'},
		     err_name[] = {'s', (char)('0' + rows[i][2]), '\0'};
		char in_name[32] = "/dev/null";
		if (rows[i][0] >= 0)
			snprintf(in_name, sizeof in_name, "/s%d\n", rows[i][0]);
		char *out = NULL, *errs = NULL;
		assert_int_equal(file_read(dir, out_name, 1000, &out, NULL, NULL), 0);
		assert_int_equal(file_read(dir, err_name, 1000, &errs, NULL, NULL), 0);
		assert_non_null(strstr(out, "from1\n"));
		assert_non_null(strstr(errs, "from2\n"));
		assert_non_null(strstr(errs, in_name));
		free(out);
		free(errs);
	}
}

static void handler(int sig)
{
	(void)sig;
}

static void test_signals_are_default(void **state)
{
	(void)state;
	sigset_t some, old;
	struct spawn_status st;

	signal(SIGUSR1, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, handler);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	sigprocmask(SIG_BLOCK, &some, &old);
	auto_free char *seen = output_of("grep -E '^Sig(Blk|Ign)' /proc/self/status", (struct spawn_opts){0}, &st);
	sigset_t now;
	sigprocmask(SIG_SETMASK, &old, &now);
	/* Ours stayed as they were. */
	assert_true(sigismember(&now, SIGUSR2) && !sigismember(&now, SIGTERM));
	signal(SIGUSR1, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	assert_string_equal(seen, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

/* What a shell is: its id, session, group, and whether it has a terminal. */
#define SHOW_PLACE "cut -d' ' -f1,5,6 /proc/$$/stat; if (: </dev/tty) 2>/dev/null; then echo tty; else echo none; fi"

struct place {
	int pid, pgid, sid;
	char tty[8];
};

static struct place place_of(struct spawn_opts o)
{
	struct spawn_status st;
	struct place p = {0};
	auto_free char *seen = output_of(SHOW_PLACE, o, &st);

	/* cppcheck-suppress invalidscanf: three numbers and a word of our own command */
	assert_int_equal(sscanf(seen, "%d %d %d %7s", &p.pid, &p.pgid, &p.sid, p.tty), 4);
	return p;
}

static void check_own_group(void)
{
	struct place p = place_of((struct spawn_opts){.own_group = true});

	assert_true(p.pid > 0 && p.pid == p.pgid && p.sid == getsid(0));
	assert_string_equal(p.tty, "none");
}

static void test_own_group(void **state)
{
	(void)state;
	int main_side, tty, status;

	check_own_group();
	/* Also where the caller has a terminal, which it keeps. */
	assert_int_equal(openpty(&main_side, &tty, NULL, NULL, NULL), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (setsid() < 0 || ioctl(tty, TIOCSCTTY, 0) < 0)
			_exit(2);
		assert_string_equal(place_of((struct spawn_opts){0}).tty, "tty");
		check_own_group();
		assert_string_equal(place_of((struct spawn_opts){0}).tty, "tty");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(tty);
	close(main_side);
}

static void test_controlling_tty(void **state)
{
	(void)state;
	struct spawn_status st;
	int main_side, tty;

	assert_int_equal(openpty(&main_side, &tty, NULL, NULL, NULL), 0);
	auto_free char *name =
		output_of("ls -l /dev/tty >/dev/null && exec 3</dev/tty && tty",
			  (struct spawn_opts){.own_group = true, .controlling_tty = true, .stdio = {tty, -1, -1}}, &st);
	assert_int_equal(st.code, 0);
	assert_true(str_starts(name, "/dev/pts/"));
	close(tty);
	close(main_side);
}

static void test_cwd_and_env(void **state)
{
	(void)state;
	struct spawn_status st;
	struct strv env = {0};

	for (int i = 0; i < 2000; i++) {
		auto_free char *name = xasprintf("VARIABLE_%d", i);
		strv_set_env(&env, name, "0123456789012345678901234567890123456789012345678901234567890123456789");
	}
	strv_set_env(&env, "PATH", "/usr/bin:/bin");
	struct spawn_opts o = {.cwd = folder, .envp = env.v, .file = "sh"};
	auto_free char *seen = output_of("pwd -P; env | grep -c ^VARIABLE_", o, &st);
	auto_free char *want = xasprintf("%s\n2000\n", folder);
	assert_string_equal(seen, want);
	strv_done(&env);
}

static void test_too_big(void **state)
{
	(void)state;
	char *huge = xmalloc(200 * 1024 + 1);
	pid_t pid;

	memset(huge, 'x', 200 * 1024);
	huge[200 * 1024] = '\0';
	char *argv[] = {WORD("true"), huge, NULL};
	struct spawn_opts o = {.file = "/bin/true", .argv = argv, .envp = plain_env, .stdio = {-1, -1, -1}};
	assert_int_equal(spawn_start(&o, &pid, NULL, NULL), -E2BIG);
	free(huge);
}

/* The one that started it dies; so does the child. */
static void test_death_signal(void **state)
{
	(void)state;
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid_t starter = fork();
	if (starter == 0) {
		char *argv[] = {WORD("sleep"), WORD("60"), NULL};
		/* The child holds the pipe: its end is seen when the last holder is gone. */
		struct spawn_opts o = {.file = "sleep",
				       .argv = argv,
				       .envp = plain_env,
				       .stdio = {-1, p[1], -1},
				       .death_signal = SIGKILL};
		pid_t pid;
		_exit(spawn_start(&o, &pid, NULL, NULL) < 0 ? 1 : 0);
	}
	close(p[1]);
	int status;
	assert_int_equal(waitpid(starter, &status, 0), starter);
	assert_int_equal(status, 0);
	struct pollfd end = {.fd = p[0], .events = POLLIN};
	assert_int_equal(poll(&end, 1, 10000), 1);
	assert_true(end.revents & POLLHUP);
	close(p[0]);
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
		cmocka_unit_test(test_exact_errors),
		cmocka_unit_test(test_path_order),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_no_descriptor_leaks),
		cmocka_unit_test(test_stdio_permutations),
		cmocka_unit_test(test_signals_are_default),
		cmocka_unit_test(test_own_group),
		cmocka_unit_test(test_controlling_tty),
		cmocka_unit_test(test_cwd_and_env),
		cmocka_unit_test(test_too_big),
		cmocka_unit_test(test_death_signal),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
