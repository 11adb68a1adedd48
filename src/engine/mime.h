/* What kind of file it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { MIME_HEAD = 4096 }; /* so many first bytes are enough */

/* The MIME type of a file by its first bytes and its name; whole: these are all. Static, never NULL. */
const char *mime_of(const char *name, const char *head, size_t len, bool whole) __attribute__((returns_nonnull));

/* Whether a type is what is wanted: "image/png", "image/" with a star, or a star. Case does not matter. */
bool mime_accepts(const char *wanted, const char *mime);
