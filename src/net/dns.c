/* The resolver of the proxy: c-ares driven by the proxy's own loop.
 *
 * Everything that opens files happens in dns_new: c-ares reads resolv.conf, the hosts file goes into a table of our
 * own, and the channel is told to ask DNS only ("b"), never files. HOSTALIASES and its like are switched off. A name is
 * asked for as two questions, A and AAAA, whose answers are handed on as they come (RFC 8305 §3). Names with a dot are
 * taken as complete: search domains would turn the name that the policy judged into another one.
 *
 * c-ares cannot take back a single question, so a cancelled query lives on without its callback until c-ares answers or
 * gives up. */
#include "dns.h"

#include "dns_hosts.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <ares.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

enum { TIMEOUT_MS = 2000, TRIES = 3 };

struct dns_socket {
	uv_poll_t poll;
	ares_socket_t fd;
	struct dns *dns;
	struct dns_socket *next;
};

struct dns {
	uv_loop_t *loop;
	ares_channel channel;
	uv_timer_t timer;
	struct dns_socket *sockets;
	struct dns_hosts overrides, hosts;
};

struct dns_query {
	struct dns *dns;
	struct host name;
	dns_answer answer; /* NULL when cancelled */
	void *arg;
	unsigned pending; /* answers to come */
	uv_timer_t soon;
	size_t n; /* what a table knew */
	struct host known[DNS_MAX_ADDRESSES];
};

static void arm_timer(struct dns *d);

static void timer_fired(uv_timer_t *t)
{
	struct dns *d = t->data;

	ares_process_fd(d->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	arm_timer(d);
}

/* c-ares wants to be called when its next question times out. */
static void arm_timer(struct dns *d)
{
	struct timeval tv, *next = ares_timeout(d->channel, NULL, &tv);

	if (!next) {
		(void)uv_timer_stop(&d->timer);
		return;
	}
	uint64_t ms = (uint64_t)next->tv_sec * 1000 + (uint64_t)next->tv_usec / 1000 + 1;
	(void)uv_timer_start(&d->timer, timer_fired, ms, 0);
}

static void socket_ready(uv_poll_t *h, int status, int events)
{
	struct dns_socket *s = h->data;
	struct dns *d = s->dns;
	ares_socket_t fd = s->fd;

	if (status < 0)
		events = UV_READABLE | UV_WRITABLE;
	ares_process_fd(d->channel, events & UV_READABLE ? fd : ARES_SOCKET_BAD,
			events & UV_WRITABLE ? fd : ARES_SOCKET_BAD);
	arm_timer(d);
}

static void socket_closed(uv_handle_t *h)
{
	free(h->data);
}

static struct dns_socket **find_socket(struct dns *d, ares_socket_t fd)
{
	struct dns_socket **p = &d->sockets;

	while (*p && (*p)->fd != fd)
		p = &(*p)->next;
	return p;
}

/* c-ares tells what it waits for; nothing means that it closes the socket next. */
static void socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns *d = arg;
	struct dns_socket **p = find_socket(d, fd), *s = *p;

	if (!readable && !writable) {
		if (!s)
			return;
		*p = s->next;
		uv_close((uv_handle_t *)&s->poll, socket_closed);
		return;
	}
	if (!s) {
		s = xcalloc(1, sizeof *s);
		if (uv_poll_init(d->loop, &s->poll, fd) < 0) {
			/* The question then ends by its time-out. */
			free(s);
			return;
		}
		s->poll.data = s;
		s->fd = fd;
		s->dns = d;
		*p = s;
	}
	(void)uv_poll_start(&s->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0), socket_ready);
}

static int open_channel(struct dns *d, struct err *e)
{
	char lookups[] = "b";
	struct ares_options o = {
		.flags = ARES_FLAG_NOALIASES,
		.timeout = TIMEOUT_MS,
		.tries = TRIES,
		.lookups = lookups,
		.sock_state_cb = socket_state,
		.sock_state_cb_data = d,
	};
	int r = ares_library_init(ARES_LIB_INIT_ALL);

	if (r == ARES_SUCCESS)
		r = ares_init_options(&d->channel, &o,
				      ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
					      ARES_OPT_SOCK_STATE_CB);
	if (r == ARES_SUCCESS)
		return 0;
	err_set(e, ERR_NETWORK, EIO, "set up the resolver: %s", ares_strerror(r));
	err_hint(e, "look at /etc/resolv.conf");
	return -EIO;
}

