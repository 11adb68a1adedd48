/* The functions of expressions. A missing value (null) is an empty list or text for those that take one, so that
 * length(input.items) of an input without items is 0. */
#include "expr_node.h"

#include <base/json.h>
#include <base/buf.h>
#include <base/err.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

static json_t *bad_argument(struct eval *v, const char *fn, const char *wanted, const json_t *got)
{
	(void)err_set(v->e, ERR_INPUT, 0, "expression: %s takes %s, not %s", fn, wanted, expr_type_name(got));
	return NULL;
}

static json_t *fn_length(struct eval *v, const struct expr_node *n)
{
	auto_json a = expr_eval_node(v, n->args[0]);

	if (!a)
		return NULL;
	if (json_is_array(a))
		return json_integer((json_int_t)json_array_size(a));
	if (json_is_object(a))
		return json_integer((json_int_t)json_object_size(a));
	if (json_is_null(a))
		return json_integer(0);
	if (!json_is_string(a))
		return bad_argument(v, "length", "a list, a string or an object", a);
	json_int_t characters = 0;
	const char *s = json_string_value(a);
	for (size_t i = 0; i < json_string_length(a); i++)
		characters += ((unsigned char)s[i] & 0xc0) != 0x80;
	return json_integer(characters);
}

static void append(json_t *list, json_t *item)
{
	if (json_array_append(list, item) < 0)
		abort();
}

/* Adds one argument of concat to what was collected; takes neither. NULL after an error. */
static json_t *concat_one(struct eval *v, json_t *sum, json_t *a)
{
	if (json_is_null(a))
		return json_incref(sum);
	if (json_is_string(a) && (json_is_null(sum) || json_is_string(sum)))
		return json_is_null(sum) ? json_incref(a) : expr_arith(v, '+', sum, a);
	if (!json_is_array(a) || json_is_string(sum)) {
		(void)err_set(v->e, ERR_INPUT, 0, "expression: concat takes lists or strings, not %s with %s",
			      json_is_null(sum) ? "a list or string" : expr_type_name(sum), expr_type_name(a));
		return NULL;
	}
	if (json_is_null(sum))
		return json_copy(a);
	json_t *item;
	size_t i;
	json_array_foreach(a, i, item) append(sum, item);
	return json_incref(sum);
}

static json_t *fn_concat(struct eval *v, const struct expr_node *n)
{
	json_t *sum = json_null();

	for (size_t i = 0; sum && i < n->n_args; i++) {
		auto_json a = expr_eval_node(v, n->args[i]);
		json_t *next = a ? concat_one(v, sum, a) : NULL;
		json_decref(sum);
		sum = next;
	}
	if (sum && json_is_null(sum))
		return json_array();
	return sum;
}

static json_t *fn_unique(struct eval *v, const struct expr_node *n)
{
	auto_json a = expr_eval_node(v, n->args[0]);
	auto_json seen = json_object();
	json_t *item;
	size_t i;

	if (!a)
		return NULL;
	if (!json_is_array(a))
		return json_is_null(a) ? json_array() : bad_argument(v, "unique", "a list", a);
	json_t *list = json_array();
	json_array_foreach(a, i, item)
	{
		char *key = json_dumps(item, JSON_REALS | JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
		if (!key)
			abort();
		if (!json_object_get(seen, key)) {
			json_put(seen, key, json_true());
			append(list, item);
		}
		free(key);
	}
	return list;
}

static json_t *fn_contains(struct eval *v, const struct expr_node *n)
{
	auto_json a = expr_eval_node(v, n->args[0]);
	auto_json b = a ? expr_eval_node(v, n->args[1]) : NULL;
	json_t *item;
	size_t i;

	if (!a || !b)
		return NULL;
	if (json_is_null(a))
		return json_false();
	if (json_is_array(a)) {
		json_array_foreach(a, i,
				   item) if (json_equal(item, b) ||
					     (json_is_number(item) && json_is_number(b) &&
					      !(json_number_value(item) < json_number_value(b)) &&
					      !(json_number_value(item) > json_number_value(b)))) return json_true();
		return json_false();
	}
	if (!json_is_string(b))
		return bad_argument(v, "contains", "a string to look for in a string or object", b);
	if (json_is_object(a))
		return json_boolean(json_object_get(a, json_string_value(b)) != NULL);
	if (!json_is_string(a))
		return bad_argument(v, "contains", "a list, a string or an object", a);
	return json_boolean(memmem(json_string_value(a), json_string_length(a), json_string_value(b),
				   json_string_length(b)) != NULL);
}

/* A scalar as it reads; 1 for a list or object. */
static int add_text(struct buf *to, const json_t *item)
{
	if (json_is_string(item))
		return buf_add(to, json_string_value(item), json_string_length(item));
	if (json_is_array(item) || json_is_object(item))
		return 1;
	if (json_is_null(item))
		return 0;
	char *text = json_compact(item);
	int r = buf_puts(to, text);
	free(text);
	return r;
}

static json_t *fn_join(struct eval *v, const struct expr_node *n)
{
	auto_json a = expr_eval_node(v, n->args[0]);
	auto_json sep = n->n_args > 1 && a ? expr_eval_node(v, n->args[1]) : json_string(",");
	auto_buf b = BUF_INIT(EXPR_TEXT_MAX);
	json_t *item;
	size_t i;

	if (!a || !sep)
		return NULL;
	if (!json_is_array(a) && !json_is_null(a))
		return bad_argument(v, "join", "a list", a);
	if (!json_is_string(sep))
		return bad_argument(v, "join", "a string between the items", sep);
	json_array_foreach(a, i, item)
	{
		int r = i ? buf_add(&b, json_string_value(sep), json_string_length(sep)) : 0;
		if (r == 0)
			r = add_text(&b, item);
		if (r == 1)
			return bad_argument(v, "join", "a list of strings and numbers", item);
		if (r < 0) {
			(void)err_set(v->e, ERR_INPUT, 0, "expression: join makes a text that is too large");
			return NULL;
		}
	}
	return json_text(buf_str(&b), b.len);
}

static json_t *fn_if(struct eval *v, const struct expr_node *n)
{
	auto_json c = expr_eval_node(v, n->args[0]);

	return c ? expr_eval_node(v, n->args[json_truthy(c) ? 1 : 2]) : NULL;
}

enum { MANY = 1000 };
static const struct expr_fn functions[] = {
	{"length", 1, 1, fn_length},	 {"concat", 1, MANY, fn_concat}, {"unique", 1, 1, fn_unique},
	{"contains", 2, 2, fn_contains}, {"join", 1, 2, fn_join},	 {"if", 3, 3, fn_if},
};

const struct expr_fn *expr_find_fn(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(functions); i++)
		if (strlen(functions[i].name) == len && memcmp(functions[i].name, name, len) == 0)
			return &functions[i];
	return NULL;
}

size_t expr_fn_names(const char *const **ret)
{
	static const char *const names[] = {"length", "concat", "unique", "contains", "join", "if"};

	*ret = names;
	return ARRAY_LEN(names);
}
