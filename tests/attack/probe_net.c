/* Attempts to reach something: by IP, by unix socket, by the rarer socket families. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef NETLINK_AUDIT
#define NETLINK_AUDIT 9
#endif

static socklen_t address(const char *ip, const char *port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
	in_port_t p = htons((uint16_t)number(port));

	memset(ret, 0, sizeof *ret);
	if (inet_pton(AF_INET, ip, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = p;
		return sizeof *v4;
	}
	if (inet_pton(AF_INET6, ip, &v6->sin6_addr) != 1)
		return 0;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = p;
	return sizeof *v6;
}

/* Waits at most five seconds for the event; -ETIMEDOUT says that packets vanish. */
static int wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	int n = poll(&p, 1, 5000);

	return n > 0 ? 0 : n == 0 ? -ETIMEDOUT : -errno;
}

static int connect_tcp(char **a)
{
	struct sockaddr_storage to;
	socklen_t len = address(a[0], a[1], &to), size = sizeof(int);
	int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), errnum = 0;

	if (!len)
		return -EINVAL;
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, len) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	int r = wait_for(fd, POLLOUT);
	if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &size) == 0)
		r = -errnum;
	return r;
}

/* Sends a datagram and waits for the answer that the test's server sends; a lost one is -ETIMEDOUT. */
static int ask_udp(char **a)
{
	struct sockaddr_storage to;
	socklen_t len = address(a[0], a[1], &to);
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char answer[64];

	if (!len)
		return -EINVAL;
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, len) < 0 || send(fd, "ping", 4, 0) < 0)
		return -errno;
	int r = wait_for(fd, POLLIN);
	return r < 0 ? r : result(recv(fd, answer, sizeof answer, 0));
}

static int connect_unix(const char *name, size_t offset)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (len + offset >= sizeof to.sun_path)
		return -ENAMETOOLONG;
	memcpy(to.sun_path + offset, name, len);
	size_t size = offsetof(struct sockaddr_un, sun_path) + offset + len + !offset;
	return result(connect(fd, (struct sockaddr *)&to, (socklen_t)size));
}

static int connect_path(char **a)
{
	return connect_unix(a[0], 0);
}

static int connect_abstract(char **a)
{
	return connect_unix(a[0], 1);
}

static const struct {
	const char *name;
	int family, type, protocol;
} kinds[] = {
	{"raw", AF_INET, SOCK_RAW, IPPROTO_ICMP},
	{"raw6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6},
	{"packet", AF_PACKET, SOCK_RAW, 0},
	{"netlink-audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT},
	{"vsock", AF_VSOCK, SOCK_STREAM, 0},
	{"alg", AF_ALG, SOCK_SEQPACKET, 0},
	{"xdp", AF_XDP, SOCK_RAW, 0},
	{"tcp", AF_INET, SOCK_STREAM, 0},
	{"unix", AF_UNIX, SOCK_STREAM, 0},
};

static int open_socket(char **a)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kinds[i].name, a[0]) == 0)
			return result(socket(kinds[i].family, kinds[i].type | SOCK_CLOEXEC, kinds[i].protocol));
	return -EINVAL;
}

/* Asks a name server for the A record of example.com. */
static int ask_dns(char **a)
{
	static const unsigned char query[] = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
					     "\x07"
					     "example"
					     "\x03"
					     "com"
					     "\x00\x00\x01\x00\x01";
	struct sockaddr_storage to;
	socklen_t len = address(a[0], "53", &to);
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned char answer[512];

	if (!len)
		return -EINVAL;
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, len) < 0 || send(fd, query, sizeof query - 1, 0) < 0)
		return -errno;
	int r = wait_for(fd, POLLIN);
	ssize_t n = r < 0 ? -1 : recv(fd, answer, sizeof answer, 0);
	if (r < 0 || n < 0)
		return r < 0 ? r : -errno;
	detail("rcode=%d", n > 3 ? answer[3] & 15 : -1);
	return 0;
}

const struct attempt net_attempts[] = {
	{"connect-tcp", "IP PORT", connect_tcp},
	{"ask-udp", "IP PORT", ask_udp},
	{"ask-dns", "IP", ask_dns},
	{"connect-unix", "PATH", connect_path},
	{"connect-abstract", "NAME", connect_abstract},
	{"socket", "KIND", open_socket},
	{0},
};
