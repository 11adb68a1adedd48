/* The leaves of the syntax tree: positions and the values of properties as they were written. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct expr;
struct template;

/* Both count from 1 (columns in bytes); line 0: the thing was not written in the file. */
struct dsl_pos {
	uint32_t line;
	uint32_t column;
};

/* Text as it is after removing quotes, common indentation, strict escapes and ${…}. s is NUL-terminated and NULL when
 * the property was not written. */
struct dsl_str {
	const char *s;
	size_t len;
	struct dsl_pos pos; /* of the first character of the text */
	uint32_t indent;    /* columns that were removed before each further line */
	bool shifted;	    /* offsets in s do not match the file's: something was expanded */
};

/* A whole number, a number, a yes or no. set tells whether it was written; v is 0 or false otherwise. */
struct dsl_int {
	long long v;
	bool set;
	struct dsl_pos pos;
};
struct dsl_num {
	double v;
	bool set;
	struct dsl_pos pos;
};
struct dsl_bool {
	bool v;
	bool set;
	struct dsl_pos pos;
};

/* A word out of a fixed set: v is one of the property's enum, 0 when it was not written (or wrong). */
struct dsl_word {
	int v;
	struct dsl_pos pos;
};

struct dsl_list {
	struct dsl_str *v;
	size_t n;
	struct dsl_pos pos; /* line 0: not written */
};

struct dsl_pair {
	struct dsl_str key;
	struct dsl_str value;
};
struct dsl_map {
	struct dsl_pair *v;
	size_t n;
	struct dsl_pos pos;
};

/* A literal; the value belongs to the file. NULL when it was not written. */
struct dsl_literal {
	json_t *v;
	struct dsl_pos pos;
};
struct dsl_setting {
	struct dsl_str key;
	struct dsl_literal value;
};

/* A string with {{…}} in it. t is NULL when the text is missing or the template is bad (which was reported). */
struct dsl_text {
	struct dsl_str src;
	const struct template *t;
};
struct dsl_field_text {
	struct dsl_str key;
	struct dsl_text value;
};

/* An expression; x is NULL as above. */
struct dsl_expr {
	struct dsl_str src;
	const struct expr *x;
};
struct dsl_field_expr {
	struct dsl_str key;
	struct dsl_expr value;
};

/* Where the character at an offset of the text stands in the file (the start of the text when that is not known). */
struct dsl_pos dsl_str_pos(const struct dsl_str *s, size_t offset);
