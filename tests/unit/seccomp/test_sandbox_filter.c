/* The sandbox's filter, installed for real. A child per run tries a table of system calls and leaves what each said in
 * shared memory. As root every refused call is also tried without the filter, where it must answer otherwise: else the
 * row would show nothing. Arguments are such that a call which is let through does no harm. */
#include <base/mem.h>

#include "sandbox_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { NOBODY = 65534, SAME_WITHOUT = 1 };

struct row {
	const char *what;
	long nr;
	int want;  /* errno; 0: succeeds */
	int flags; /* SAME_WITHOUT: the kernel may say the same by itself */
	unsigned long args[6];
};

#define HIGH_BIT (1ul << 32)
#define BAD ((unsigned long)-1)
#define ARG(x) ((unsigned long)(x))

static int pair[2];

/* Refused, whoever asks. */
static const struct row refused[] = {
	{"unshare user", SYS_unshare, EPERM, 0, {CLONE_NEWUSER | 1}},
	{"unshare mount", SYS_unshare, EPERM, 0, {CLONE_NEWNS | 1}},
	{"setns", SYS_setns, EPERM, 0, {BAD, 0}},
	{"clone3", SYS_clone3, ENOSYS, 0, {0, 0}},
	{"clone user", SYS_clone, EPERM, 0, {CLONE_NEWUSER | CLONE_THREAD}},
	{"clone net", SYS_clone, EPERM, 0, {CLONE_NEWNET | CLONE_THREAD}},
	{"clone pid, high bit", SYS_clone, EPERM, 0, {CLONE_NEWPID | CLONE_THREAD | HIGH_BIT}},
	{"clone cgroup", SYS_clone, EPERM, 0, {CLONE_NEWCGROUP | CLONE_THREAD}},
	{"mount", SYS_mount, EPERM, 0, {0, BAD, BAD, 0, 0}},
	{"umount2", SYS_umount2, EPERM, 0, {BAD, 0}},
	{"pivot_root", SYS_pivot_root, EPERM, 0, {BAD, BAD}},
	{"chroot", SYS_chroot, EPERM, 0, {BAD}},
	{"open_tree", SYS_open_tree, EPERM, 0, {BAD, BAD, 0}},
	{"move_mount", SYS_move_mount, EPERM, 0, {BAD, BAD, BAD, BAD, 0}},
	{"fsopen", SYS_fsopen, EPERM, 0, {BAD, 0}},
	{"fsconfig", SYS_fsconfig, EPERM, 0, {BAD, 0, 0, 0, 0}},
	{"fsmount", SYS_fsmount, EPERM, 0, {BAD, 0, 0}},
	{"fspick", SYS_fspick, EPERM, 0, {BAD, BAD, 0}},
	{"mount_setattr", SYS_mount_setattr, EPERM, 0, {BAD, BAD, 0, 0, 0}},
	{"open_by_handle_at", SYS_open_by_handle_at, EPERM, 0, {BAD, BAD, 0}},
	{"add_key", SYS_add_key, EPERM, 0, {BAD, BAD, 0, 0, 0}},
	{"keyctl", SYS_keyctl, EPERM, 0, {BAD, 0, 0, 0, 0}},
	{"request_key", SYS_request_key, EPERM, 0, {BAD, BAD, 0, 0}},
	{"bpf", SYS_bpf, EPERM, 0, {BAD, 0, 0}},
	{"perf_event_open", SYS_perf_event_open, EPERM, 0, {BAD, 0, 0, 0, 0}},
	{"userfaultfd", SYS_userfaultfd, EPERM, 0, {BAD}},
	{"io_uring_setup", SYS_io_uring_setup, EPERM, SAME_WITHOUT, {0, BAD}},
	{"io_uring_enter", SYS_io_uring_enter, EPERM, 0, {BAD, 0, 0, 0, 0, 0}},
	{"io_uring_register", SYS_io_uring_register, EPERM, 0, {BAD, 0, 0, 0}},
	{"init_module", SYS_init_module, EPERM, 0, {0, 0, BAD}},
	{"finit_module", SYS_finit_module, EPERM, 0, {BAD, BAD, 0}},
	{"delete_module", SYS_delete_module, EPERM, 0, {BAD, 0}},
	{"kexec_load", SYS_kexec_load, EPERM, SAME_WITHOUT, {0, BAD, 0, 0}},
	{"reboot", SYS_reboot, EPERM, 0, {0, 0, 0, 0}},
	{"swapon", SYS_swapon, EPERM, 0, {BAD, 0}},
	{"swapoff", SYS_swapoff, EPERM, 0, {BAD}},
	{"acct", SYS_acct, EPERM, 0, {BAD}},
	{"quotactl", SYS_quotactl, EPERM, 0, {BAD, 0, 0, 0}},
	{"syslog", SYS_syslog, EPERM, 0, {BAD, 0, 0}},
	{"settimeofday", SYS_settimeofday, EPERM, 0, {BAD, 0}},
	{"clock_settime", SYS_clock_settime, EPERM, 0, {0, BAD}},
	{"adjtimex", SYS_adjtimex, EPERM, 0, {BAD}},
	{"clock_adjtime", SYS_clock_adjtime, EPERM, 0, {0, BAD}},
	{"sethostname", SYS_sethostname, EPERM, 0, {0, BAD}},
	{"setdomainname", SYS_setdomainname, EPERM, 0, {0, BAD}},
	{"lookup_dcookie", SYS_lookup_dcookie, EPERM, SAME_WITHOUT, {0, 0, 0}},
	{"kcmp", SYS_kcmp, EPERM, 0, {0, 0, 0, 0, 0}},
	{"pidfd_getfd", SYS_pidfd_getfd, EPERM, 0, {BAD, 0, 0}},
	{"fanotify_init", SYS_fanotify_init, EPERM, 0, {BAD, 0}},
	{"mbind", SYS_mbind, EPERM, 0, {0, 0, BAD, 0, 0, 0}},
	{"mknodat character device", SYS_mknodat, EPERM, 0, {BAD, ARG("x"), S_IFCHR | 0600, 0}},
	{"mknodat block device", SYS_mknodat, EPERM, 0, {BAD, ARG("x"), S_IFBLK | 0600, 0}},
	{"mknodat device, high bit", SYS_mknodat, EPERM, 0, {BAD, ARG("x"), HIGH_BIT | S_IFCHR, 0}},
	{"TIOCSETD", SYS_ioctl, EPERM, 0, {BAD, TIOCSETD, 0}},
	{"TIOCSTI", SYS_ioctl, EPERM, 0, {BAD, TIOCSTI, 0}},
	{"TIOCSTI, high bit", SYS_ioctl, EPERM, 0, {BAD, HIGH_BIT | TIOCSTI, 0}},
	{"TIOCLINUX", SYS_ioctl, EPERM, 0, {BAD, 0x541c, 0}},
	{"raw socket", SYS_socket, EPERM, 0, {AF_INET, SOCK_RAW, IPPROTO_TCP}},
	{"raw socket, flags", SYS_socket, EPERM, 0, {AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP}},
	{"raw socket, high bits", SYS_socket, EPERM, 0, {HIGH_BIT | AF_INET, HIGH_BIT | SOCK_RAW, IPPROTO_TCP}},
	{"packet socket", SYS_socket, EPERM, 0, {AF_PACKET, SOCK_DGRAM, 0}},
	{"packet type", SYS_socket, EPERM, SAME_WITHOUT, {AF_INET, SOCK_PACKET, 0}},
	{"mptcp", SYS_socket, EPROTONOSUPPORT, SAME_WITHOUT, {AF_INET, SOCK_STREAM, 262}},
	{"audit netlink", SYS_socket, EPROTONOSUPPORT, SAME_WITHOUT, {AF_NETLINK, SOCK_RAW, NETLINK_AUDIT}},
	{"uevent netlink", SYS_socket, EPROTONOSUPPORT, 0, {AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT}},
	{"AF_ALG", SYS_socket, EAFNOSUPPORT, SAME_WITHOUT, {AF_ALG, SOCK_SEQPACKET, 0}},
	{"AF_VSOCK", SYS_socket, EAFNOSUPPORT, SAME_WITHOUT, {AF_VSOCK, SOCK_STREAM, 0}},
	{"AF_TIPC pair", SYS_socketpair, EAFNOSUPPORT, SAME_WITHOUT, {AF_TIPC, SOCK_STREAM, 0, BAD}},
	{"limits of PID 1", SYS_prlimit64, EPERM, 0, {1, 7, 0, 0}},
	{"personality READ_IMPLIES_EXEC", SYS_personality, EPERM, 0, {READ_IMPLIES_EXEC}},
	{"a call of the future", 1000, ENOSYS, SAME_WITHOUT, {0}},
#ifdef __x86_64__
	{"x32 getpid", 0x40000000 | SYS_getpid, ENOSYS, SAME_WITHOUT, {0}},
	{"modify_ldt", SYS_modify_ldt, ENOSYS, SAME_WITHOUT, {BAD, 0, 0}},
	{"iopl", SYS_iopl, EPERM, 0, {BAD}},
	{"ioperm", SYS_ioperm, EPERM, 0, {BAD, BAD, 1}},
	{"mknod device", SYS_mknod, EPERM, 0, {BAD, S_IFBLK, 0}},
#endif
};

