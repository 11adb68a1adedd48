/* Refusals on their way to the run: equal ones are folded, the rest is bounded. */
#pragma once

#include <net/policy.h>
#include <net/proxy.h>
#include <uv.h>

struct proxy_report;

/* send hands one on; its count is > 1 when equal ones were folded. */
struct proxy_report *proxy_report_new(uv_loop_t *loop, void (*send)(void *arg, const struct proxy_blocked *b),
				      void *arg);

void proxy_report_blocked(struct proxy_report *r, const char *host, unsigned port, const char *reason,
			  const char *rule);

/* Hands on everything that is held back. */
void proxy_report_flush(struct proxy_report *r);

/* Drops what is held back; the memory goes when the loop has let go of its timer. */
void proxy_report_free(struct proxy_report *r);
