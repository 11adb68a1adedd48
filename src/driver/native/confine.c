/* The locks of a native sandbox's first process.
 *
 * Order: groups, then securebits and the bounding set (they need capabilities), then the capabilities themselves, then
 * no_new_privs (so that the filter may be installed without privilege and no set-user-ID file counts), last the filter,
 * which everything before needed to be absent. What is set here holds for every process that ever runs inside: none of
 * it can be undone. */
#include "confine.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox_filter.h"

static int write_proc(const char *path, const char *text, struct err *e)
{
	auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	int r = fd_write_all(fd, text, strlen(text));
	return r < 0 ? err_sys(e, -r, "write %s", path) : 0;
}

int confine_map_ids(const struct confine_ids *ids, struct err *e)
{
	char line[64];

	snprintf(line, sizeof line, "%u %u 1\n", ids->uid, ids->host_uid);
	int r = write_proc("/proc/self/uid_map", line, e);
	/* user_namespaces(7): a process without CAP_SETGID outside may map its group only once setgroups is denied. */
	if (r == 0)
		r = write_proc("/proc/self/setgroups", "deny\n", e);
	snprintf(line, sizeof line, "%u %u 1\n", ids->gid, ids->host_gid);
	if (r == 0)
		r = write_proc("/proc/self/gid_map", line, e);
	if (r < 0)
		err_hint(e, "The kernel made a user namespace but does not let it be used; on Ubuntu see "
			    "kernel.apparmor_restrict_unprivileged_userns.");
	return r;
}

int confine_loopback_up(struct err *e)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_sys(e, errno, "bring up the sandbox's loopback");
	return 0;
}

/* The secure bits say that the capabilities are not lost by this. */
static int become(const struct confine_ids *ids, struct err *e)
{
	if (ids->gid != getgid() && setresgid(ids->gid, ids->gid, ids->gid) < 0)
		return err_sys(e, errno, "become the group %u", ids->gid);
	if (ids->uid != getuid() && setresuid(ids->uid, ids->uid, ids->uid) < 0)
		return err_sys(e, errno, "become the user %u", ids->uid);
	return 0;
}

static int drop_capabilities(const struct confine_ids *ids, struct err *e)
{
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
				   SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[2] = {0};

	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
		return err_sys(e, errno, "set the secure bits");
	for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return err_sys(e, errno, "drop capability %u", cap);
	int r = become(ids, e);
	if (r < 0)
		return r;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || syscall(SYS_capset, &head, none) < 0)
		return err_sys(e, errno, "drop the capabilities");
	return 0;
}

static int install_filter(struct err *e)
{
	/* The kernel's interface is not const, and does not write. */
	union {
		const struct sock_filter *is;
		struct sock_filter *wanted;
	} filter = {.is = sandbox_filter};
	const struct sock_fprog prog = {.len = ARRAY_LEN(sandbox_filter), .filter = filter.wanted};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return err_sys(e, errno, "install the system call filter");
	return 0;
}

/* 0 is for files: a handler that the kernel pipes to would get a dump nevertheless, with the proxy's token in it, on
 * the host and as root. At 1 the kernel starts no handler (fs/coredump.c), and a file would need more. Who came with a
 * hard limit of 0, as many log-ins have it, cannot raise it again: there 0 is the least that can be had. */
static int turn_core_dumps_off(struct err *e)
{
	const struct rlimit no_dump = {.rlim_cur = 1, .rlim_max = 1}, no_file = {0};

	if (setrlimit(RLIMIT_CORE, &no_dump) == 0 || (errno == EPERM && setrlimit(RLIMIT_CORE, &no_file) == 0))
		return 0;
	return err_sys(e, errno, "turn core dumps off");
}

int confine_privileges(const struct confine_ids *ids, struct err *e)
{
	/* EPERM where setgroups is denied: then the groups came with the user and cannot be had twice. */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return err_sys(e, errno, "drop the supplementary groups");
	int r = turn_core_dumps_off(e);
	if (r == 0)
		r = drop_capabilities(ids, e);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "set no_new_privs");
	return install_filter(e);
}
