/* Where the proxy of a container listens that cannot have it on its own loopback.
 *
 * The proxy is for this run's container and asks for a token; still it listens on one address only, the one that the
 * container reaches, and never on all of them: an open port is an invitation to whoever is in the same network. Which
 * one that is can be guessed for an engine of this machine (reach.c); for any other one the user says it. Reading what
 * the user said is pure and apart from the sockets. */
#include "proxy_place.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char listen_name[] = "ITERION_PROXY_LISTEN", advertise_name[] = "ITERION_PROXY_ADVERTISE",
		  required_name[] = "ITERION_NETWORK_ENFORCEMENT";

enum { BACKLOG = 512 };

static socklen_t size_of(const union proxy_address *a)
{
	return a->sa.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

int proxy_address_read(const char *text, union proxy_address *ret)
{
	union proxy_address a = {0};

	if (inet_pton(AF_INET, text, &a.v4.sin_addr) == 1)
		a.sa.sa_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &a.v6.sin6_addr) == 1)
		a.sa.sa_family = AF_INET6;
	else
		return -EINVAL;
	*ret = a;
	return 0;
}

static bool is_wildcard(const union proxy_address *a)
{
	static const unsigned char mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};

	if (a->sa.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr) || memcmp(&a->v6.sin6_addr, mapped, sizeof mapped) == 0;
}

static bool is_loopback(const union proxy_address *a)
{
	if (a->sa.sa_family == AF_INET)
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

void proxy_address_text(const union proxy_address *a, char ret[PROXY_WHERE_SIZE])
{
	char text[INET6_ADDRSTRLEN] = "";

	if (a->sa.sa_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &a->v6.sin6_addr, text, sizeof text);
		(void)snprintf(ret, PROXY_WHERE_SIZE, "[%s]:%u", text, ntohs(a->v6.sin6_port));
	} else {
		(void)inet_ntop(AF_INET, &a->v4.sin_addr, text, sizeof text);
		(void)snprintf(ret, PROXY_WHERE_SIZE, "%s:%u", text, ntohs(a->v4.sin_port));
	}
}

/* HOST, HOST:PORT, [ADDRESS], [ADDRESS]:PORT, and a bare IPv6 address. */
static int split(const char *text, char ret_host[PROXY_HOST_SIZE], uint16_t *ret_port)
{
	bool bracket = *text == '[';
	const char *colon = strchr(text, ':');
	const char *end = bracket ? strchr(text, ']') : colon && !strchr(colon + 1, ':') ? colon : strchr(text, '\0');
	unsigned long long port = 0;

	if (!end || end - text - bracket >= PROXY_HOST_SIZE || end == text + bracket)
		return -EINVAL;
	const char *rest = end + bracket;
	if (*rest && (*rest != ':' || str_parse_uint(rest + 1, 1, 65535, &port) < 0))
		return -EINVAL;
	(void)snprintf(ret_host, PROXY_HOST_SIZE, "%.*s", (int)(end - text - bracket), text + bracket);
	*ret_port = (uint16_t)port;
	return 0;
}

/* It becomes part of an URL in the environment. */
static bool is_name(const char *host)
{
	union proxy_address a;

	return proxy_address_read(host, &a) == 0 || host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
								      "WXYZ0123456789.-_")] == '\0';
}

static int bad_listen(const char *text, const char *why, struct err *e)
{
	int r = err_set(e, ERR_USAGE, EINVAL, "read %s=%.100s: %s", listen_name, text, why);

	err_hint(e, "Name one address of this machine that the container reaches, such as 192.0.2.7 or "
		    "127.0.0.1:4000.");
	return r;
}

static int read_listen(const char *text, struct proxy_place *p, struct err *e)
{
	char host[PROXY_HOST_SIZE];
	uint16_t port;

	if (split(text, host, &port) < 0 || proxy_address_read(host, &p->listen) < 0)
		return bad_listen(text, "not an address", e);
	if (is_wildcard(&p->listen))
		return bad_listen(text, "that is every address of this machine, open to its whole network", e);
	if (p->listen.sa.sa_family == AF_INET6)
		p->listen.v6.sin6_port = htons(port);
	else
		p->listen.v4.sin_port = htons(port);
	p->listens = true;
	/* On loopback somebody else's forwarding leads to it, and its other end has another address. */
	if (!is_loopback(&p->listen))
		(void)snprintf(p->host, sizeof p->host, "%s", host);
	return 0;
}

int proxy_place_read(const char *listen, const char *advertise, struct proxy_place *ret, struct err *e)
{
	struct proxy_place p = {.host = PROXY_HOST_ALIAS};
	int r = listen && *listen ? read_listen(listen, &p, e) : 0;

	if (r < 0)
		return r;
	if (advertise && *advertise && (split(advertise, p.host, &p.port) < 0 || !is_name(p.host))) {
		r = err_set(e, ERR_USAGE, EINVAL, "read %s=%.100s: not a host", advertise_name, advertise);
		err_hint(e, "Write the address or name, and the port when it is another one, by which the container "
			    "reaches the proxy, such as 172.17.0.1:4000.");
		return r;
	}
	*ret = p;
	return 0;
}

int proxy_place_get(struct proxy_place *ret, struct err *e)
{
	return proxy_place_read(getenv(listen_name), getenv(advertise_name), ret, e);
}

int proxy_place_required(bool *ret, struct err *e)
{
	const char *word = getenv(required_name);

	*ret = word && str_eq(word, "required");
	if (!word || !*word || *ret || str_eq(word, "offered"))
		return 0;
	int r = err_set(e, ERR_USAGE, EINVAL, "read %s=%.100s: not such a word", required_name, word);
	err_hint(e, "Write required (a network policy that cannot be enforced is an error) or offered (it is a "
		    "warning, as without the variable).");
	return r;
}

static int bind_to(const union proxy_address *a)
{
	auto_fd fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	/* The port that the user named is taken again by the next run, while connections of the last one fade away. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (a->sa.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	if (bind(fd, &a->sa, size_of(a)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

bool proxy_address_is_ours(const union proxy_address *a)
{
	union proxy_address any_port = *a;

	if (a->sa.sa_family == AF_INET6)
		any_port.v6.sin6_port = 0;
	else
		any_port.v4.sin_port = 0;
	auto_fd fd = bind_to(&any_port);
	return fd >= 0 && !is_wildcard(a);
}

int proxy_place_listen(union proxy_address *a)
{
	socklen_t len = sizeof *a;
	auto_fd fd = bind_to(a);

	if (fd < 0)
		return fd;
	if (listen(fd, BACKLOG) < 0 || getsockname(fd, &a->sa, &len) < 0)
		return -errno;
	return TAKE_FD(fd);
}
