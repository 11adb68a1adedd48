/* Sockets of the proxy. The loop only tells readiness (uv_poll); the reading and writing is done here on the bare
 * descriptors, because tunnels hand them to splice(2) and because a connection reads no more than the other side of it
 * has taken. Readiness is level-triggered: whoever cannot use an event must stop asking for it, or the loop spins. */
#include "proxy_sock.h"

#include "tls.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void event(uv_poll_t *h, int status, int events)
{
	struct proxy_sock *s = h->data;

	if (status < 0) {
		/* libuv stopped the handle on EPOLLERR. Taking the error off the socket keeps it from coming back at
		 * once; the next read or write shows the end of the connection. */
		int error = 0;
		socklen_t len = sizeof error;
		/* #syscalls: getsockopt */
		(void)getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len);
		events = s->want;
		s->want = 0;
		s->ahead = false;
	}
	/* Bytes that TLS read ahead raise no event of their own: sock_want asked for another one in their place. */
	if ((s->want & UV_READABLE) && s->tls && tls_sock_pending(s))
		events |= UV_READABLE;
	s->on_event(s, events);
}

struct proxy_sock *sock_new(uv_loop_t *loop, int fd, void (*on_event)(struct proxy_sock *, int), void *owner)
{
	struct proxy_sock *s = xcalloc(1, sizeof *s);
	int on = 1;

	if (uv_poll_init(loop, &s->poll, fd) < 0) {
		close_quietly(fd);
		free(s);
		return NULL;
	}
	/* Small answers must not wait for an acknowledgement, and peers that vanished must be found in the end. Neither
	 * exists on a unix socket, where it is not needed. */
	/* #syscalls: setsockopt */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	s->poll.data = s;
	s->fd = fd;
	s->on_event = on_event;
	s->owner = owner;
	s->in = BUF_INIT(SOCK_IN_MAX);
	s->out = BUF_INIT(SOCK_OUT_MAX);
	return s;
}

static void closed(uv_handle_t *h)
{
	struct proxy_sock *s = h->data;

	buf_done(&s->in);
	buf_done(&s->out);
	free(s);
}

void sock_free(struct proxy_sock *s)
{
	if (!s || s->dead)
		return;
	s->dead = true;
	s->want = 0;
	if (s->tls)
		tls_sock_free(s);
	uv_close((uv_handle_t *)&s->poll, closed);
	/* uv_close took it out of the epoll set already. */
	/* #syscalls: close */
	close_quietly(s->fd);
	s->fd = -1;
}

void sock_reset(struct proxy_sock *s)
{
	struct linger none = {.l_onoff = 1};

	if (!s || s->dead)
		return;
	(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	sock_free(s);
}

void sock_want(struct proxy_sock *s, int events)
{
	bool ahead = !s->dead && (events & UV_READABLE) && s->tls && tls_sock_pending(s);

	if (s->dead || (s->want == events && s->ahead == ahead))
		return;
	s->want = events;
	s->ahead = ahead;
	if (events)
		(void)uv_poll_start(&s->poll, events | (ahead ? UV_WRITABLE : 0), event);
	else
		(void)uv_poll_stop(&s->poll);
}

int sock_fill(struct proxy_sock *s, size_t limit)
{
	int total = 0;

	if (s->tls)
		return tls_sock_fill(s, limit);
	while (!s->eof && s->in.len < limit) {
		if (buf_reserve(&s->in, limit - s->in.len) < 0)
			return -ENOBUFS;
		/* #syscalls: recvfrom */
		ssize_t n = recv(s->fd, s->in.data + s->in.len, limit - s->in.len, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? total : -errno;
		if (n == 0)
			s->eof = true;
		s->in.len += (size_t)n;
		s->in.data[s->in.len] = '\0';
		total += (int)n;
	}
	return total;
}

int sock_flush(struct proxy_sock *s)
{
	if (s->tls)
		return tls_sock_flush(s);
	while (s->out.len > 0) {
		/* #syscalls: sendto */
		ssize_t n = send(s->fd, s->out.data, s->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		buf_consume(&s->out, (size_t)n);
	}
	return 0;
}

void sock_shut(struct proxy_sock *s)
{
	if (s->dead || s->shut)
		return;
	s->shut = true;
	if (s->tls)
		tls_sock_shut(s);
	/* #syscalls: shutdown */
	(void)shutdown(s->fd, SHUT_WR);
}