int dns_new(const char *const *overrides, struct dns **ret, struct err *e)
{
	struct dns *d = xcalloc(1, sizeof *d);
	int r = open_channel(d, e);

	for (; r == 0 && overrides && *overrides; overrides++)
		r = dns_hosts_add_override(&d->overrides, *overrides, e);
	if (r < 0) {
		dns_hosts_done(&d->overrides);
		if (d->channel)
			ares_destroy(d->channel);
		free(d);
		return r;
	}
	dns_hosts_read(&d->hosts, "/etc/hosts");
	*ret = d;
	return 0;
}

void dns_start(struct dns *d, uv_loop_t *loop)
{
	d->loop = loop;
	d->timer.data = d;
	(void)uv_timer_init(loop, &d->timer);
}

static void query_closed(uv_handle_t *h)
{
	free(h->data);
}

static void deliver(struct dns_query *q, const struct host *v, size_t n, const char *why)
{
	bool done = --q->pending == 0;
	dns_answer answer = q->answer;
	void *arg = q->arg;

	if (done)
		uv_close((uv_handle_t *)&q->soon, query_closed);
	if (answer)
		answer(arg, v, n, n ? NULL : why, done);
}

static const char *why_not(int status)
{
	switch (status) {
	case ARES_ENODATA:
		return "the name has no address";
	case ARES_ENOTFOUND:
		return "the name does not exist";
	case ARES_ETIMEOUT:
		return "no name server answered in time";
	case ARES_ECONNREFUSED:
		return "no name server can be reached";
	case ARES_ESERVFAIL:
		return "the name server failed";
	case ARES_EREFUSED:
		return "the name server refused to answer";
	default:
		return "the name could not be looked up";
	}
}

static void answered(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct dns_query *q = arg;
	struct host found[DNS_MAX_ADDRESSES];
	size_t n = 0;

	(void)timeouts;
	for (struct ares_addrinfo_node *a = info ? info->nodes : NULL; a && n < DNS_MAX_ADDRESSES; a = a->ai_next)
		if (host_from_sockaddr(a->ai_addr, a->ai_addrlen, &found[n], NULL) == 0)
			n++;
	if (info)
		ares_freeaddrinfo(info);
	deliver(q, found, n, why_not(status));
}

static void ask(struct dns *d, struct dns_query *q)
{
	struct ares_addrinfo_hints hints = {.ai_flags = ARES_AI_NOSORT, .ai_socktype = SOCK_STREAM};
	char full[HOST_TEXT_SIZE + 1];
	size_t n = strlen(q->name.text);

	memcpy(full, q->name.text, n + 1);
	if (strchr(full, '.'))
		memcpy(full + n, ".", 2);
	/* What c-ares calls for a question, in any of its versions:
	 * #syscalls: connect bind sendto recvfrom getsockname getpeername setsockopt getsockopt sendmsg recvmsg
	 * #syscalls: read write writev readv close getrandom */
	hints.ai_family = AF_INET6;
	ares_getaddrinfo(d->channel, full, NULL, &hints, answered, q);
	hints.ai_family = AF_INET;
	ares_getaddrinfo(d->channel, full, NULL, &hints, answered, q);
	arm_timer(d);
}

/* The first turn of the loop after dns_lookup: c-ares may answer from within ares_getaddrinfo, callers never see that.
 */
static void begin(uv_timer_t *t)
{
	struct dns_query *q = t->data;

	if (q->n > 0) {
		q->pending = 1;
		deliver(q, q->known, q->n, NULL);
	} else if (!q->answer) {
		uv_close((uv_handle_t *)&q->soon, query_closed);
	} else {
		q->pending = 2;
		ask(q->dns, q);
	}
}

struct dns_query *dns_lookup(struct dns *d, const struct host *name, dns_answer answer, void *arg)
{
	struct dns_query *q = xcalloc(1, sizeof *q);

	q->dns = d;
	q->name = *name;
	q->answer = answer;
	q->arg = arg;
	q->soon.data = q;
	q->n = dns_hosts_find(&d->overrides, name, AF_UNSPEC, q->known, DNS_MAX_ADDRESSES);
	if (q->n == 0)
		q->n = dns_hosts_find(&d->hosts, name, AF_UNSPEC, q->known, DNS_MAX_ADDRESSES);
	(void)uv_timer_init(d->loop, &q->soon);
	(void)uv_timer_start(&q->soon, begin, 0, 0);
	return q;
}

void dns_cancel(struct dns_query *q)
{
	q->answer = NULL;
}
