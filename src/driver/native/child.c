/* The first process of a native sandbox.
 *
 * One clone puts it into all its namespaces at once: it is PID 1 there, and in a new user namespace it has every
 * capability over the others. Stages:
 *   1. tie its life to ours, so that no moment exists in which our death leaves it behind; with limits, enter what
 *      holds them (hold.c), unless it was born there;
 *   2. map its own user (in a user namespace), after which files it makes have an owner;
 *   3. build the file system and leave the old one; from here on no path of the host can be named;
 *   4. loopback and host name;
 *   5. close the locks (confine.c); nothing privileged works any more;
 *   6. become the guest: a fresh program, so that none of our memory (environment, keys) is inside.
 * It is a copy of the parent until stage 6, so it touches none of the parent's loop or buffers, and leaves only by exec
 * or _exit. */
#include "child.h"
#include "apply.h"
#include "confine.h"
#include "hold.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/frame.h>
#include <base/mem.h>
#include <guest/protocol.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

bool child_is_privileged(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};

	return syscall(SYS_capget, &head, caps) == 0 && (caps[0].effective & (1u << CAP_SYS_ADMIN));
}

static int build(const struct child_params *p, bool born, struct err *e)
{
	static const char host_name[] = "iterion";
	int r = 0;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(e, errno, "tie the sandbox to this process");
	if (p->hold)
		r = hold_enter(p->hold, born, e);
	if (r == 0 && p->user_namespace)
		r = confine_map_ids(&p->ids, e);
	if (r == 0)
		r = plan_apply(p->plan, e);
	if (r == 0 && p->own_network)
		r = confine_loopback_up(e);
	if (r == 0 && sethostname(host_name, sizeof host_name - 1) < 0)
		r = err_sys(e, errno, "set the sandbox's host name");
	return r < 0 ? r : confine_privileges(&p->ids, e);
}

/* Only the control channel goes on; 0, 1 and 2 lead nowhere. */
static int place_descriptors(int control, struct err *e)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd < GUEST_CONTROL_FD; fd++)
		if (fd != null && dup2(null, fd) < 0)
			return err_sys(e, errno, "set up standard streams");
	if (null < 0 || dup2(control, GUEST_CONTROL_FD) < 0)
		return err_sys(e, errno, "set up the control channel");
	if (syscall(SYS_close_range, GUEST_CONTROL_FD + 1u, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		return err_sys(e, errno, "close what was inherited");
	return 0;
}

static int become_guest(int control, struct err *e)
{
	char name[] = "iterion-init", job[] = "init";
	char *const argv[] = {name, job, NULL}, *const env[] = {NULL};

	int r = place_descriptors(control, e);
	if (r < 0)
		return r;
	execve(GUEST_PATH, argv, env);
	r = err_sys(e, errno, "run iterion-guest in the sandbox");
	err_hint(e, "The file must be executable for this user, static, and of this machine's architecture.");
	return r;
}

__attribute__((noreturn)) static void child_main(const struct child_params *p, bool born, int control)
{
	struct err e = ERR_INIT;

	/* Above what place_descriptors overwrites. */
	control = fcntl(control, F_DUPFD_CLOEXEC, 16);
	int r = build(p, born, &e);
	if (r == 0)
		(void)!become_guest(control, &e);
	auto_buf b = BUF_INIT(4096);
	struct frame_conn *c = frame_conn_new(control, FRAME_MAX_PAYLOAD);
	if (guest_err_pack(&b, &e) == 0)
		(void)!frame_send(c, GUEST_FAILED, 0, b.data, b.len, NULL, 0);
	_exit(1);
}

static int explain_clone(int errnum, bool user_namespace, struct err *e)
{
	int r = err_sys(e, errnum, "make the sandbox's namespaces");

	if (errnum == EPERM && user_namespace)
		err_hint(e, "This kernel refuses user namespaces to ordinary users. Allow them (`sysctl "
			    "kernel.unprivileged_userns_clone=1` on older Debian, `sysctl "
			    "kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu 24.04; not inside a chroot), or "
			    "choose another driver with --sandbox-driver.");
	else if (errnum == ENOSPC || errnum == EUSERS)
		err_hint(e, "The limit of namespaces is reached: raise user.max_user_namespaces and its neighbours "
			    "(sysctl), or run fewer sandboxes at once.");
	else
		err_hint(e, "Run as a user who may make namespaces, or choose another driver with --sandbox-driver.");
	return r;
}

/* Without limits the cgroup namespace is made at once, and else when its cgroup was entered. */
static uint64_t namespaces(bool user_namespace, bool own_network, bool limits)
{
	return CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | (limits ? 0u : CLONE_NEWCGROUP) |
	       (user_namespace ? CLONE_NEWUSER : 0u) | (own_network ? CLONE_NEWNET : 0u);
}

/* clone(2) by number: it takes every flag that is needed here, and unlike clone3 it is known to old filters and tools
 * (valgrind, container engines' profiles). The order of the last two arguments differs by machine; both are 0. */
static pid_t clone_into(uint64_t flags, int *ret_pidfd)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD | (ret_pidfd ? CLONE_PIDFD : 0u), NULL, ret_pidfd, NULL, NULL);
}

