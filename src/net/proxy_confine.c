/* Locking the proxy process in: it reads bytes that hostile programs chose, so a memory error in it must lead nowhere.
 *
 * Stages, each relying on the ones before:
 *   1. not dumpable, no core, no_new_privs: other processes of the user cannot trace it, nothing it could start gains;
 *   2. capabilities: all sets emptied, for a run as root (the uid stays: without capabilities it is an ordinary one);
 *   3. Landlock: no file system at all, no abstract unix sockets, no signals to others, as far as the kernel knows it;
 *   4. seccomp: the calls named by the marks beside the code that needs them. Some are bound to arguments: sockets of
 *      the internet only (a unix socket would reach engines and agents on this machine by path, which Landlock does
 *      not stop), no memory that becomes executable, no ioctl and fcntl but the harmless ones (F_SETOWN sends signals);
 *   5. proof: what must fail is tried. A lock that did not close is found here, not by an attacker.
 * No stage may be skipped on error, except Landlock on a kernel without it: seccomp alone already forbids all that. */
#include "proxy_confine.h"

#include "proxy_filter.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int drop_privileges(struct err *e)
{
	struct rlimit none = {0};
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};

	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return err_sys(e, errno, "confine the proxy: forbid core files");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, errno, "confine the proxy: make it not dumpable");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "confine the proxy: set no_new_privs");
	/* The bounding set can be emptied with CAP_SETPCAP only; without it there is nothing to gain from it either. */
	for (unsigned long c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		(void)prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, caps) < 0)
		return err_sys(e, errno, "confine the proxy: drop capabilities");
	return 0;
}

/* The rights that each ABI of Landlock added (landlock(7)); the headers of the build machine may be older than the
 * kernel, so they are written out. */
static uint64_t handled_fs(long abi)
{
	uint64_t bits = (1u << 13) - 1;

	if (abi >= 2)
		bits |= 1u << 13; /* refer */
	if (abi >= 3)
		bits |= 1u << 14; /* truncate */
	if (abi >= 5)
		bits |= 1u << 15; /* ioctl on devices */
	return bits;
}

static int enter_landlock(unsigned *ret_abi, struct err *e)
{
	struct {
		uint64_t handled_fs, handled_net, scoped;
	} attr = {0};
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	size_t size = sizeof attr.handled_fs;

	*ret_abi = 0;
	if (abi < 1)
		return 0;
	attr.handled_fs = handled_fs(abi);
	if (abi >= 4) {
		attr.handled_net = 1; /* bind TCP: it listens nowhere of its own accord */
		size = offsetof(__typeof__(attr), scoped);
	}
	if (abi >= 6) {
		attr.scoped = 3; /* abstract unix sockets, signals */
		size = sizeof attr;
	}
	auto_fd fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (fd < 0)
		return err_sys(e, errno, "confine the proxy: make a Landlock ruleset");
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return err_sys(e, errno, "confine the proxy: enter Landlock");
	*ret_abi = (unsigned)abi;
	return 0;
}

/* What other code must not be able to do even by mistake ends the process instead of failing:
 * #syscalls-kill: execve execveat ptrace process_vm_readv process_vm_writev */
static int install(const struct sock_filter *filter, size_t n, struct err *e)
{
	/* The kernel reads only. */
	union {
		const struct sock_filter *in;
		struct sock_filter *out;
	} f = {.in = filter};
	struct sock_fprog prog = {.len = (unsigned short)n, .filter = f.out};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0) {
		int r = err_sys(e, errno, "confine the proxy: install the seccomp filter");
		err_hint(e, "the kernel must be built with CONFIG_SECCOMP_FILTER");
		return r;
	}
	return 0;
}

/* Tries what must not work any more. */
static int prove(struct err *e)
{
	auto_fd root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd unix_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char ring[256] = {0}; /* larger than struct io_uring_params */
	auto_fd uring = (int)syscall(SYS_io_uring_setup, 4, ring);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (root >= 0)
		return err_set(e, ERR_SANDBOX, EPERM, "confine the proxy: it can still open files");
	if (unix_socket >= 0)
		return err_set(e, ERR_SANDBOX, EPERM, "confine the proxy: it can still open unix sockets");
	if (uring >= 0)
		return err_set(e, ERR_SANDBOX, EPERM, "confine the proxy: it can still make an io_uring");
	if (code != MAP_FAILED)
		return err_set(e, ERR_SANDBOX, EPERM, "confine the proxy: it can still map executable memory");
	return 0;
}

int proxy_confine(unsigned *ret_landlock, struct err *e)
{
	int r = drop_privileges(e);

	if (r == 0)
		r = enter_landlock(ret_landlock, e);
	if (r == 0)
		r = install(proxy_filter, ARRAY_LEN(proxy_filter), e);
	if (r < 0)
		err_set_kind(e, ERR_SANDBOX);
	return r < 0 ? r : prove(e);
}
