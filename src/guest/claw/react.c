/* The runner's event loop: poll(2) over a handful of descriptors, and a list of deadlines.
 *
 * There is no library in the guest, and none is needed: a runner has its two pipes, the signals, and as many tool pipes
 * as tools run. A callback may add and forget watches; a forgotten one is only marked while the list is walked, so that
 * a descriptor's number that is used again at once does not get the old one's event. */
#include "react.h"

#include <base/clock.h>
#include <base/mem.h>

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

struct watch {
	int fd; /* -1: forgotten */
	short events;
	void (*ready)(void *arg, short revents);
	void *arg;
};

struct react {
	struct watch *v;
	size_t n;
	size_t cap;
	struct pollfd *polled;
	struct timer *timers;
	bool stop;
};

struct react *react_new(void)
{
	return xcalloc(1, sizeof(struct react));
}

void react_free(struct react *r)
{
	if (!r)
		return;
	free(r->v);
	free(r->polled);
	free(r);
}

void react_watch(struct react *r, int fd, short events, void (*ready)(void *arg, short revents), void *arg)
{
	size_t cap = r->cap;

	r->v = grow_array(r->v, r->n, &r->cap, sizeof *r->v);
	if (r->cap != cap)
		r->polled = xreallocarray(r->polled, r->cap, sizeof *r->polled);
	r->v[r->n++] = (struct watch){.fd = fd, .events = events, .ready = ready, .arg = arg};
}

static struct watch *find(struct react *r, int fd)
{
	for (size_t i = 0; fd >= 0 && i < r->n; i++)
		if (r->v[i].fd == fd)
			return &r->v[i];
	return NULL;
}

void react_events(struct react *r, int fd, short events)
{
	struct watch *w = find(r, fd);

	if (w)
		w->events = events;
}

void react_forget(struct react *r, int fd)
{
	struct watch *w = find(r, fd);

	if (w)
		w->fd = -1;
}

void react_timer_stop(struct react *r, struct timer *t)
{
	for (struct timer **at = &r->timers; *at; at = &(*at)->next) {
		if (*at != t)
			continue;
		*at = t->next;
		break;
	}
	t->at_ms = 0;
}

void react_timer(struct react *r, struct timer *t, uint64_t after_ms)
{
	react_timer_stop(r, t);
	t->at_ms = clock_ms() + after_ms;
	t->next = r->timers;
	r->timers = t;
}

static int until_next(const struct react *r)
{
	uint64_t first = UINT64_MAX, now = clock_ms();

	for (const struct timer *t = r->timers; t; t = t->next)
		first = MIN(first, t->at_ms);
	if (first == UINT64_MAX)
		return -1;
	return first <= now ? 0 : (int)MIN(first - now, (uint64_t)INT_MAX);
}

static void run_timers(struct react *r)
{
	uint64_t now = clock_ms();

	for (bool again = true; again && !r->stop;) {
		again = false;
		for (struct timer *t = r->timers; t; t = t->next) {
			if (t->at_ms > now)
				continue;
			react_timer_stop(r, t);
			t->due(t->arg);
			again = true;
			break;
		}
	}
}

static void sweep(struct react *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].fd >= 0)
			r->v[kept++] = r->v[i];
	r->n = kept;
}

int react_run(struct react *r)
{
	for (r->stop = false; !r->stop;) {
		sweep(r);
		size_t n = r->n;
		for (size_t i = 0; i < n; i++)
			r->polled[i] = (struct pollfd){.fd = r->v[i].fd, .events = r->v[i].events};
		int got = poll(r->polled, n, until_next(r));
		if (got < 0 && errno != EINTR)
			return -errno;
		for (size_t i = 0; got > 0 && i < n && !r->stop; i++) {
			/* Copies: a callback may make the arrays move. */
			struct watch w = r->v[i];
			short revents = r->polled[i].revents;
			if (w.fd >= 0 && revents)
				w.ready(w.arg, revents);
		}
		run_timers(r);
	}
	return 0;
}

void react_stop(struct react *r)
{
	r->stop = true;
}