/* Let through: what the kernel itself answers to these arguments. */
static const struct row let_through[] = {
	{"getpid", SYS_getpid, 0, 0, {0}},
	{"read", SYS_read, EBADF, 0, {BAD, 0, 0}},
	{"openat2", SYS_openat2, EINVAL, 0, {BAD, 0, 0, 0}},
	{"statx", SYS_statx, EFAULT, 0, {ARG(AT_FDCWD), ARG("/"), 0, 0, 0}},
	{"setxattr", SYS_fsetxattr, EBADF, 0, {BAD, ARG("user.x"), ARG("x"), 1, 0}},
	{"fchown", SYS_fchown, EBADF, 0, {BAD, 0, 0}},
	{"mknodat FIFO", SYS_mknodat, EBADF, 0, {BAD, ARG("x"), S_IFIFO | 0600, 0}},
	{"mknodat file", SYS_mknodat, EBADF, 0, {BAD, ARG("x"), S_IFREG | 0600, 0}},
	{"mknodat socket", SYS_mknodat, EBADF, 0, {BAD, ARG("x"), S_IFSOCK | 0600, 0}},
	{"name_to_handle_at", SYS_name_to_handle_at, EFAULT, 0, {BAD, BAD, 0, 0, 0}},
	{"ioctl TCGETS", SYS_ioctl, EBADF, 0, {BAD, TCGETS, 0}},
	{"ioctl TIOCSCTTY", SYS_ioctl, EBADF, 0, {BAD, TIOCSCTTY, 0}},
	{"unix socket", SYS_socket, 0, 0, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0}},
	{"tcp socket", SYS_socket, 0, 0, {AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP}},
	{"tcp6 socket", SYS_socket, 0, 0, {AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0}},
	{"udp socket", SYS_socket, 0, 0, {AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP}},
	{"route netlink", SYS_socket, 0, 0, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE}},
	{"inet pair", SYS_socketpair, EOPNOTSUPP, 0, {AF_INET, SOCK_STREAM, 0, ARG(pair)}},
	{"personality query", SYS_personality, 0, 0, {0xffffffff}},
	{"personality ADDR_NO_RANDOMIZE", SYS_personality, 0, 0, {ADDR_NO_RANDOMIZE}},
	{"ptrace", SYS_ptrace, ESRCH, 0, {16 /* PTRACE_ATTACH */, 0x7fffffff, 0, 0}},
	{"process_vm_readv", SYS_process_vm_readv, 0, 0, {0x7fffffff, 0, 0, 0, 0, 0}},
	{"seccomp", SYS_seccomp, EINVAL, 0, {BAD, 0, 0}},
	{"memfd_create", SYS_memfd_create, 0, 0, {ARG("x"), 1}},
	{"pidfd_open", SYS_pidfd_open, EINVAL, 0, {0, 0}},
	{"setuid to oneself", SYS_setresuid, 0, 0, {BAD, BAD, BAD}},
	{"futex", SYS_futex, ENOSYS, 0, {0, 127, 0, 0, 0, 0}},
	{"io_setup", SYS_io_setup, EFAULT, 0, {1, 0}},
	{"inotify_init1", SYS_inotify_init1, 0, 0, {0}},
	{"sched_setaffinity", SYS_sched_setaffinity, EFAULT, 0, {0, 8, 0}},
	{"getrandom", SYS_getrandom, 0, 0, {0, 0, 0}},
};

