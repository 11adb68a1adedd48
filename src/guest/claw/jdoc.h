/* A strict, bounded JSON reader (RFC 8259) whose values are slices of the text they were read from. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum jtype { J_MISSING, J_NULL, J_BOOL, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT };

enum {
	JDOC_DEPTH = 128,	  /* deepest nesting that is accepted */
	JDOC_VALUES = 512 * 1024, /* most values and keys in one document */
};

struct jdoc;

/* A value; valid as long as its document. The zero value is "missing", and so is everything that is looked up in it. */
struct jv {
	const struct jdoc *doc;
	uint32_t at;
};

/* Parses a whole document, which keeps a copy of the text. NULL on error: bad syntax, bad UTF-8, a lone surrogate, too
 * deep, too many values, behind the value more than white space. */
struct jdoc *jdoc_parse(const char *text, size_t len, struct err *e);
/* NULL is accepted. */
void jdoc_free(struct jdoc *d);
struct jv jdoc_root(const struct jdoc *d);

static inline void cleanup_jdoc(struct jdoc **d)
{
	jdoc_free(*d);
}
#define auto_jdoc __attribute__((cleanup(cleanup_jdoc))) struct jdoc *

enum jtype jv_type(struct jv v);
/* The value as it stands in the text. */
const char *jv_raw(struct jv v, size_t *ret_len);
/* The member of an object with that key (the first of several equal ones). */
struct jv jv_get(struct jv object, const char *key);
/* Elements of an array, or the keys of an object: each key is followed by its value. Missing at the end. */
struct jv jv_first(struct jv v);
struct jv jv_next(struct jv v);

/* A string's text, decoded, with a NUL behind it; the caller frees. NULL when it is no string. */
char *jv_text(struct jv v, size_t *ret_len);
/* As jv_text for what becomes a C string: NULL also when it holds a NUL. */
char *jv_cstr(struct jv v);
bool jv_is(struct jv v, const char *text);
/* A number without a fraction within ±2^53; 1.0 and 1e3 are such. */
bool jv_int(struct jv v, long long *ret);
bool jv_number(struct jv v, double *ret);
bool jv_bool(struct jv v, bool *ret);
