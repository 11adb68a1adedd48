/* Connecting to a host.
 *
 * Addresses come from the literal itself or from the resolver, family by family. Each is shown to the policy before it
 * is used, and the connection goes to exactly the address that was judged: there is no second look-up that an
 * attacker's name server could answer differently. The attempts follow RFC 8305: IPv6 first, families taken in turns,
 * the next attempt 250 ms after the last or when it failed, the first connection wins. When A answers before AAAA, the
 * first attempt waits 50 ms for the better family. One timer bounds the whole. */
#include "proxy_dial.h"

#include "dns.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

enum { ATTEMPT_DELAY_MS = 250, RESOLUTION_DELAY_MS = 50, MAX_ADDRESSES = 2 * DNS_MAX_ADDRESSES };

struct attempt {
	uv_poll_t poll;
	int fd;
	struct dial *dial;
	struct attempt *next;
};

struct dial {
	struct dial_request r;
	void (*done)(void *arg, const struct dial_done *d);
	void *arg;
	struct dns_query *query;
	bool resolved; /* no more addresses will come */
	bool started;  /* the first attempt was made */
	bool over;
	size_t n, used;
	struct host addresses[MAX_ADDRESSES]; /* [used, n) wait */
	int last_family;
	struct attempt *attempts;
	int last_error;
	const char *why; /* the resolver's */
	bool denied;
	struct policy_verdict denial;
	uv_timer_t limit, pace;
	unsigned open_handles;
};

static void timer_closed(uv_handle_t *h)
{
	struct dial *d = h->data;

	if (--d->open_handles == 0)
		free(d);
}

static void attempt_closed(uv_handle_t *h)
{
	free(h->data);
}

static void drop_attempt(struct attempt *a)
{
	struct attempt **p = &a->dial->attempts;

	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
	uv_close((uv_handle_t *)&a->poll, attempt_closed);
	close_quietly(a->fd);
}

static void end(struct dial *d)
{
	if (d->over)
		return;
	d->over = true;
	if (d->query && !d->resolved)
		dns_cancel(d->query);
	while (d->attempts)
		drop_attempt(d->attempts);
	uv_close((uv_handle_t *)&d->limit, timer_closed);
	uv_close((uv_handle_t *)&d->pace, timer_closed);
}

void dial_cancel(struct dial *d)
{
	end(d);
}

static void finish(struct dial *d, struct dial_done result)
{
	if (d->over)
		return;
	end(d);
	d->done(d->arg, &result);
}

/* Nothing is left to try: why it failed, the most telling cause first. */
static void fail(struct dial *d)
{
	struct dial_done r = {.result = DIAL_FAILED, .fd = -1, .errnum = d->last_error, .verdict = d->denial};

	if (d->last_error) {
		r.why = strerror(d->last_error);
	} else if (d->denied) {
		r.result = DIAL_DENIED;
		r.why = "address not allowed";
	} else {
		r.result = DIAL_UNKNOWN;
		r.why = d->why ? d->why : "the name has no address";
	}
	finish(d, r);
}

static void try_next(struct dial *d);

static void attempt_ready(uv_poll_t *h, int status, int events)
{
	struct attempt *a = h->data;
	struct dial *d = a->dial;
	int error = 0;
	socklen_t len = sizeof error;

	(void)status;
	(void)events;
	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error) {
		d->last_error = error;
		drop_attempt(a);
		try_next(d);
		return;
	}
	/* The poll handle lets go of the descriptor before it is handed on. */
	int fd = a->fd;
	a->fd = -1;
	drop_attempt(a);
	finish(d, (struct dial_done){.result = DIAL_OK, .fd = fd});
}

static socklen_t fill_sockaddr(const struct host *h, uint16_t port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof *ret);
	if (h->family == AF_INET) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, h->addr, sizeof v4->sin_addr);
		return sizeof *v4;
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, h->addr, sizeof v6->sin6_addr);
	return sizeof *v6;
}