enum who { AS_SELF, AS_NOBODY };
enum filter { WITH_FILTER, WITHOUT_FILTER };

static void install_or_die(void)
{
	union {
		const struct sock_filter *is;
		struct sock_filter *wanted;
	} filter = {.is = sandbox_filter};
	const struct sock_fprog prog = {.len = sandbox_filter_len, .filter = filter.wanted};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0) {
		perror("install the filter");
		_exit(99);
	}
}

static void become(enum who who)
{
	if (who == AS_NOBODY && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
				 setresuid(NOBODY, NOBODY, NOBODY) < 0)) {
		perror("become nobody");
		_exit(99);
	}
}

static int status_of(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Tries every row in a child; got[i] is the errno, or 0. */
static void try_rows(const struct row *rows, size_t n, int *got, enum who who, enum filter filter)
{
	pid_t pid = fork();

	if (pid == 0) {
		become(who);
		if (filter == WITH_FILTER)
			install_or_die();
		for (size_t i = 0; i < n; i++) {
			const unsigned long *a = rows[i].args;
			errno = 0;
			got[i] = syscall(rows[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]) < 0 ? errno : 0;
		}
		_exit(0);
	}
	assert_int_equal(status_of(pid), 0);
}

static int *shared_results(void)
{
	size_t size = (ARRAY_LEN(refused) + ARRAY_LEN(let_through)) * sizeof(int);
	int *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void expect_rows(const struct row *rows, const int *got, size_t n, const char *who)
{
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++) {
		if (got[i] == rows[i].want)
			continue;
		wrong++;
		print_error("%s, as %s: %s instead of %s\n", rows[i].what, who, strerrorname_np(got[i]),
			    strerrorname_np(rows[i].want));
	}
	assert_int_equal(wrong, 0);
}

static void test_refused(void **state)
{
	(void)state;
	int *got = shared_results();

	try_rows(refused, ARRAY_LEN(refused), got, AS_SELF, WITH_FILTER);
	expect_rows(refused, got, ARRAY_LEN(refused), "the user of the test");
	if (geteuid() != 0)
		return;
	try_rows(refused, ARRAY_LEN(refused), got, AS_NOBODY, WITH_FILTER);
	expect_rows(refused, got, ARRAY_LEN(refused), "nobody");
}

static void test_refused_by_the_filter_alone(void **state)
{
	(void)state;
	size_t wrong = 0;

	if (geteuid() != 0) {
		print_message("skipped: only root is refused by nothing but the filter\n");
		skip();
	}
	int *got = shared_results();
	try_rows(refused, ARRAY_LEN(refused), got, AS_SELF, WITHOUT_FILTER);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		if (got[i] != refused[i].want || refused[i].flags & SAME_WITHOUT)
			continue;
		wrong++;
		print_error("%s: %s also without the filter\n", refused[i].what, strerrorname_np(got[i]));
	}
	assert_int_equal(wrong, 0);
}

