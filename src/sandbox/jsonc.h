/* JSON with comments and trailing commas, as people write configuration files. */
#pragma once

#include <jansson.h>
#include <stddef.h>

struct err;

enum {
	JSONC_MAX_BYTES = 4 * 1024 * 1024,
	JSONC_MAX_DEPTH = 128, /* arrays and objects inside each other */
};

struct jsonc_place {
	const json_t *value;
	size_t offset;
};

/* A document and where in its text each value stands. */
struct jsonc {
	json_t *root;
	const char *name; /* borrowed: the file, for messages */
	const char *text; /* borrowed */
	size_t len;
	struct jsonc_place *places;
	size_t n_places, cap_places;
};

/* Parses a whole text. name and text stay the caller's and outlive ret. Line comments, block comments, one comma behind
 * the last element and a byte order mark are taken; anything else that RFC 8259 does not have is an error, and so are a
 * lone surrogate, U+0000, bytes that are not UTF-8 and a number that is out of range, because no value of ours can hold
 * them. Of two members with one name the last wins, in the place of the first (as JavaScript has it). Returns 0
 * (jsonc_done frees), or -EINVAL with "name:line:column: why". */
int jsonc_parse(const char *name, const char *text, size_t len, struct jsonc *ret, struct err *e)
	__attribute__((warn_unused_result));
void jsonc_done(struct jsonc *j);

/* Puts "name:line:column: " of the value before e's message and returns r; the document's name alone when the value has
 * no place of its own (true, false and null are one object each). */
int jsonc_at(const struct jsonc *j, const json_t *value, int r, struct err *e);
