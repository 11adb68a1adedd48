/* Values and declared types. */
#pragma once

#include <dsl/ast.h>
#include <jansson.h>
#include <stdbool.h>

struct err;

const char *value_type_name(enum dsl_type t);
/* Whether v is of the type (an int is a float too; json takes anything). */
bool value_has_type(const json_t *v, enum dsl_type t);
/* Whether v is one of the choices; no choices: always. */
bool value_is_choice(const json_t *v, const struct dsl_list *choices);
/* Reads text as the type; the result is a new reference, NULL when it does not fit. */
json_t *value_parse(const char *text, enum dsl_type t);
/* Checks an object against a schema: 0, or -EINVAL with every field named that does not fit. */
int value_check(const json_t *object, const struct dsl_schema *s, struct err *e) __attribute__((warn_unused_result));