/* clone3(2) is the only one that lets a process be born in a cgroup: entering one afterwards waits for all processors.
 */
static pid_t clone_in_cgroup(uint64_t flags, int cgroup, int *ret_pidfd)
{
	union {
		int *p;
		uint64_t number;
	} pidfd = {.p = ret_pidfd};
	const struct clone_args args = {.flags = flags | CLONE_PIDFD | CLONE_INTO_CGROUP,
					.pidfd = pidfd.number,
					.exit_signal = SIGCHLD,
					.cgroup = (unsigned)cgroup};

	return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

/* Where it cannot be born in its cgroup (an old filter around us), it enters it. */
static pid_t clone_child(const struct child_params *p, int *ret_pidfd, bool *ret_born)
{
	uint64_t flags = namespaces(p->user_namespace, p->own_network, p->hold != NULL);
	int cgroup = hold_birth(p->hold);

	*ret_born = true;
	pid_t pid = cgroup >= 0 ? clone_in_cgroup(flags, cgroup, ret_pidfd) : -1;
	if (pid >= 0)
		return pid;
	*ret_born = false;
	return clone_into(flags, ret_pidfd);
}

/* The switches by which systems refuse user namespaces to ordinary users; one that does not exist refuses nothing. */
bool child_doubtful(void)
{
	static const struct {
		const char *path;
		char refuses;
	} switches[] = {
		{"/proc/sys/kernel/unprivileged_userns_clone", '0'},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1'},
		{"/proc/sys/user/max_user_namespaces", '0'},
	};

	for (size_t i = 0; i < ARRAY_LEN(switches) && !child_is_privileged(); i++) {
		char first = 0;
		auto_fd fd = open(switches[i].path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, &first, 1) == 1 && first == switches[i].refuses)
			return true;
	}
	return false;
}

int child_probe(struct err *e)
{
	bool user_namespace = !child_is_privileged();
	pid_t pid = clone_into(namespaces(user_namespace, true, false), NULL);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return explain_clone(errno, user_namespace, e);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

int child_start(const struct child_params *p, pid_t *ret_pid, int *ret_pidfd, int *ret_control, struct err *e)
{
	int pair[2], pidfd = -1;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "make the control channel");
	bool born;
	pid_t pid = clone_child(p, &pidfd, &born);
	if (pid == 0)
		child_main(p, born, pair[1]);
	int errnum = errno;
	close_quietly(pair[1]);
	if (pid < 0) {
		close_quietly(pair[0]);
		return explain_clone(errnum, p->user_namespace, e);
	}
	*ret_pid = pid;
	*ret_pidfd = pidfd;
	*ret_control = pair[0];
	return 0;
}
