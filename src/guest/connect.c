/* `connect HOST PORT`: stdin and stdout through the sandbox's proxy (CONNECT, RFC 9110 §9.3.6), for programs such as
 * ssh that know no HTTP proxy. The proxy's address and token come from HTTPS_PROXY, as every other client has them. */
#include "guest.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/str.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_HEAD = 64 * 1024, COPY = 64 * 1024 };

/* http://USER:TOKEN@127.0.0.1:PORT → token and port. */
static int parse_proxy(const char *url, char *token, size_t size, uint16_t *ret_port)
{
	static const char scheme[] = "http://";
	unsigned long long port;

	if (!url || !str_starts(url, scheme))
		return -EINVAL;
	const char *user = url + strlen(scheme), *at = strrchr(user, '@');
	const char *colon = at ? memchr(user, ':', (size_t)(at - user)) : NULL;
	if (!colon || (size_t)(at - colon) > size || !str_starts(at + 1, "127.0.0.1:"))
		return -EINVAL;
	snprintf(token, size, "%.*s", (int)(at - colon - 1), colon + 1);
	char digits[8];
	snprintf(digits, sizeof digits, "%s", at + 1 + strlen("127.0.0.1:"));
	digits[strcspn(digits, "/")] = '\0';
	if (str_parse_uint(digits, 1, UINT16_MAX, &port) < 0)
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

static int dial(uint16_t port)
{
	const struct sockaddr_in sa = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&sa, sizeof sa) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Sends the request and reads the answer's head into b (what follows the head stays behind it). Returns the offset of
 * the body, or -errno. */
static int request(int fd, const char *host, const char *port, const char *token, struct buf *b)
{
	auto_buf q = BUF_INIT(4096);
	const char *v6 = strchr(host, ':') && host[0] != '[' ? "[" : "";
	int r = buf_printf(&q,
			   "CONNECT %s%s%s:%s HTTP/1.1\r\nHost: %s%s%s:%s\r\nProxy-Authorization: Bearer %s\r\n\r\n",
			   v6, host, *v6 ? "]" : "", port, v6, host, *v6 ? "]" : "", port, token);

	if (r == 0)
		r = fd_write_all(fd, q.data, q.len);
	for (const char *end = NULL; r == 0;) {
		end = b->len ? strstr(b->data, "\r\n\r\n") : NULL;
		if (end)
			return (int)(end - b->data) + 4;
		if (buf_reserve(b, 4096) < 0)
			return -EMSGSIZE;
		ssize_t n = read(fd, b->data + b->len, 4096);
		if (n <= 0)
			return n < 0 ? -errno : -ECONNRESET;
		b->len += (size_t)n;
		b->data[b->len] = '\0';
	}
	return r;
}

/* Moves what one side has to the other: 1 when bytes moved, 0 at its end, -errno. */
static int copy(int from, int to)
{
	char chunk[COPY];
	ssize_t n = read(from, chunk, sizeof chunk);

	if (n <= 0)
		return n < 0 && errno != EINTR ? -errno : n < 0;
	int r = fd_write_all(to, chunk, (size_t)n);
	return r < 0 ? r : 1;
}

/* Until the far side has ended; the end of stdin is passed on and does not cut the answer off. */
static int relay(int fd)
{
	struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

	for (;;) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (p[1].revents) {
			int r = copy(fd, STDOUT_FILENO);
			if (r <= 0)
				return r;
		}
		if (p[0].revents && copy(STDIN_FILENO, fd) <= 0) {
			(void)shutdown(fd, SHUT_WR);
			p[0].fd = -1;
		}
	}
}

static int fail(const char *host, const char *port, const char *why)
{
	fprintf(stderr, "iterion-guest: connect to %s port %s: %s\n", host, port, why);
	return 1;
}

int guest_connect(int argc, char **argv)
{
	char token[256];
	uint16_t port;

	if (argc != 3) {
		fputs("usage: iterion-guest connect HOST PORT\n", stderr);
		return 2;
	}
	if (strpbrk(argv[1], "\r\n \t") || strspn(argv[2], "0123456789") != strlen(argv[2]))
		return fail(argv[1], argv[2], "this is no host and port");
	if (parse_proxy(getenv("HTTPS_PROXY"), token, sizeof token, &port) < 0)
		return fail(argv[1], argv[2], "HTTPS_PROXY does not name the sandbox's proxy");
	auto_fd fd = dial(port);
	if (fd < 0)
		return fail(argv[1], argv[2], strerror(-fd));
	auto_buf b = BUF_INIT(MAX_HEAD);
	int body = request(fd, argv[1], argv[2], token, &b);
	if (body < 0)
		return fail(argv[1], argv[2], strerror(-body));
	if (!str_starts(b.data, "HTTP/1.1 200") && !str_starts(b.data, "HTTP/1.0 200")) {
		/* The proxy's own words are in the body; a short one came with the head. */
		const char *why = b.data[body] ? b.data + body : b.data;
		char line[512];
		snprintf(line, sizeof line, "%s", why);
		line[strcspn(line, "\r\n")] = '\0';
		return fail(argv[1], argv[2], line);
	}
	if (fd_write_all(STDOUT_FILENO, b.data + body, b.len - (size_t)body) < 0)
		return 1;
	return relay(fd) < 0;
}
