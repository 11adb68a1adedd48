/* Expressions: the walk over the tree. Values are JSON values with reference counts; every function here returns a new
 * reference, or NULL after it filled the error. A path that leads nowhere is null; null is false; only == and != may
 * compare null with something else. */
#include "expr_node.h"

#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool json_truthy(const json_t *v)
{
	if (!v)
		return false;
	switch (json_typeof(v)) {
	case JSON_TRUE:
		return true;
	case JSON_INTEGER:
	case JSON_REAL:
		return json_number_value(v) != 0;
	case JSON_STRING:
		return json_string_length(v) > 0;
	case JSON_ARRAY:
		return json_array_size(v) > 0;
	case JSON_OBJECT:
		return json_object_size(v) > 0;
	case JSON_FALSE:
	case JSON_NULL:
		break;
	}
	return false;
}

const char *expr_type_name(const json_t *v)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "object", [JSON_ARRAY] = "list", [JSON_STRING] = "string", [JSON_INTEGER] = "int",
		[JSON_REAL] = "float",	  [JSON_TRUE] = "bool",	 [JSON_FALSE] = "bool",	   [JSON_NULL] = "null",
	};

	return v ? names[json_typeof(v)] : "null";
}

static json_t *type_error(struct eval *v, const char *op, const json_t *a, const json_t *b)
{
	(void)err_set(v->e, ERR_INPUT, 0, "expression: %s %s %s: the types do not fit", expr_type_name(a), op,
		      expr_type_name(b));
	err_hint(v->e, "%s",
		 json_is_null(a) || json_is_null(b) ? "a missing value is null: test it first, x != null && …"
						    : "compare and compute with values of one type");
	return NULL;
}

static json_t *number_error(struct eval *v, const char *what)
{
	(void)err_set(v->e, ERR_INPUT, 0, "expression: %s", what);
	return NULL;
}

static json_t *real_or_error(struct eval *v, double d)
{
	return isfinite(d) ? json_real(d) : number_error(v, "the result is too large for a number");
}

/* Whole numbers stay whole; only a division that does not come out even makes a float. */
static json_t *arith_int(struct eval *v, char op, long long a, long long b)
{
	long long r = 0;
	bool overflow = false;

	switch (op) {
	case '+':
		overflow = __builtin_add_overflow(a, b, &r);
		break;
	case '-':
		overflow = __builtin_sub_overflow(a, b, &r);
		break;
	case '*':
		overflow = __builtin_mul_overflow(a, b, &r);
		break;
	default:
		if (b == 0)
			return number_error(v, "a division by zero");
		/* The one quotient that does not fit: the least number by -1. */
		if (b == -1)
			overflow = op == '/' && __builtin_sub_overflow(0LL, a, &r);
		else if (op == '/' && a % b != 0)
			return real_or_error(v, (double)a / (double)b);
		else
			r = op == '/' ? a / b : a % b;
	}
	return overflow ? number_error(v, "the result is too large for a whole number") : json_integer(r);
}

static json_t *arith_real(struct eval *v, char op, double a, double b)
{
	switch (op) {
	case '+':
		return real_or_error(v, a + b);
	case '-':
		return real_or_error(v, a - b);
	case '*':
		return real_or_error(v, a * b);
	default:
		break;
	}
	if (b == 0)
		return number_error(v, "a division by zero");
	return real_or_error(v, op == '/' ? a / b : fmod(a, b));
}

static json_t *join_strings(struct eval *v, const json_t *a, const json_t *b)
{
	size_t n = json_string_length(a), m = json_string_length(b);

	if (n + m > EXPR_TEXT_MAX)
		return number_error(v, "the text is too large");
	char *s = xmalloc(n + m + 1);
	memcpy(s, json_string_value(a), n);
	memcpy(s + n, json_string_value(b), m);
	json_t *r = json_text(s, n + m);
	free(s);
	return r;
}

json_t *expr_arith(struct eval *v, char op, const json_t *a, const json_t *b)
{
	if (op == '+' && json_is_string(a) && json_is_string(b))
		return join_strings(v, a, b);
	if (json_is_integer(a) && json_is_integer(b))
		return arith_int(v, op, json_integer_value(a), json_integer_value(b));
	if (json_is_number(a) && json_is_number(b))
		return arith_real(v, op, json_number_value(a), json_number_value(b));
	return type_error(v, (char[]){op, '\0'}, a, b);
}

static int compare_strings(const json_t *a, const json_t *b)
{
	size_t n = json_string_length(a), m = json_string_length(b);
	int r = memcmp(json_string_value(a), json_string_value(b), MIN(n, m));

	return r ? r : (n > m) - (n < m);
}

static int compare_numbers(const json_t *a, const json_t *b)
{
	if (json_is_integer(a) && json_is_integer(b)) {
		long long x = json_integer_value(a), y = json_integer_value(b);
		return (x > y) - (x < y);
	}
	double x = json_number_value(a), y = json_number_value(b);
	return (x > y) - (x < y);
}

static bool same_type(const json_t *a, const json_t *b)
{
	return strcmp(expr_type_name(a), expr_type_name(b)) == 0 || (json_is_number(a) && json_is_number(b));
}

static bool equal(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return compare_numbers(a, b) == 0;
	return json_equal(a, b);
}

