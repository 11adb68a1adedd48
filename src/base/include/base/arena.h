/* Many small allocations that end together. */
#pragma once

#include <stddef.h>

struct arena;

/* Frees everything that was taken from it; NULL is accepted. */
struct arena *arena_new(void);
void arena_free(struct arena *a);

/* Zeroed memory, aligned for any type; lives until arena_free. Never NULL. */
void *arena_alloc(struct arena *a, size_t size) __attribute__((returns_nonnull));

/* A copy of len bytes with a NUL behind them. */
char *arena_strndup(struct arena *a, const char *s, size_t len) __attribute__((returns_nonnull));
