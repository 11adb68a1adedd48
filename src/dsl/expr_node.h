/* A compiled expression. */
#pragma once

#include <base/json.h>
#include <dsl/expr.h>
#include <stdint.h>

enum { EXPR_DEPTH_MAX = 200 };

enum expr_kind {
	EXPR_LITERAL,
	EXPR_PATH,   /* ref, then steps */
	EXPR_SELECT, /* arg[0], then steps */
	EXPR_NOT,
	EXPR_MINUS,
	EXPR_AND,
	EXPR_OR,
	EXPR_COMPARE, /* op: "==", "!=", "<", "<=", ">", ">=" */
	EXPR_ARITH,   /* op: + - * / % */
	EXPR_CALL,
};

/* One .name or [index] behind a value. */
struct expr_step {
	const char *name; /* NULL: by index */
	const struct expr_node *index;
};

struct expr_node {
	enum expr_kind kind;
	unsigned depth;
	char op[3];
	const struct expr_fn *fn;
	const struct expr_node **args;
	size_t n_args;
	struct expr_step *steps;
	size_t n_steps;
	struct dsl_ref ref; /* of a path; ref.n counts the steps too, for those who look at references */
	const char *text;   /* a literal string */
	size_t len;
	json_t *value; /* another literal: static singletons, numbers in num */
	bool is_int, is_number;
	long long integer;
	double real;
};

struct expr {
	const struct expr_node *root;
	const struct dsl_ref **refs;
	size_t n_refs;
};

enum { EXPR_TEXT_MAX = 64 * 1024 * 1024 }; /* bytes that one string result may have */

struct eval {
	const struct dsl_scope *scope;
	struct err *e;
};

/* A new reference, or NULL after filling the error. A missing path is null. */
json_t *expr_eval_node(struct eval *v, const struct expr_node *n);

/* Functions: checked for their number of arguments when compiled. */
struct expr_fn {
	const char *name;
	size_t min_args, max_args;
	json_t *(*call)(struct eval *v, const struct expr_node *n);
};
const struct expr_fn *expr_find_fn(const char *name, size_t len);
/* Their names, for hints. */
size_t expr_fn_names(const char *const **ret);

const char *expr_type_name(const json_t *v);
json_t *expr_arith(struct eval *v, char op, const json_t *a, const json_t *b);
json_t *expr_compare(struct eval *v, const char *op, const json_t *a, const json_t *b);

/* A value's steps; takes base, returns a new reference. */
json_t *ref_step_name(json_t *base, const char *name);
json_t *ref_step_index(json_t *base, long long index);

/* The namespace of a word, -1 when it is none. */
int ref_namespace(const char *s, size_t len);
