/* Strings, string lists, and text as people read it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;

bool str_eq(const char *a, const char *b);
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);

/* A growing, NULL-terminated list of strings that it owns. */
struct strv {
	char **v; /* NULL when empty */
	size_t n;
	size_t cap;
};
void strv_add(struct strv *l, const char *s);
/* Takes s, which was allocated. */
void strv_take(struct strv *l, char *s);
bool strv_has(const struct strv *l, const char *s);
void strv_done(struct strv *l);
#define auto_strv __attribute__((cleanup(strv_done))) struct strv

/* Environment lists ("NAME=value"): sets or replaces; the value of a name or NULL. */
void strv_set_env(struct strv *l, const char *name, const char *value);
const char *strv_get_env(const struct strv *l, const char *name);

/* Whether len bytes are valid UTF-8 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF). */
bool utf8_valid(const char *s, size_t len);

/* Appends len bytes with every invalid sequence replaced by U+FFFD; returns 0 or -ENOBUFS. */
int utf8_sanitize(struct buf *to, const char *s, size_t len);

/* Appends text that is safe on a terminal: control characters but newline and tab become \xNN, those that reorder text
 * (bidirectional overrides, embeddings, isolates) and line separators \uNNNN, bad UTF-8 U+FFFD. */
int text_neutralise(struct buf *to, const char *s, size_t len);

/* The candidate nearest to word by edit distance, or NULL when none is near enough to be meant. */
const char *str_nearest(const char *word, const char *const *candidates, size_t n);

/* "30m", "1h30m", "500ms", "1.5s" → milliseconds (Go's duration syntax, without signs); -EINVAL when malformed. */
int str_parse_duration(const char *s, unsigned long long *ret_ms);

/* A whole decimal number within [min, max]; -EINVAL or -ERANGE. */
int str_parse_uint(const char *s, unsigned long long min, unsigned long long max, unsigned long long *ret);

/* Whether there is an ASCII control character in it. */
bool str_has_control(const char *s);

/* Whether it is [A-Za-z_][A-Za-z0-9_]*. */
bool str_is_identifier(const char *s);

/* Appends s quoted for a POSIX shell as one word (single quotes); returns 0 or -ENOBUFS. s holds no NUL. */
int shell_quote(struct buf *to, const char *s, size_t len);
