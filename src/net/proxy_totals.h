/* Counts per host, bounded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;
struct proxy_totals;

struct proxy_total {
	char *host;
	uint64_t allowed, blocked, up, down;
};

struct proxy_totals *proxy_totals_new(void);
void proxy_totals_free(struct proxy_totals *t);

/* The entry of a host, made when it is new; past the limit the common one "(other)". Valid as long as t. */
struct proxy_total *proxy_totals_of(struct proxy_totals *t, const char *host);

/* Appends the payload of a PROXY_SUMMARY. */
void proxy_totals_pack(const struct proxy_totals *t, struct buf *to);
