/* Digests of what comes in pieces. */
#pragma once

#include <stddef.h>
#include <nettle/sha2.h>

enum { DIGEST_SIZE = 7 + 128 + 1 };

struct digester {
	int wide; /* sha512 */
	union {
		struct sha256_ctx sha256;
		struct sha512_ctx sha512;
	};
};

/* like: a valid digest, whose algorithm is taken. */
void digester_init(struct digester *d, const char *like);
void digester_add(struct digester *d, const void *data, size_t len);
/* "sha256:…" of all that was added. */
void digester_end(struct digester *d, char ret[DIGEST_SIZE]);

/* Of one piece, by sha256. */
void digest_of(const void *data, size_t len, char ret[DIGEST_SIZE]);
