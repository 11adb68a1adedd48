/* Patterns of file names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct glob;

enum { GLOB_MAX = 1000, GLOB_ALTERNATIVES = 256 };

/* "*" and "?" within a part of a path, "**" over parts, [a-z], [!a-z], {a,b}. NULL when the pattern is longer than
 * GLOB_MAX, its braces do not close, or they stand for more than GLOB_ALTERNATIVES patterns. */
struct glob *glob_new(const char *pattern);
void glob_free(struct glob *g);
/* path: relative, without "." and "..". */
bool glob_match(const struct glob *g, const char *path);

/* One part of a path, or any text: * ? [ ] only; what they match may hold slashes. */
bool glob_text(const char *pattern, const char *text, size_t len);
