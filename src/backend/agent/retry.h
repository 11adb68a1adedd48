/* When a refused request is tried again, and after how long. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	RETRY_ATTEMPTS = 6,	    /* requests in all, the first one included */
	RETRY_FIRST_MS = 1000,	    /* doubles with each attempt … */
	RETRY_LONGEST_MS = 60000,   /* … up to this */
	RETRY_AFTER_MAX_MS = 600000 /* a provider that asks for more than this is not waited for */
};

/* Whether an HTTP status says that the same request may do later: 408, 409, 429, 5xx and 529. 0 stands for a
 * connection that could not be made or broke, and may too. */
bool retry_status(int status);

/* How long to wait before the next request when attempt (1 for the first) ended with status; -1: give up.
 * retry_after_ms is what the provider asked for, < 0: nothing. Any random number spreads those who wait together. */
int64_t retry_delay_ms(unsigned attempt, int status, int64_t retry_after_ms, uint32_t random);

/* The value of a Retry-After header (RFC 9110 §10.2.3) in seconds, whole or with a fraction, as milliseconds; a date or
 * anything else is -1. */
int64_t retry_after_parse(const char *value);
