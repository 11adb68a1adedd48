/* The chunked transfer coding (RFC 9112 §7.1), read and written anew. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

struct http_chunk {
	unsigned state;	 /* zero to begin */
	unsigned digits; /* of the size read so far */
	size_t line;	 /* bytes of the current extension or of the trailers */
	uint64_t left;	 /* bytes of the current chunk */
	bool line_begun; /* the current trailer line is not empty */
	bool plain;	 /* write the data without the coding, for a client that does not know it */
	bool done;
};

/* Reads from data and appends the same body to out: chunk by chunk as it came, without extensions and trailers, as
 * long as out holds less than room. Returns the bytes used (fewer than len when out is full or the body has ended), or
 * -EBADMSG. out needs room for 32 bytes and the used data past `room`. */
ssize_t http_chunk_step(struct http_chunk *c, const char *data, size_t len, struct buf *out, size_t room);
