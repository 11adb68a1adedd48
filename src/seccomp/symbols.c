/* The names that profiles may use for numbers. Their values are the same on every architecture that is built for. */
#include "gen.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define ROW(name)                                                                                                      \
	{                                                                                                              \
#name, (uint32_t)(name)                                                                                \
	}

static const struct {
	const char *name;
	uint32_t value;
} symbols[] = {
	/* errno */
	ROW(EPERM),
	ROW(EACCES),
	ROW(EINVAL),
	ROW(ENODEV),
	ROW(ENOSYS),
	ROW(EAFNOSUPPORT),
	ROW(EPROTONOSUPPORT),
	ROW(ESOCKTNOSUPPORT),
	ROW(EOPNOTSUPP),
	/* socket(2) */
	ROW(AF_UNIX),
	ROW(AF_INET),
	ROW(AF_INET6),
	ROW(AF_NETLINK),
	ROW(AF_PACKET),
	ROW(SOCK_STREAM),
	ROW(SOCK_DGRAM),
	ROW(SOCK_RAW),
	ROW(SOCK_PACKET),
	ROW(IPPROTO_IP),
	ROW(IPPROTO_TCP),
	ROW(IPPROTO_UDP),
	ROW(IPPROTO_ICMP),
	ROW(IPPROTO_ICMPV6),
	ROW(NETLINK_ROUTE),
	/* clone(2) */
	ROW(CLONE_NEWNS),
	ROW(CLONE_NEWCGROUP),
	ROW(CLONE_NEWUTS),
	ROW(CLONE_NEWIPC),
	ROW(CLONE_NEWUSER),
	ROW(CLONE_NEWPID),
	ROW(CLONE_NEWNET),
	/* ioctl(2); TIOCLINUX has its name in the kernel's headers only under some includes */
	ROW(TIOCSETD),
	ROW(TIOCSTI),
	{"TIOCLINUX", 0x541c},
	/* mknod(2) */
	ROW(S_IFMT),
	ROW(S_IFCHR),
	ROW(S_IFBLK),
	/* personality(2) */
	ROW(PER_LINUX),
	ROW(PER_LINUX32),
	ROW(UNAME26),
	ROW(ADDR_NO_RANDOMIZE),
	/* mmap(2), open(2), fcntl(2), prctl(2): for marks */
	ROW(PROT_EXEC),
	ROW(O_WRONLY),
	ROW(O_RDWR),
	ROW(O_ACCMODE),
	ROW(F_GETFL),
	ROW(F_SETFL),
	ROW(F_GETFD),
	ROW(F_SETFD),
	ROW(F_DUPFD_CLOEXEC),
	ROW(FIONBIO),
	ROW(FIONREAD),
	ROW(PR_SET_NAME),
	ROW(PR_SET_VMA),
};

bool symbol_value(const char *word, uint32_t *ret)
{
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		if (strcmp(word, symbols[i].name) == 0) {
			*ret = symbols[i].value;
			return true;
		}
	}
	char *end;
	errno = 0;
	unsigned long v = strtoul(word, &end, 0);
	if (word[0] < '0' || word[0] > '9' || *end || errno || v > UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}
