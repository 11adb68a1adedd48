/* Accepting connections.
 *
 * The listening sockets may live in another network namespace and are shared with the guest that made them. Accepting
 * never spins: when descriptors or memory are short, all listeners rest until a connection has ended (or, since the
 * shortage may be the system's and not ours, for a moment). Past the limit of connections a client is told so and
 * closed at once, which keeps the queue from filling up with clients that wait in vain. */
#include "proxy_child.h"
#include "proxy_conn.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

enum { ACCEPTS_PER_TURN = 32, REST_MS = 200 };

struct proxy_listener {
	uv_poll_t poll;
	int fd;
	struct proxy_child *p;
	struct proxy_listener *next;
};

static void acceptable(uv_poll_t *h, int status, int events);

void proxy_listeners_resume(struct proxy_child *p)
{
	if (!p->paused)
		return;
	p->paused = false;
	(void)uv_timer_stop(&p->resume);
	for (struct proxy_listener *l = p->listeners; l; l = l->next)
		(void)uv_poll_start(&l->poll, UV_READABLE, acceptable);
}

static void rested(uv_timer_t *t)
{
	proxy_listeners_resume(t->data);
}

static void rest(struct proxy_child *p)
{
	p->paused = true;
	for (struct proxy_listener *l = p->listeners; l; l = l->next)
		(void)uv_poll_stop(&l->poll);
	(void)uv_timer_start(&p->resume, rested, REST_MS, 0);
}

static void refuse(int fd)
{
	static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\n"
				   "Content-Type: text/plain\r\n"
				   "Content-Length: 43\r\n"
				   "X-Iterion-Reason: too many connections\r\n"
				   "Connection: close\r\n\r\n"
				   "iterion proxy: too many connections at once";

	(void)send(fd, busy, sizeof busy - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)close(fd);
}

/* Whether accept4 failed for want of something that comes back later. */
static bool is_shortage(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE || errnum == ENOBUFS || errnum == ENOMEM;
}

static void acceptable(uv_poll_t *h, int status, int events)
{
	struct proxy_listener *l = h->data;
	struct proxy_child *p = l->p;

	(void)events;
	if (status < 0) {
		/* The socket itself broke; it is never watched again. */
		(void)uv_poll_stop(h);
		return;
	}
	for (int i = 0; i < ACCEPTS_PER_TURN && !p->paused && !p->draining; i++) {
		/* #syscalls: accept4 */
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && is_shortage(errno))
			rest(p);
		if (fd < 0)
			return;
		if (p->n_conns >= p->max_conns)
			refuse(fd);
		else
			conn_new(p, fd);
	}
}

static bool is_listener(int fd)
{
	int on = 0;
	socklen_t len = sizeof on;

	/* #syscalls: getsockopt */
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) < 0 || !on)
		return false;
	int flags = fcntl(fd, F_GETFL);
	return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

void proxy_listener_add(struct proxy_child *p, int fd)
{
	struct proxy_listener *l = xcalloc(1, sizeof *l);

	if (p->draining || !is_listener(fd) || uv_poll_init(&p->loop, &l->poll, fd) < 0) {
		close_quietly(fd);
		free(l);
		return;
	}
	l->fd = fd;
	l->p = p;
	l->poll.data = l;
	l->next = p->listeners;
	p->listeners = l;
	if (!p->paused)
		(void)uv_poll_start(&l->poll, UV_READABLE, acceptable);
}

static void closed(uv_handle_t *h)
{
	free(h->data);
}

void proxy_listeners_close(struct proxy_child *p)
{
	while (p->listeners) {
		struct proxy_listener *l = p->listeners;
		p->listeners = l->next;
		uv_close((uv_handle_t *)&l->poll, closed);
		close_quietly(l->fd);
	}
}
