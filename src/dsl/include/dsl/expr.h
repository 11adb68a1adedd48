/* Expressions: compiled once, evaluated often. Values are JSON values. */
#pragma once

#include <dsl/scope.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct arena;
struct err;
struct expr;

/* Bare names are fields of the source's output (a when) instead of an error. */
enum { EXPR_BARE_NAMES = 1 };

/* *ret lives in the arena. Returns 0, or -EINVAL with the reason in e and the offset in *ret_offset (may be NULL). */
int expr_compile(struct arena *a, const char *text, size_t len, unsigned flags, const struct expr **ret,
		 size_t *ret_offset, struct err *e) __attribute__((warn_unused_result));

/* *ret is a new reference. Returns 0, or -EINVAL when types do not fit (the message names them), a number overflows or
 * a division is by zero. */
int expr_eval(const struct expr *x, const struct dsl_scope *scope, json_t **ret, struct err *e)
	__attribute__((warn_unused_result));

/* As expr_eval, for a condition. */
int expr_test(const struct expr *x, const struct dsl_scope *scope, bool *ret, struct err *e)
	__attribute__((warn_unused_result));

/* What counts as true: true, a number but 0, a string, list or object that is not empty. NULL is null. */
bool json_truthy(const json_t *v);

/* The references in it. */
size_t expr_refs(const struct expr *x, const struct dsl_ref *const **ret);
