/* `relay PORT ADDRESS PORT`: 127.0.0.1 and [::1] at the first port → the proxy on another host, where its listening
 * socket cannot be handed out of the sandbox. It prints "ready" once it listens. It passes bytes on and looks at none;
 * who may go where is the proxy's to say. One loop; a connection whose far side does not read is not read from. */
#include "guest.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 1024, ROOM = 64 * 1024 };

/* One direction of a connection. */
struct way {
	char *data; /* ROOM bytes */
	size_t at, len;
	bool ended; /* its source has no more */
	bool shut;  /* its end was passed on */
};

struct connection {
	int fd[2];	   /* the program, the proxy */
	struct way way[2]; /* from fd[i] to the other */
};

union address {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct relay {
	union address to;
	int listeners[2];
	size_t n_listeners;
	struct connection v[MAX_CONNECTIONS];
	size_t n;
	struct pollfd polls[2 + 2 * MAX_CONNECTIONS];
};

static int parse_address(const char *text, const char *port, union address *ret)
{
	unsigned long long number;

	if (str_parse_uint(port, 1, UINT16_MAX, &number) < 0)
		return -EINVAL;
	if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons((uint16_t)number);
		return 0;
	}
	if (inet_pton(AF_INET6, text, &ret->v6.sin6_addr) != 1)
		return -EINVAL;
	ret->v6.sin6_family = AF_INET6;
	ret->v6.sin6_port = htons((uint16_t)number);
	return 0;
}

static socklen_t size_of(const union address *a)
{
	return a->sa.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

static void accept_one(struct relay *r, int listener)
{
	auto_fd in = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (in < 0 || r->n == MAX_CONNECTIONS)
		return;
	auto_fd out = socket(r->to.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (out < 0 || (connect(out, &r->to.sa, size_of(&r->to)) < 0 && errno != EINPROGRESS))
		return;
	(void)setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	(void)setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	r->v[r->n++] = (struct connection){
		.fd = {TAKE_FD(in), TAKE_FD(out)},
		.way = {{.data = xmalloc(ROOM)}, {.data = xmalloc(ROOM)}},
	};
}

static void end_connection(struct relay *r, size_t i)
{
	struct connection *c = &r->v[i];

	for (int k = 0; k < 2; k++) {
		close_quietly(c->fd[k]);
		free(c->way[k].data);
	}
	*c = r->v[--r->n];
}

/* Moves what one direction can move; -1 when the connection is broken. */
static int move(struct connection *c, int from, short readable, short writable)
{
	struct way *w = &c->way[from];

	if (w->len == 0 && !w->ended && readable) {
		ssize_t n = read(c->fd[from], w->data, ROOM);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		w->ended = n == 0;
		w->at = 0;
		w->len = n > 0 ? (size_t)n : 0;
		writable = 1;
	}
	if (w->len && writable) {
		ssize_t n = send(c->fd[!from], w->data + w->at, w->len, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		w->at += n > 0 ? (size_t)n : 0;
		w->len -= n > 0 ? (size_t)n : 0;
	}
	if (w->ended && w->len == 0 && !w->shut) {
		w->shut = true;
		(void)shutdown(c->fd[!from], SHUT_WR);
	}
	return 0;
}

/* What one end of a connection waits for: to be read while its way is empty, to be written while the other's is not. */
static struct pollfd wait_of(const struct connection *c, int end)
{
	const struct way *own = &c->way[end], *other = &c->way[!end];
	short events = (short)((own->len == 0 && !own->ended ? POLLIN : 0) | (other->len ? POLLOUT : 0));

	return (struct pollfd){.fd = events ? c->fd[end] : -1, .events = events};
}

/* The listeners first, then two places a connection; how many there are. */
static size_t fill_polls(struct relay *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_listeners; i++)
		r->polls[n++] = (struct pollfd){.fd = r->n < MAX_CONNECTIONS ? r->listeners[i] : -1, .events = POLLIN};
	for (size_t i = 0; i < r->n; i++) {
		r->polls[n++] = wait_of(&r->v[i], 0);
		r->polls[n++] = wait_of(&r->v[i], 1);
	}
	return n;
}

static void move_all(struct relay *r)
{
	/* From the last: the place of one that ends is taken by one that was looked at. */
	for (size_t i = r->n; i-- > 0;) {
		const struct pollfd *p = &r->polls[r->n_listeners + 2 * i];
		struct connection *c = &r->v[i];
		int bad = move(c, 0, p[0].revents, p[1].revents & POLLOUT);
		bad |= move(c, 1, p[1].revents, p[0].revents & POLLOUT);
		if (bad || (c->way[0].shut && c->way[1].shut))
			end_connection(r, i);
	}
}

static void serve(struct relay *r)
{
	while (poll(r->polls, fill_polls(r), -1) >= 0) {
		move_all(r);
		for (size_t i = 0; i < r->n_listeners; i++)
			if (r->polls[i].revents)
				accept_one(r, r->listeners[i]);
	}
}

int guest_relay(int argc, char **argv)
{
	struct err e = ERR_INIT;
	unsigned long long port;
	struct relay *r = xcalloc(1, sizeof *r);

	if (argc != 4 || str_parse_uint(argv[1], 1, UINT16_MAX, &port) < 0 ||
	    parse_address(argv[2], argv[3], &r->to) < 0) {
		fputs("usage: iterion-guest relay PORT ADDRESS PORT\n", stderr);
		free(r);
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	int n = guest_listen((uint16_t)port, r->listeners, &e);
	if (n < 0) {
		fprintf(stderr, "iterion-guest: %s\n", e.msg);
		free(r);
		return 1;
	}
	r->n_listeners = (size_t)n;
	puts("ready");
	(void)fflush(stdout);
	serve(r);
	free(r);
	return 1;
}