json_t *expr_compare(struct eval *v, const char *op, const json_t *a, const json_t *b)
{
	bool equality = op[1] == '=' && (op[0] == '=' || op[0] == '!');

	if (equality && (json_is_null(a) || json_is_null(b)))
		return json_boolean((json_is_null(a) && json_is_null(b)) == (op[0] == '='));
	if (!same_type(a, b))
		return type_error(v, op, a, b);
	if (equality)
		return json_boolean(equal(a, b) == (op[0] == '='));
	if (!json_is_number(a) && !json_is_string(a))
		return type_error(v, op, a, b);
	int order = json_is_string(a) ? compare_strings(a, b) : compare_numbers(a, b);
	bool less = op[0] == '<';
	return json_boolean(order == 0 ? op[1] == '=' : (order < 0) == less);
}

json_t *ref_step_name(json_t *base, const char *name)
{
	json_t *next = json_incref(json_object_get(base, name));

	json_decref(base);
	return next;
}

json_t *ref_step_index(json_t *base, long long index)
{
	size_t n = json_array_size(base);
	json_t *next = NULL;

	if (index < 0)
		index += (long long)n;
	if (index >= 0 && (unsigned long long)index < n)
		next = json_incref(json_array_get(base, (size_t)index));
	json_decref(base);
	return next;
}

static json_t *or_null(json_t *v)
{
	return v ? v : json_null();
}

/* base[index], with an index that is computed; takes base. */
static json_t *step_computed(struct eval *v, json_t *base, const struct expr_node *index)
{
	auto_json i = expr_eval_node(v, index);

	if (!i) {
		json_decref(base);
		return NULL;
	}
	if (json_is_integer(i))
		return or_null(ref_step_index(base, json_integer_value(i)));
	if (json_is_string(i))
		return or_null(ref_step_name(base, json_string_value(i)));
	json_decref(base);
	(void)err_set(v->e, ERR_INPUT, 0, "expression: an index is an int or a string, not %s", expr_type_name(i));
	return NULL;
}

static json_t *eval_steps(struct eval *v, json_t *base, const struct expr_step *steps, size_t n)
{
	for (size_t i = 0; base && i < n; i++)
		base = steps[i].name ? or_null(ref_step_name(base, steps[i].name))
				     : step_computed(v, base, steps[i].index);
	return base;
}

static json_t *eval_literal(const struct expr_node *n)
{
	if (n->text)
		return json_text(n->text, n->len);
	if (n->is_number)
		return n->is_int ? json_integer(n->integer) : json_real(n->real);
	return json_incref(n->value);
}

static json_t *eval_logic(struct eval *v, const struct expr_node *n)
{
	bool stop_at = n->kind == EXPR_OR;

	for (size_t i = 0; i < n->n_args; i++) {
		auto_json a = expr_eval_node(v, n->args[i]);
		if (!a)
			return NULL;
		if (json_truthy(a) == stop_at)
			return json_boolean(stop_at);
	}
	return json_boolean(!stop_at);
}

static json_t *eval_unary(struct eval *v, const struct expr_node *n)
{
	auto_json a = expr_eval_node(v, n->args[0]);

	if (!a)
		return NULL;
	if (n->kind == EXPR_NOT)
		return json_boolean(!json_truthy(a));
	if (json_is_real(a))
		return json_real(-json_real_value(a));
	if (json_is_integer(a))
		return arith_int(v, '-', 0, json_integer_value(a));
	(void)err_set(v->e, ERR_INPUT, 0, "expression: -%s: only a number has a sign", expr_type_name(a));
	return NULL;
}

static json_t *eval_binary(struct eval *v, const struct expr_node *n)
{
	auto_json a = expr_eval_node(v, n->args[0]);
	auto_json b = a ? expr_eval_node(v, n->args[1]) : NULL;

	if (!a || !b)
		return NULL;
	return n->kind == EXPR_ARITH ? expr_arith(v, n->op[0], a, b) : expr_compare(v, n->op, a, b);
}

json_t *expr_eval_node(struct eval *v, const struct expr_node *n)
{
	switch (n->kind) {
	case EXPR_LITERAL:
		return eval_literal(n);
	case EXPR_PATH:
		return eval_steps(v, or_null(v->scope->get(v->scope->arg, n->ref.ns, n->steps[0].name)), n->steps + 1,
				  n->n_steps - 1);
	case EXPR_SELECT:
		return eval_steps(v, expr_eval_node(v, n->args[0]), n->steps, n->n_steps);
	case EXPR_NOT:
	case EXPR_MINUS:
		return eval_unary(v, n);
	case EXPR_AND:
	case EXPR_OR:
		return eval_logic(v, n);
	case EXPR_COMPARE:
	case EXPR_ARITH:
		return eval_binary(v, n);
	case EXPR_CALL:
		break;
	}
	return n->fn->call(v, n);
}

int expr_eval(const struct expr *x, const struct dsl_scope *scope, json_t **ret, struct err *e)
{
	struct eval v = {.scope = scope, .e = e};
	json_t *r = expr_eval_node(&v, x->root);

	if (!r)
		return -EINVAL;
	*ret = r;
	return 0;
}

int expr_test(const struct expr *x, const struct dsl_scope *scope, bool *ret, struct err *e)
{
	auto_json v = NULL;
	int r = expr_eval(x, scope, &v, e);

	if (r == 0)
		*ret = json_truthy(v);
	return r;
}
