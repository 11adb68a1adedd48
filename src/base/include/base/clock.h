/* Time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Nanoseconds and milliseconds of CLOCK_MONOTONIC. */
uint64_t clock_ns(void);
uint64_t clock_ms(void);

/* Milliseconds since 1970 (CLOCK_REALTIME). */
uint64_t clock_wall_ms(void);

enum { TIMESTAMP_SIZE = 25 };

/* "2026-01-02T03:04:05.678Z" (RFC 3339, UTC) of a wall time; what is past the year 9999 shows as its end. */
void clock_format(char ret[TIMESTAMP_SIZE], uint64_t wall_ms);