static void test_let_through(void **state)
{
	(void)state;
	int *got = shared_results();

	try_rows(let_through, ARRAY_LEN(let_through), got, AS_SELF, WITHOUT_FILTER);
	expect_rows(let_through, got, ARRAY_LEN(let_through), "the user of the test, without the filter");
	try_rows(let_through, ARRAY_LEN(let_through), got, AS_SELF, WITH_FILTER);
	expect_rows(let_through, got, ARRAY_LEN(let_through), "the user of the test");
	if (geteuid() != 0)
		return;
	try_rows(let_through, ARRAY_LEN(let_through), got, AS_NOBODY, WITH_FILTER);
	expect_rows(let_through, got, ARRAY_LEN(let_through), "nobody");
}

static void *run_thread(void *arg)
{
	return arg;
}

/* What shells and runtimes do all day, through the C library. */
static int ordinary_work(void)
{
	pthread_t thread;
	void *back = NULL;
	int x;

	if (pthread_create(&thread, NULL, run_thread, &x) != 0 || pthread_join(thread, &back) != 0 || back != &x)
		return 1;
	/* cppcheck-suppress popen: a shell with a pipe and a subshell is the thing under test */
	FILE *f = popen("(echo one; echo two) | cat | wc -l", "re");
	char line[16] = "";
	if (!f || !fgets(line, sizeof line, f) || atoi(line) != 2 || pclose(f) != 0)
		return 2;
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 3;
	pid_t pid = fork();
	if (pid == 0)
		_exit(7);
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7)
		return 4;
	return 0;
}

static void test_ordinary_work(void **state)
{
	(void)state;
	pid_t pid = fork();

	if (pid == 0) {
		install_or_die();
		_exit(ordinary_work());
	}
	assert_int_equal(status_of(pid), 0);
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
/* getpid by the i386 table. */
static long call_i386(void)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	return r;
}

static int i386_child(enum filter filter)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (filter == WITH_FILTER)
			install_or_die();
		_exit(call_i386() > 0 ? 0 : 1);
	}
	return status_of(pid);
}

static void test_i386_is_killed(void **state)
{
	(void)state;

	if (i386_child(WITHOUT_FILTER) != 0) {
		print_message("skipped: the kernel has no i386 calls\n");
		skip();
	}
	int status = i386_child(WITH_FILTER);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_by_the_filter_alone),
		cmocka_unit_test(test_let_through),
		cmocka_unit_test(test_ordinary_work),
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(test_i386_is_killed),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
