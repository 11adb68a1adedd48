/* A listening socket from what a user wrote. Names other than localhost are not resolved: on which of a name's
 * addresses one would listen is not for a resolver to decide. */
#include "listen.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <net/policy.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 512 };

union address {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un un;
};

static int bad_address(const char *where, struct err *e)
{
	int r = err_set(e, ERR_USAGE, EINVAL, "listen on %s: this is no address to listen on", where);

	err_hint(e, "Write an IP address and a port, such as 127.0.0.1:3128 or [::1]:0, or unix:PATH.");
	return r;
}

/* -EADDRINUSE and its kin, with what to do. */
static int cannot_bind(const char *where, int errnum, struct err *e)
{
	int r = err_sys(e, errnum, "listen on %s", where);

	if (errnum == EADDRINUSE)
		err_hint(e, "Another program listens there: choose another one, or port 0 for any that is free.");
	else if (errnum == EACCES)
		err_hint(e, "Ports below 1024 need privilege, and a unix socket a folder that you may write.");
	else if (errnum == EADDRNOTAVAIL)
		err_hint(e, "The address is none of this machine's.");
	else
		err_hint(e, "Check the address or the path.");
	return r;
}

static bool loopback(const struct host *h)
{
	static const unsigned char v6[16] = {[15] = 1};

	return h->family == AF_INET ? h->addr[0] == 127 : memcmp(h->addr, v6, sizeof v6) == 0;
}

static int tcp_address(const char *where, union address *ret, socklen_t *ret_len, struct listen_address *a)
{
	const char *colon = strrchr(where, ':');
	struct host h;
	unsigned long long port;

	if (!colon || str_parse_uint(colon + 1, 0, UINT16_MAX, &port) < 0)
		return -EINVAL;
	if (host_parse(where, (size_t)(colon - where), &h) < 0)
		return -EINVAL;
	/* Port 0 is no port to host_port_parse, but here it has a meaning. */
	if (h.family == AF_UNSPEC && str_eq(h.text, "localhost") && host_parse("127.0.0.1", 9, &h) < 0)
		return -EINVAL;
	if (h.family == AF_INET) {
		ret->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
		memcpy(&ret->v4.sin_addr, h.addr, 4);
		*ret_len = sizeof ret->v4;
	} else if (h.family == AF_INET6) {
		ret->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
		memcpy(&ret->v6.sin6_addr, h.addr, 16);
		*ret_len = sizeof ret->v6;
	} else {
		return -EINVAL;
	}
	a->reachable = !loopback(&h);
	snprintf(a->text, sizeof a->text, h.family == AF_INET6 ? "[%.64s]" : "%.64s", h.text);
	return 0;
}

static int listen_tcp(const char *where, struct listen_address *a, struct err *e)
{
	union address u = {0};
	socklen_t len;
	const int on = 1;

	if (tcp_address(where, &u, &len, a) < 0)
		return bad_address(where, e);
	auto_fd fd = socket(u.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, errno, "listen on %s", where);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, &u.sa, len) < 0 || listen(fd, BACKLOG) < 0 || getsockname(fd, &u.sa, &len) < 0)
		return cannot_bind(where, errno, e);
	a->port = ntohs(u.sa.sa_family == AF_INET6 ? u.v6.sin6_port : u.v4.sin_port);
	size_t used = strlen(a->text);
	snprintf(a->text + used, sizeof a->text - used, ":%u", a->port);
	return TAKE_FD(fd);
}

/* Removes a socket that nobody serves any more; anything else stays. */
static void remove_stale(const struct sockaddr_un *un)
{
	struct stat st;
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || lstat(un->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	if (connect(fd, (const struct sockaddr *)un, sizeof *un) < 0 && errno == ECONNREFUSED)
		(void)unlink(un->sun_path);
}

static int listen_unix(const char *where, const char *path, struct listen_address *a, struct err *e)
{
	union address u = {.un = {.sun_family = AF_UNIX}};
	struct stat st;

	if (!*path || strlen(path) >= sizeof u.un.sun_path) {
		int r = err_set(e, ERR_USAGE, ENAMETOOLONG, "listen on %s: the path must have 1 to %zu bytes", where,
				sizeof u.un.sun_path - 1);
		err_hint(e, "Use a shorter path, such as one below $XDG_RUNTIME_DIR.");
		return r;
	}
	memcpy(u.un.sun_path, path, strlen(path));
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The mode of the socket's own inode becomes the file's: it is never open to others, not even for a moment. */
	if (fd < 0 || fchmod(fd, 0600) < 0)
		return err_sys(e, errno, "listen on %s", where);
	remove_stale(&u.un);
	if (bind(fd, &u.sa, sizeof u.un) < 0)
		return cannot_bind(where, errno, e);
	if (listen(fd, BACKLOG) < 0 || lstat(path, &st) < 0)
		return cannot_bind(where, errno, e);
	a->unlink_path = xstrdup(path);
	a->dev = st.st_dev;
	a->ino = st.st_ino;
	snprintf(a->text, sizeof a->text, "unix:%s", path);
	return TAKE_FD(fd);
}

int listen_open(const char *where, struct listen_address *ret, struct err *e)
{
	return str_starts(where, "unix:") ? listen_unix(where, where + strlen("unix:"), ret, e)
					  : listen_tcp(where, ret, e);
}

void listen_close(struct listen_address *a)
{
	struct stat st;

	if (a->unlink_path && lstat(a->unlink_path, &st) == 0 && st.st_dev == a->dev && st.st_ino == a->ino)
		(void)unlink(a->unlink_path);
	free(a->unlink_path);
	a->unlink_path = NULL;
}
