/* Starting a program, fast and exactly.
 *
 * The child is made with CLONE_VM | CLONE_VFORK: no page tables are copied, the parent sleeps until the exec, and the
 * child reports why its exec failed by writing to the parent's memory. Rules for the code between clone and exec: it
 * runs on its own stack in the parent's memory, so it calls only what does not touch shared state (no malloc, no
 * stdio, no locks) and never returns into the parent's frames. All signals are blocked meanwhile, so that no handler of
 * the parent runs in the child. */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/spawn.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_STACK = 64 * 1024, FIRST_REALTIME = 32 };

/* The child leaves its frames by exec or _exit, never by return: what a sanitizer marked in the shared memory on the
 * way in would stay marked for the parent. */
#define CHILD_SIDE __attribute__((no_sanitize("address")))

struct child {
	const struct spawn_opts *o;
	const char *path_list; /* where a bare name is looked up */
	pid_t parent;
	uint64_t odd_signals;
	int failed;	       /* errno of the step that failed */
	const char *failed_at; /* its name */
};

/* The kernel's struct sigaction; SIG_DFL is all zeros. The C library's call refuses its two internal signals, which
 * whoever was started by its posix_spawn (make is) has ignored (glibc's spawni.c). */
struct kernel_sigaction {
	unsigned long words[8];
};

CHILD_SIDE static long kernel_sigaction(int s, const struct kernel_sigaction *set, struct kernel_sigaction *get)
{
	return syscall(SYS_rt_sigaction, s, set, get, (NSIG - 1) / 8);
}

/* Real-time signals that this process was started with other than as by default, one bit each. Nothing here changes
 * them later, so asking once saves the child half of its calls, while its parent waits. */
static uint64_t odd_realtime(void)
{
	static uint64_t odd;
	static bool asked;

	for (int s = FIRST_REALTIME; !asked && s < NSIG; s++) {
		struct kernel_sigaction now = {{0}};
		if (kernel_sigaction(s, NULL, &now) == 0 && now.words[0] != 0)
			odd |= UINT64_C(1) << (s - 1);
	}
	asked = true;
	return odd;
}

