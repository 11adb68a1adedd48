/* What the proxy reports, as the data of the events network_blocked and network_summary (docs/events.md). */
#pragma once

#include <jansson.h>
#include <stddef.h>

struct proxy_blocked;
struct proxy_host_total;

/* New objects, which the caller may add to and releases. */
json_t *proxy_blocked_json(const struct proxy_blocked *b);
json_t *proxy_summary_json(const struct proxy_host_total *t, size_t n);
