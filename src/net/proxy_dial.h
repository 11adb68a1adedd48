/* Connecting to a host: look-up, the policy's second look at each address, Happy Eyeballs. */
#pragma once

#include <net/policy.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct dns;
struct dial;

enum dial_result { DIAL_OK, DIAL_DENIED, DIAL_UNKNOWN, DIAL_FAILED, DIAL_TIMEOUT };

struct dial_done {
	enum dial_result result;
	int fd;			       /* connected, the receiver's; -1 when not OK */
	int errnum;		       /* of the last attempt with DIAL_FAILED */
	const char *why;	       /* a phrase for people */
	struct policy_verdict verdict; /* what denied, with DIAL_DENIED */
};

struct dial_request {
	uv_loop_t *loop;
	struct dns *dns;
	const struct policy *policy; /* NULL: addresses are not checked */
	struct host host;
	uint16_t port;
	struct policy_verdict first; /* by which the host was allowed */
	unsigned timeout_ms;
};

/* done is called once, from the loop; the dial is gone then. */
struct dial *dial_start(const struct dial_request *r, void (*done)(void *arg, const struct dial_done *d), void *arg);

/* Ends it without a call. */
void dial_cancel(struct dial *d);
