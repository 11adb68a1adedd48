/* What a registry says in its heads, and what is answered. Pure. */
#pragma once

#include <stdbool.h>

/* A challenge of WWW-Authenticate; strings are owned. */
struct challenge {
	bool bearer; /* else Basic */
	char *realm, *service, *scope;
};
void challenge_done(struct challenge *c);

/* Reads the field; -EINVAL when it is neither Bearer with a realm nor Basic. */
int challenge_parse(const char *field, struct challenge *ret) __attribute__((warn_unused_result));

/* Where a redirect from `from` to `location` leads: an absolute http or https address, or NULL. The caller frees. */
char *url_resolve(const char *from, const char *location);
/* Whether both are of the same scheme, host and port. */
bool url_same_origin(const char *a, const char *b);
/* Whether secrets may be sent there: https, or, for a registry of this machine's loopback, the loopback itself. A
 * registry elsewhere has no business there: what listens trusts those who can reach it. */
bool url_is_private(const char *url, bool loopback);

/* Appends a query's value, percent-encoded. */
struct buf;
void url_encode(struct buf *to, const char *value);
