/* Attempts to make or enter namespaces, and to change what is mounted where. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	const char *name;
	unsigned long flag;
} kinds[] = {
	{"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS},	{"pid", CLONE_NEWPID},	     {"net", CLONE_NEWNET},
	{"ipc", CLONE_NEWIPC},	 {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}, {"time", CLONE_NEWTIME},
};

static unsigned long flag_of(const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].flag;
	return 0;
}

static int try_unshare(char **a)
{
	return result(unshare((int)flag_of(a[0])));
}

static int reap(long pid)
{
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(0);
	(void)waitpid((pid_t)pid, NULL, 0);
	return 0;
}

static int try_clone(char **a)
{
	return reap(syscall(SYS_clone, flag_of(a[0]) | SIGCHLD, NULL, NULL, NULL, NULL));
}

static int try_clone3(char **a)
{
	struct clone_args args = {.flags = flag_of(a[0]), .exit_signal = SIGCHLD};

	return reap(syscall(SYS_clone3, &args, sizeof args));
}

/* A filter that looks at the low half of the flags only would miss this one. */
static int clone_high_bits(char **a)
{
	return reap(syscall(SYS_clone, flag_of(a[0]) | SIGCHLD | 0xffffffff00000000ul, NULL, NULL, NULL, NULL));
}

static int try_setns(char **a)
{
	int fd = open(a[0], O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : result(setns(fd, 0));
}

/* A pidfd as setns's target: enters all namespaces of the process at once. */
static int setns_pidfd(char **a)
{
	int fd = (int)syscall(SYS_pidfd_open, number(a[0]), 0);

	return fd < 0 ? -errno : result(setns(fd, CLONE_NEWNS | CLONE_NEWPID));
}

static int mount_tmpfs(char **a)
{
	return result(mount("tmpfs", a[0], "tmpfs", 0, NULL));
}

static int mount_proc(char **a)
{
	return result(mount("proc", a[0], "proc", 0, NULL));
}

static int mount_bind(char **a)
{
	return result(mount(a[0], a[1], NULL, MS_BIND, NULL));
}

static int remount_rw(char **a)
{
	return result(mount(NULL, a[0], NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int try_umount(char **a)
{
	return result(umount2(a[0], MNT_DETACH));
}

static int try_pivot_root(char **a)
{
	return result(syscall(SYS_pivot_root, a[0], a[0]));
}

static int try_chroot(char **a)
{
	return result(chroot(a[0]));
}

static int try_fsopen(char **a)
{
	return result(syscall(SYS_fsopen, a[0], 1));
}

static int try_open_tree(char **a)
{
	return result(syscall(SYS_open_tree, AT_FDCWD, a[0], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
}

static int try_move_mount(char **a)
{
	return result(syscall(SYS_move_mount, AT_FDCWD, a[0], AT_FDCWD, a[1], 0));
}

static int try_mount_setattr(char **a)
{
	struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};

	return result(syscall(SYS_mount_setattr, AT_FDCWD, a[0], 0, &attr, sizeof attr));
}

const struct attempt namespace_attempts[] = {
	{"unshare", "KIND", try_unshare},
	{"clone", "KIND", try_clone},
	{"clone3", "KIND", try_clone3},
	{"clone-high-bits", "KIND", clone_high_bits},
	{"setns", "PATH", try_setns},
	{"setns-pidfd", "PID", setns_pidfd},
	{"mount-tmpfs", "PATH", mount_tmpfs},
	{"mount-proc", "PATH", mount_proc},
	{"mount-bind", "FROM TO", mount_bind},
	{"remount-rw", "PATH", remount_rw},
	{"umount", "PATH", try_umount},
	{"pivot-root", "PATH", try_pivot_root},
	{"chroot", "PATH", try_chroot},
	{"fsopen", "TYPE", try_fsopen},
	{"open-tree", "PATH", try_open_tree},
	{"move-mount", "FROM TO", try_move_mount},
	{"mount-setattr", "PATH", try_mount_setattr},
	{0},
};
