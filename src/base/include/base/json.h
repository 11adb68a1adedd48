/* What every layer needs beside jansson itself. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* For every dump: numbers as people write them. jansson's default of 17 digits makes 0.1 read 0.10000000000000001. */
#define JSON_REALS JSON_REAL_PRECISION(15)

static inline void cleanup_json(json_t **j)
{
	json_decref(*j);
}
#define auto_json __attribute__((cleanup(cleanup_json))) json_t *

/* A JSON string of any bytes: invalid UTF-8 is replaced by U+FFFD, NUL by U+0000's escape. Never NULL. */
json_t *json_text(const char *s, size_t len) __attribute__((returns_nonnull));

/* Sets key to a new string, number or bool; value NULL sets nothing. The object takes what it is given. */
void json_put_str(json_t *object, const char *key, const char *value);
void json_put_int(json_t *object, const char *key, long long value);
void json_put_bool(json_t *object, const char *key, bool value);
void json_put(json_t *object, const char *key, json_t *value);

/* Parses a whole document, such as was written from json_text: a string may hold NULs, escaped. Duplicate keys and a
 * depth beyond jansson's own limit are errors. NULL on error. */
json_t *json_parse(const char *text, size_t len, struct err *e);

/* As json_parse, for a value that comes from outside and becomes part of another document: no NULs, and it may nest
 * JSON_VALUE_DEPTH deep and no deeper, so that the whole can be read again. */
json_t *json_parse_value(const char *text, size_t len, struct err *e);
enum { JSON_VALUE_DEPTH = 1000 };

/* The string at key, or NULL when it is missing or no string. Borrowed. */
const char *json_get_str(const json_t *object, const char *key);

/* Compact text in a new string; the caller frees. */
char *json_compact(const json_t *j);
