/* Binary records: writing and reading of integers and length-prefixed bytes, in the machine's own byte order
 * (both ends are on one machine, or the guest of the same architecture). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* Append; a buffer past its limit makes pack_* return -ENOBUFS. */
int pack_u32(struct buf *b, uint32_t v);
int pack_u64(struct buf *b, uint64_t v);
int pack_bytes(struct buf *b, const void *data, size_t len);
int pack_str(struct buf *b, const char *s);
/* A count and that many strings; v may be NULL when n is 0. */
int pack_strv(struct buf *b, const char *const *v, size_t n);

/* A cursor over a record from the other side. Any read past the end sets bad, and everything after yields 0 or NULL:
 * check it once at the end. */
struct unpack {
	const char *p;
	size_t left;
	bool bad;
};
uint32_t unpack_u32(struct unpack *u);
uint64_t unpack_u64(struct unpack *u);
/* Points into the record; valid as long as that is. */
const char *unpack_bytes(struct unpack *u, size_t *ret_len);
/* A new string; one with a NUL inside is bad. The caller frees; NULL when bad. */
char *unpack_str(struct unpack *u);
/* A NULL-terminated list of at most max strings; free with unpack_strv_free. NULL when bad. */
char **unpack_strv(struct unpack *u, size_t max, size_t *ret_n);
void unpack_strv_free(char **v);
/* Whether everything was read and nothing was bad. */
bool unpack_end(const struct unpack *u);
