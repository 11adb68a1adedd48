/* The sockets on which the sandbox reaches its proxy. They are opened here, inside the sandbox's network namespace, and
 * accepted on by the proxy outside of it: a socket belongs to the namespace it was made in (network_namespaces(7)),
 * whoever holds its descriptor. */
#include "guest.h"

#include <base/cleanup.h>

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 512 };

static int listen_on(const struct sockaddr *sa, socklen_t len)
{
	auto_fd fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 || bind(fd, sa, len) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int guest_listen(uint16_t port, int ret_fds[2], struct err *e)
{
	const struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	auto_fd fd4 = listen_on((const struct sockaddr *)&v4, sizeof v4);
	if (fd4 < 0)
		return err_sys(e, -fd4, "listen on 127.0.0.1:%u inside the sandbox", port);
	int fd6 = listen_on((const struct sockaddr *)&v6, sizeof v6);
	/* A kernel without IPv6, or with it switched off, has no such loopback; nothing inside can dial it then. */
	if (fd6 < 0 && fd6 != -EAFNOSUPPORT && fd6 != -EADDRNOTAVAIL)
		return err_sys(e, -fd6, "listen on [::1]:%u inside the sandbox", port);
	ret_fds[0] = TAKE_FD(fd4);
	ret_fds[1] = fd6;
	return fd6 < 0 ? 1 : 2;
}