/* Begins a connection; 0, or the errno of a failure that was there at once. */
static int start_attempt(struct dial *d, const struct host *h)
{
	struct sockaddr_storage sa;
	socklen_t len = fill_sockaddr(h, d->r.port, &sa);
	/* #syscalls: connect
	 * #syscalls: socket if arg0 in AF_INET,AF_INET6 and arg1 & 0xf in SOCK_STREAM,SOCK_DGRAM */
	auto_fd fd = socket(h->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || (connect(fd, (struct sockaddr *)&sa, len) < 0 && errno != EINPROGRESS))
		return errno;
	struct attempt *a = xcalloc(1, sizeof *a);
	int r = uv_poll_init(d->r.loop, &a->poll, fd);
	if (r < 0) {
		free(a);
		return -r;
	}
	a->fd = TAKE_FD(fd);
	a->dial = d;
	a->poll.data = a;
	a->next = d->attempts;
	d->attempts = a;
	(void)uv_poll_start(&a->poll, UV_WRITABLE, attempt_ready);
	return 0;
}

/* Takes the next address: of the other family than the last when there is one, IPv6 first of all. */
static struct host take_address(struct dial *d)
{
	int wanted = d->last_family == AF_INET6 ? AF_INET : AF_INET6;
	size_t pick = d->used;

	for (size_t i = d->used; i < d->n; i++) {
		if (d->addresses[i].family == wanted) {
			pick = i;
			break;
		}
	}
	struct host h = d->addresses[pick];
	memmove(&d->addresses[d->used + 1], &d->addresses[d->used], (pick - d->used) * sizeof h);
	d->used++;
	d->last_family = h.family;
	return h;
}

static void paced(uv_timer_t *t)
{
	try_next(t->data);
}

static void try_next(struct dial *d)
{
	d->started = true;
	while (d->used < d->n) {
		struct host h = take_address(d);
		int error = start_attempt(d, &h);
		if (error == 0) {
			(void)uv_timer_start(&d->pace, paced, ATTEMPT_DELAY_MS, 0);
			return;
		}
		d->last_error = error;
	}
	(void)uv_timer_stop(&d->pace);
	if (!d->attempts && d->resolved)
		fail(d);
}

static void add_address(struct dial *d, const struct host *h)
{
	struct policy_verdict v = {.allow = true};

	if (d->n == MAX_ADDRESSES)
		return;
	if (d->r.policy)
		policy_check_address(d->r.policy, &d->r.host, &d->r.first, h, d->r.port, &v);
	if (v.allow) {
		d->addresses[d->n++] = *h;
		return;
	}
	if (!d->denied)
		d->denial = v;
	d->denied = true;
}

static void answered(void *arg, const struct host *v, size_t n, const char *why, bool done)
{
	struct dial *d = arg;
	bool v6 = n > 0 && v[0].family == AF_INET6;

	d->resolved = done;
	if (why && !d->why)
		d->why = why;
	for (size_t i = 0; i < n; i++)
		add_address(d, &v[i]);
	if (d->started) {
		/* An attempt that waits for company is not hurried; with none running the new address is next. */
		if (!d->attempts)
			try_next(d);
		else if (d->used < d->n && !uv_is_active((uv_handle_t *)&d->pace))
			(void)uv_timer_start(&d->pace, paced, ATTEMPT_DELAY_MS, 0);
		return;
	}
	if (done || v6)
		try_next(d);
	else if (d->n > 0)
		(void)uv_timer_start(&d->pace, paced, RESOLUTION_DELAY_MS, 0);
}

static void literal(uv_timer_t *t)
{
	struct dial *d = t->data;

	answered(d, &d->r.host, 1, NULL, true);
}

static void timed_out(uv_timer_t *t)
{
	struct dial *d = t->data;

	finish(d, (struct dial_done){.result = DIAL_TIMEOUT,
				     .fd = -1,
				     .why = d->used ? "no connection in time" : "no answer from DNS in time"});
}

struct dial *dial_start(const struct dial_request *r, void (*done)(void *arg, const struct dial_done *d), void *arg)
{
	struct dial *d = xcalloc(1, sizeof *d);

	d->r = *r;
	d->done = done;
	d->arg = arg;
	d->open_handles = 2;
	d->limit.data = d->pace.data = d;
	(void)uv_timer_init(r->loop, &d->limit);
	(void)uv_timer_init(r->loop, &d->pace);
	(void)uv_timer_start(&d->limit, timed_out, r->timeout_ms, 0);
	if (r->host.family == AF_UNSPEC)
		d->query = dns_lookup(r->dns, &r->host, answered, d);
	else
		(void)uv_timer_start(&d->pace, literal, 0, 0);
	return d;
}
