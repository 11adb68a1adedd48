/* Addresses that are not the public internet. */
#pragma once

#include <stdbool.h>

struct host;

/* Why a range is not the public internet, as reasons of a denial. */
struct special_range {
	const char *literal;  /* the client named the address */
	const char *resolved; /* a name resolved to it */
};

/* The range, when the address (h->family is not AF_UNSPEC) lies in one that a name of the outside world has no business
 * to resolve to; NULL for public unicast. Static. */
const struct special_range *host_special_range(const struct host *h);

/* Whether the name means this machine by itself: localhost and all below it (RFC 6761 §6.3). */
bool host_is_local_name(const struct host *h);
