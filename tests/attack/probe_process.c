/* Attempts on other processes, and what a process can tell about itself. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int ptrace_attach(char **a)
{
	pid_t pid = (pid_t)number(a[0]);

	if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) < 0)
		return -errno;
	(void)waitpid(pid, NULL, __WALL);
	(void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
	return 0;
}

static int ptrace_seize(char **a)
{
	return result(ptrace(PTRACE_SEIZE, (pid_t)number(a[0]), NULL, NULL));
}

/* An address that is mapped in every process would need its maps; an unmapped one still shows whether the kernel let
 * us in: EPERM without permission, EFAULT with it. */
static int vm(const char *pid, ssize_t (*call)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
					       unsigned long, unsigned long))
{
	char buf[8] = {0};
	struct iovec mine = {.iov_base = buf, .iov_len = sizeof buf};
	struct iovec theirs = {.iov_base = (void *)(uintptr_t)0x1000, .iov_len = sizeof buf};
	ssize_t n = call((pid_t)number(pid), &mine, 1, &theirs, 1, 0);

	if (n < 0 && errno == EFAULT)
		return detail("the process let us in"), 0;
	return result(n);
}

static int vm_read(char **a)
{
	return vm(a[0], process_vm_readv);
}

static int vm_write(char **a)
{
	return vm(a[0], process_vm_writev);
}

static int take_fd(char **a)
{
	int fd = (int)syscall(SYS_pidfd_open, number(a[0]), 0);

	return fd < 0 ? -errno : result(syscall(SYS_pidfd_getfd, fd, number(a[1]), 0));
}

static int send_signal(char **a)
{
	return result(kill((pid_t)number(a[0]), (int)number(a[1])));
}

static int compare(char **a)
{
	return result(syscall(SYS_kcmp, getpid(), number(a[0]), 1 /* KCMP_VM */, 0, 0));
}

static int list_dir(char **a)
{
	DIR *d = opendir(a[0]);

	if (!d)
		return -errno;
	errno = 0;
	for (const struct dirent *e = readdir(d); e; e = readdir(d))
		if (e->d_name[0] != '.')
			detail("%s ", e->d_name);
	int r = -errno;
	(void)closedir(d);
	return r;
}

/* The process numbers that /proc shows. */
static int list_pids(char **a)
{
	DIR *d = opendir("/proc");

	(void)a;
	if (!d)
		return -errno;
	for (const struct dirent *e = readdir(d); e; e = readdir(d))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			detail("%s ", e->d_name);
	(void)closedir(d);
	return 0;
}

/* The process numbers that kill(2) finds, which does not need /proc. */
static int scan_pids(char **a)
{
	long limit = number(a[0]), found = 0;

	for (long pid = 1; pid <= limit; pid++)
		if (kill((pid_t)pid, 0) == 0 || errno == EPERM)
			found++;
	detail("%ld", found);
	return 0;
}

static int list_fds(char **a)
{
	(void)a;
	for (int fd = 0; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			detail("%d ", fd);
	return 0;
}

static int get_ids(char **a)
{
	gid_t groups[64];
	int n = getgroups(64, groups);

	(void)a;
	detail("uid=%u euid=%u gid=%u egid=%u groups=%d", getuid(), geteuid(), getgid(), getegid(), n);
	return 0;
}

static int become_root(char **a)
{
	(void)a;
	if (setresuid(0, 0, 0) < 0)
		return -errno;
	/* An ordinary user who was root in name only still owns nothing: what counts is a privileged act. */
	return result(setgroups(0, NULL));
}

static int raise_capability(char **a)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};
	long cap = number(a[0]);

	caps[cap / 32].effective = caps[cap / 32].permitted = 1u << (cap % 32);
	return result(syscall(SYS_capset, &head, caps));
}

static int core_limit(char **a)
{
	struct rlimit l;

	(void)a;
	if (getrlimit(RLIMIT_CORE, &l) < 0)
		return -errno;
	detail("%llu %llu", (unsigned long long)l.rlim_cur, (unsigned long long)l.rlim_max);
	return 0;
}

static int crash(char **a)
{
	(void)a;
	abort();
	return 0;
}

/* Starts n children that wait, counts those that came to be, and ends them all. */
static int fork_many(char **a)
{
	long n = number(a[0]), made = 0;
	int hold[2], r = 0;

	if (pipe2(hold, O_CLOEXEC) < 0)
		return -errno;
	while (made < n && r == 0) {
		pid_t pid = fork();
		if (pid == 0) {
			char c;
			(void)close(hold[1]);
			_exit(read(hold[0], &c, 1) < 0);
		}
		if (pid < 0)
			r = -errno;
		else
			made++;
	}
	(void)close(hold[1]);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	if (r == 0)
		detail("%ld", made);
	return r;
}

static int take_memory(char **a)
{
	size_t size = (size_t)number(a[0]) << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
	return 0;
}

static int wait_long(char **a)
{
	(void)a;
	puts("waiting");
	(void)fflush(stdout);
	while (pause() < 0)
		;
	return 0;
}

const struct attempt process_attempts[] = {
	{"ptrace-attach", "PID", ptrace_attach},
	{"ptrace-seize", "PID", ptrace_seize},
	{"vm-read", "PID", vm_read},
	{"vm-write", "PID", vm_write},
	{"pidfd-getfd", "PID FD", take_fd},
	{"kill", "PID SIGNAL", send_signal},
	{"kcmp", "PID", compare},
	{"list", "FOLDER", list_dir},
	{"pids", "", list_pids},
	{"scan-pids", "LIMIT", scan_pids},
	{"fds", "", list_fds},
	{"ids", "", get_ids},
	{"become-root", "", become_root},
	{"capset", "CAPABILITY", raise_capability},
	{"core-limit", "", core_limit},
	{"abort", "", crash},
	{"forks", "COUNT", fork_many},
	{"memory", "MIB", take_memory},
	{"wait", "", wait_long},
	{0},
};
