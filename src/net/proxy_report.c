/* Refusals on their way to the run.
 *
 * The first of a kind goes out at once, so that a person sees it when it happens; equal ones that follow within a
 * second are counted and go out as one at its end. A program that tries thousands of hosts must not flood the run
 * either: within one second only so many kinds are told apart, the others are one kind named "(other)". */
#include "proxy_report.h"

#include "proxy_wire.h"

#include <base/clock.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

enum { WINDOW_MS = 1000 };

struct entry {
	char *host, *reason, *rule;
	unsigned port;
	unsigned held;		    /* counted since the last report */
	uint64_t first_ms, last_ms; /* of those */
};

struct proxy_report {
	void (*send)(void *arg, const struct proxy_blocked *b);
	void *arg;
	uv_timer_t window;
	size_t n;
	struct entry v[PROXY_BLOCKED_PER_SECOND];
};

struct proxy_report *proxy_report_new(uv_loop_t *loop, void (*send)(void *arg, const struct proxy_blocked *b),
				      void *arg)
{
	struct proxy_report *r = xcalloc(1, sizeof *r);

	r->send = send;
	r->arg = arg;
	(void)uv_timer_init(loop, &r->window);
	r->window.data = r;
	return r;
}

static void clear(struct proxy_report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->v[i].host);
		free(r->v[i].reason);
		free(r->v[i].rule);
	}
	r->n = 0;
	(void)uv_timer_stop(&r->window);
}

static void hand_on(const struct proxy_report *r, const struct entry *b, unsigned count)
{
	r->send(r->arg, &(struct proxy_blocked){
				.host = b->host,
				.port = b->port,
				.reason = b->reason,
				.rule = b->rule,
				.count = count,
				.first_ms = b->first_ms,
				.last_ms = b->last_ms,
			});
}

void proxy_report_flush(struct proxy_report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct entry *b = &r->v[i];
		if (b->held)
			hand_on(r, b, b->held);
	}
	clear(r);
}

static void closed(uv_handle_t *h)
{
	free(h->data);
}

void proxy_report_free(struct proxy_report *r)
{
	clear(r);
	uv_close((uv_handle_t *)&r->window, closed);
}

static void window_over(uv_timer_t *t)
{
	proxy_report_flush(t->data);
}

static struct entry *find(struct proxy_report *r, const char *host, unsigned port, const char *reason, const char *rule)
{
	for (size_t i = 0; i < r->n; i++) {
		struct entry *b = &r->v[i];
		if (b->port == port && strcmp(b->host, host) == 0 && strcmp(b->reason, reason) == 0 &&
		    strcmp(b->rule, rule) == 0)
			return b;
	}
	return NULL;
}

static struct entry *add(struct proxy_report *r, const char *host, unsigned port, const char *reason, const char *rule)
{
	struct entry *b = &r->v[r->n++];

	*b = (struct entry){.host = xstrdup(host), .reason = xstrdup(reason), .rule = xstrdup(rule), .port = port};
	if (!uv_is_active((uv_handle_t *)&r->window))
		(void)uv_timer_start(&r->window, window_over, WINDOW_MS, 0);
	return b;
}

static void hold(struct entry *b)
{
	b->last_ms = clock_ms();
	if (b->held++ == 0)
		b->first_ms = b->last_ms;
}

void proxy_report_blocked(struct proxy_report *r, const char *host, unsigned port, const char *reason, const char *rule)
{
	struct entry *b = find(r, host, port, reason, rule);

	if (b) {
		hold(b);
		return;
	}
	if (r->n < PROXY_BLOCKED_PER_SECOND - 1) {
		b = add(r, host, port, reason, rule);
		b->first_ms = b->last_ms = clock_ms();
		hand_on(r, b, 1);
		return;
	}
	b = find(r, "(other)", 0, reason, "");
	if (!b && r->n < PROXY_BLOCKED_PER_SECOND)
		b = add(r, "(other)", 0, reason, "");
	if (!b)
		b = &r->v[r->n - 1];
	hold(b);
}
