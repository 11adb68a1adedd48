/* Allocation that does not fail, and what every layer uses of it. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <sys/param.h> /* MIN, MAX */

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* As malloc and its kin, but end the process with a message when memory is out: there is no useful way on from there,
 * and what an outsider feeds is bounded before it is stored (base/buf.h). Free with free(). */
void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((returns_nonnull, warn_unused_result));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull, warn_unused_result));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xmemdup(const void *p, size_t n) __attribute__((malloc, returns_nonnull, warn_unused_result));
char *xasprintf(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), malloc, returns_nonnull, warn_unused_result));
char *xvasprintf(const char *fmt, va_list ap)
	__attribute__((format(printf, 1, 0), malloc, returns_nonnull, warn_unused_result));

/* Makes room for one more element in a growing array: n are used, *cap is the room. */
void *grow_array(void *p, size_t n, size_t *cap, size_t size) __attribute__((returns_nonnull, warn_unused_result));
