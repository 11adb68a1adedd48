/* Random bytes, identifiers, and hex digits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills with bytes fit for keys (getrandom(2)); ends the process when the kernel has none. */
void random_bytes(void *to, size_t len);

/* Writes n bytes as 2*n lower-case hex digits and a NUL. */
void hex_encode(char *to, const void *data, size_t n);

/* Random: 2*bytes lower-case hex digits and a NUL. */
void id_hex(char *to, size_t bytes);

enum { UUID_SIZE = 37 };

/* A UUIDv7 (RFC 9562 §5.7): sorts by the time it was made. */
void id_uuid7(char ret[UUID_SIZE], uint64_t wall_ms);

/* Whether two buffers are equal, in time that depends on the length only. */
bool equal_constant_time(const void *a, const void *b, size_t len);
