/* Names to addresses inside the proxy's loop: overrides, the hosts file, then DNS (c-ares). */
#pragma once

#include <net/policy.h>
#include <stddef.h>
#include <uv.h>

struct err;
struct dns;
struct dns_query;

enum { DNS_MAX_ADDRESSES = 16 }; /* of one family that are looked at */

/* Called once per family asked for. n addresses (0: none); why is a static phrase when there are none. done is true
 * with the last answer; the query is gone then. */
typedef void (*dns_answer)(void *arg, const struct host *addresses, size_t n, const char *why, bool done);

/* Reads resolv.conf and the hosts file: call it while files can still be opened; nothing is opened later.
 * overrides: "HOST:IP" or NULL. */
int dns_new(const char *const *overrides, struct dns **ret, struct err *e) __attribute__((warn_unused_result));

/* Puts it into a loop; before the first look-up. */
void dns_start(struct dns *d, uv_loop_t *loop);

/* Looks up a name (not a literal). The answers come later, never from within this call. */
struct dns_query *dns_lookup(struct dns *d, const struct host *name, dns_answer answer, void *arg);

/* No answer will come any more; only before done. */
void dns_cancel(struct dns_query *q);
