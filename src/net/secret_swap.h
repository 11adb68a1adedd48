/* Replacing one text by another of the same length: placeholders by values on the way out, values by placeholders on
 * the way in. Pure. */
#pragma once

#include "http_head.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct secrets;

struct swap {
	const char *from, *to;
	size_t len; /* of both */
};

/* What one host may have, from a set. */
struct swaps {
	struct swap *out; /* placeholder to value */
	size_t n;
	struct swap *in; /* value to placeholder, in each form in which it may be echoed */
	size_t n_in;
	/* The others: their placeholders have no business here. */
	struct swap_foreign {
		const char *name, *placeholder;
		size_t len;
	} * foreign;
	size_t n_foreign;
};

/* Fills ret (taken as empty); the set must outlive it. */
void swaps_for(const struct secrets *s, const char *host, struct swaps *ret);
void swaps_done(struct swaps *s);

/* Replaces in place, from the left, the longest of those that begin at one place. Returns how many. */
size_t swap_text(const struct swap *v, size_t n, char *text, size_t len);

/* As swap_text for the value of a header, also within the credentials of the Basic scheme (RFC 7617). */
size_t swap_header(const struct swap *v, size_t n, char *value, size_t len);

/* The target of a request with the placeholders of its query replaced by values, which are percent-encoded where they
 * must be. Appends to `to`; returns 0 or -ENOBUFS. */
int swap_target(const struct swap *v, size_t n, const char *target, size_t len, struct buf *to);

/* Calls found for each foreign placeholder in a header's value (also within Basic credentials) or a target. */
void swaps_find_foreign(const struct swaps *s, const char *text, size_t len, void (*found)(void *arg, const char *name),
			void *arg);

/* Whether bodies of this type are text, in which a value may be read. type is the value of Content-Type, p NULL when
 * there is none. */
bool swap_is_text(struct http_text type);

/* A body that arrives bit by bit. What looks like the beginning of a match is held back, and nothing else. */
struct swap_stream;
struct swap_stream *swap_stream_new(const struct swap *v, size_t n) __attribute__((returns_nonnull));
void swap_stream_free(struct swap_stream *s);
/* Appends to out what is certain by now; no more than len and what was held back. Returns 0 or -ENOBUFS. */
int swap_stream_feed(struct swap_stream *s, const char *data, size_t len, struct buf *out);
/* The end of the body: what was held back. */
int swap_stream_end(struct swap_stream *s, struct buf *out);
