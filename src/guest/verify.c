/* Proof from inside: after the lock-down, the forbidden things are tried, and a sandbox in which one of them works is
 * refused. That a call in the driver returned 0 is a claim; this is the evidence. */
#include "guest.h"

#include <base/cleanup.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int missing(struct err *e, const char *wall)
{
	int r = err_set(e, ERR_SANDBOX, EPERM, "the sandbox is not closed: %s", wall);

	err_hint(e, "This is a defect or a kernel that does not do what it says; nothing was run. Please report it "
		    "with the output of `uname -a`.");
	return r;
}

static int check_confined(struct err *e)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {0};

	if (syscall(SYS_capget, &head, caps) < 0)
		return err_sys(e, errno, "read the capabilities");
	if (caps[0].effective | caps[0].permitted | caps[0].inheritable | caps[1].effective | caps[1].permitted |
	    caps[1].inheritable)
		return missing(e, "capabilities are left");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return missing(e, "no_new_privs is not set");
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
		return missing(e, "no seccomp filter is in force");
	if (unshare(CLONE_NEWUSER) == 0)
		return missing(e, "a user namespace could be made");
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) == 0)
		return missing(e, "a mount could be changed");
	return 0;
}

/* An address of each family that no loopback-only namespace has a route to (RFC 5737, RFC 3849). connect() on a
 * datagram socket sends nothing, it only looks up the route. */
static int check_no_network(struct err *e)
{
	const struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0xc0000201)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
					.sin6_port = htons(9),
					.sin6_addr.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
	const struct sockaddr *to[] = {(const struct sockaddr *)&v4, (const struct sockaddr *)&v6};
	const socklen_t len[] = {sizeof v4, sizeof v6};

	for (int i = 0; i < 2; i++) {
		auto_fd fd = socket(to[i]->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, to[i], len[i]) == 0)
			return missing(e,
				       i ? "there is a route to the IPv6 network" : "there is a route to the network");
	}
	return 0;
}

static int check_root_readonly(struct err *e)
{
	int fd = open("/.iterion-probe", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return 0;
	close_quietly(fd);
	(void)unlink("/.iterion-probe");
	return missing(e, "a file could be made at the top of the file system");
}

static int check_own_pids(struct err *e)
{
	return getpid() == 1 ? 0 : missing(e, "it does not have process numbers of its own");
}

/* A container keeps what its image's programs need to change users and owners; what must be gone is what a way to the
 * host can be made of. */
static int check_contained(struct err *e)
{
	static const int reaching[] = {CAP_SYS_ADMIN,	 CAP_SYS_MODULE,      CAP_SYS_RAWIO, CAP_SYS_BOOT,
				       CAP_SYS_TIME,	 CAP_DAC_READ_SEARCH, CAP_BPF,	     CAP_MAC_ADMIN,
				       CAP_MAC_OVERRIDE, CAP_SYSLOG};

	for (size_t i = 0; i < sizeof reaching / sizeof reaching[0]; i++)
		if (prctl(PR_CAPBSET_READ, reaching[i], 0, 0, 0) == 1)
			return missing(e, "the container has a capability over the host");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return missing(e, "no_new_privs is not set");
	if (mount("iterion", "/proc", "tmpfs", 0, NULL) == 0)
		return missing(e, "a file system could be mounted");
	return 0;
}

int guest_verify(uint32_t checks, struct err *e)
{
	static const struct {
		uint32_t bit;
		int (*check)(struct err *e);
	} rows[] = {
		{GUEST_CHECK_OWN_PIDS, check_own_pids},		  {GUEST_CHECK_CONFINED, check_confined},
		{GUEST_CHECK_CONTAINED, check_contained},	  {GUEST_CHECK_NO_NETWORK, check_no_network},
		{GUEST_CHECK_ROOT_READONLY, check_root_readonly},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		int r = checks & rows[i].bit ? rows[i].check(e) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}
