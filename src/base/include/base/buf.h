/* A growing byte buffer with a limit that is given when it is made. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* data is NUL-terminated behind len whenever it is not NULL. Free with buf_done or declare as auto_buf. */
struct buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max;
};

/* max: the most bytes it may ever hold; what would go past is refused. */
#define BUF_INIT(limit)                                                                                                \
	(struct buf)                                                                                                   \
	{                                                                                                              \
		.max = (limit)                                                                                         \
	}

/* Add bytes, a string, formatted text, or one byte. Return 0, or -ENOBUFS past the limit (then nothing was added). */
int buf_add(struct buf *b, const void *data, size_t len);
int buf_puts(struct buf *b, const char *s);
int buf_putc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Room for at least n more bytes behind len (the caller writes there and adds to len itself).
 * Returns 0, or -ENOBUFS past the limit. */
int buf_reserve(struct buf *b, size_t n);

/* Drops the first n bytes (at most len). */
void buf_consume(struct buf *b, size_t n);

/* Empties it and keeps the memory. */
void buf_clear(struct buf *b);

/* The string, never NULL; still owned by the buffer. */
const char *buf_str(const struct buf *b);

/* The string (never NULL); the caller frees it and the buffer is empty. */
char *buf_steal(struct buf *b);

/* Frees the memory; the limit stays. */
void buf_done(struct buf *b);

#define auto_buf __attribute__((cleanup(buf_done))) struct buf
