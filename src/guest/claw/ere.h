/* Search patterns as models write them, for the C library's POSIX matcher. */
#pragma once

#include <base/buf.h>
#include <stdbool.h>

/* Writes pattern as an extended regular expression: \d \w \s and their opposites (in brackets too), \t \n escapes, (?:
 * ), lazy quantifiers (a line that matches matches anyhow). What POSIX has nothing for (looking around, back
 * references, flags) gives false and *ret_why, a sentence. */
bool ere_write(struct buf *to, const char *pattern, const char **ret_why);

/* The longest text that whatever matches must hold, of a pattern that ere_write took; empty when there is none. The
 * caller frees. */
char *ere_must(const char *pattern);

/* Whether the pattern is plain text. */
bool ere_is_literal(const char *pattern);
