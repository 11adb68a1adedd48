/* Values of declared types: of vars, presets, --var and human answers. */
#pragma once

#include <dsl/ast.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* "string", "string[]", …; "unknown" for DSL_TYPE_NONE. */
const char *dsl_type_name(enum dsl_type type);

/* Whether a value is of the type (an int is also a float; null only of json). */
bool dsl_type_accepts(enum dsl_type type, const json_t *v);

/* A typed value out of text, as --var gives it: true/false, numbers, JSON; string[] as a JSON list or words between
 * commas. *ret is a new reference. -EINVAL when it does not fit. */
int dsl_type_parse(enum dsl_type type, const char *text, size_t len, json_t **ret, struct err *e)
	__attribute__((warn_unused_result));

/* Whether v fits the var, its [enum: …] included; -EINVAL with the reason. */
int dsl_var_check(const struct dsl_var *var, const json_t *v, struct err *e) __attribute__((warn_unused_result));