CHILD_SIDE static void reset_signals(uint64_t odd)
{
	static const struct kernel_sigaction dfl = {{0}};

	for (int s = 1; s < NSIG; s++)
		if (s < FIRST_REALTIME ? s != SIGKILL && s != SIGSTOP : (odd >> (s - 1)) & 1)
			(void)kernel_sigaction(s, &dfl, NULL);
	sigset_t none;
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Puts the three descriptors in place. Those that stand on 0, 1, 2 themselves are first moved out of the way. */
CHILD_SIDE static int place_stdio(const int stdio[3])
{
	int from[3];

	for (int i = 0; i < 3; i++) {
		from[i] = stdio[i] < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : stdio[i];
		if (from[i] >= 0 && from[i] < 3)
			from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 3);
		if (from[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++)
		if (dup2(from[i], i) < 0)
			return -errno;
	return 0;
}

/* execve over the PATH list: the first file that can be executed; EACCES is remembered over ENOENT (execvp(3)). */
CHILD_SIDE static int exec_in_path(const struct child *c)
{
	const char *name = c->o->file;
	size_t len = strlen(name);
	int found = ENOENT;

	if (len == 0)
		return ENOENT;
	for (const char *p = c->path_list; p;) {
		const char *end = strchrnul(p, ':');
		char full[PATH_MAX];
		if ((size_t)(end - p) + len + 2 <= sizeof full) {
			size_t n = (size_t)(end - p);
			memcpy(full, p, n);
			full[n] = '/';
			memcpy(full + n + (n > 0), name, len + 1);
			execve(full, c->o->argv, c->o->envp);
			if (errno != ENOENT && errno != ENOTDIR) {
				if (errno != EACCES)
					return errno;
				found = EACCES;
			}
		}
		p = *end ? end + 1 : NULL;
	}
	return found;
}

CHILD_SIDE static int fail(struct child *c, const char *step, int errnum)
{
	c->failed_at = step;
	c->failed = errnum;
	_exit(127);
}

/* A group of its own without a controlling terminal. A session would be both, but the kernel's autogroup scheduling
 * gives each new session a group of its own (sched(7)): on a busy machine a short program then takes twice its time. So
 * the terminal is given back instead (tty_ioctl(2), TIOCNOTTY); without it nothing in this session but its leader can
 * ever have one again. In a container root can put something else in its place, which must not keep us waiting. */
CHILD_SIDE static int leave_group(void)
{
	int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	bool has_none = tty < 0 ? errno == ENXIO : ioctl(tty, TIOCNOTTY) == 0;

	if (tty >= 0)
		close(tty);
	return (has_none ? setpgid(0, 0) : setsid()) < 0 ? -errno : 0;
}

CHILD_SIDE static int child_main(void *arg)
{
	struct child *c = arg;
	const struct spawn_opts *o = c->o;

	if (o->death_signal) {
		/* Both calls: the parent may have died before the first. */
		if (prctl(PR_SET_PDEATHSIG, o->death_signal) < 0)
			return fail(c, "set the parent-death signal", errno);
		if (c->parent > 1 && getppid() != c->parent)
			_exit(127);
	}
	if (o->controlling_tty && setsid() < 0)
		return fail(c, "start a session", errno);
	int r = o->own_group && !o->controlling_tty ? leave_group() : 0;
	if (r < 0)
		return fail(c, "leave the terminal", -r);
	r = place_stdio(o->stdio);
	if (r < 0)
		return fail(c, "set up stdio", -r);
	if (o->controlling_tty && ioctl(0, TIOCSCTTY, 0) < 0)
		return fail(c, "take the terminal", errno);
	if (o->cwd && chdir(o->cwd) < 0)
		return fail(c, "enter the working folder", errno);
	if (o->landlock && syscall(SYS_landlock_restrict_self, o->landlock, 0) < 0)
		return fail(c, "enter Landlock", errno);
	(void)syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
	reset_signals(c->odd_signals);
	if (strchr(o->file, '/')) {
		execve(o->file, o->argv, o->envp);
		return fail(c, "execute", errno);
	}
	return fail(c, "execute", exec_in_path(c));
}

static const char *path_of(char *const *envp)
{
	for (; *envp; envp++)
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	return "/usr/local/bin:/usr/bin:/bin";
}

int spawn_start(const struct spawn_opts *o, pid_t *ret_pid, int *ret_pidfd, struct err *e)
{
	struct child c = {.o = o, .path_list = path_of(o->envp), .parent = getpid(), .odd_signals = odd_realtime()};
	char stack[CHILD_STACK] __attribute__((aligned(16)));
	sigset_t all, old;
	int pidfd = -1;

	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	int flags = CLONE_VM | CLONE_VFORK | SIGCHLD | (ret_pidfd ? CLONE_PIDFD : 0);
	pid_t pid = clone(child_main, stack + sizeof stack, flags, &c, &pidfd);
	int errnum = errno;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return err_sys(e, errnum, "start %s", o->file);
	if (c.failed) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		close_quietly(pidfd);
		if (strcmp(c.failed_at, "enter the working folder") == 0)
			return err_sys(e, c.failed, "start %s: %s %s", o->file, c.failed_at, o->cwd);
		return err_sys(e, c.failed, "start %s: %s", o->file, c.failed_at);
	}
	*ret_pid = pid;
	if (ret_pidfd)
		*ret_pidfd = pidfd;
	return 0;
}

int spawn_reap(pid_t pid, struct spawn_status *ret)
{
	siginfo_t si = {0};

	if (waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG) < 0)
		return -errno;
	if (si.si_pid == 0)
		return 0;
	*ret = (struct spawn_status){
		.signaled = si.si_code != CLD_EXITED,
		.core = si.si_code == CLD_DUMPED,
		.code = si.si_status,
	};
	return 1;
}
