/* Types of the language against JSON values: what a variable on the command line means, and whether an output keeps
 * to its schema. A schema says which fields there must be; more of them do no harm. */
#include "value.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *value_type_name(enum dsl_type t)
{
	static const char *const names[] = {
		[DSL_TYPE_NONE] = "json", [DSL_STRING] = "string", [DSL_BOOL] = "bool",	       [DSL_INT] = "int",
		[DSL_FLOAT] = "float",	  [DSL_JSON] = "json",	   [DSL_STRINGS] = "string[]",
	};

	return names[t];
}

static bool all_strings(const json_t *v)
{
	size_t i;
	json_t *item;

	if (!json_is_array(v))
		return false;
	json_array_foreach(v, i, item) if (!json_is_string(item)) return false;
	return true;
}

/* Beyond 2^53 a double has no fraction, but it is no exact number either. */
static bool is_whole(double d)
{
	return d >= -0x1p53 && d <= 0x1p53 && d == (double)(long long)d;
}

bool value_has_type(const json_t *v, enum dsl_type t)
{
	switch (t) {
	case DSL_STRING:
		return json_is_string(v);
	case DSL_BOOL:
		return json_is_boolean(v);
	case DSL_INT:
		return json_is_integer(v) || (json_is_real(v) && is_whole(json_real_value(v)));
	case DSL_FLOAT:
		return json_is_number(v);
	case DSL_STRINGS:
		return all_strings(v);
	case DSL_TYPE_NONE:
	case DSL_JSON:
		break;
	}
	return v != NULL;
}

bool value_is_choice(const json_t *v, const struct dsl_list *choices)
{
	const char *s = json_string_value(v);

	for (size_t i = 0; s && i < choices->n; i++)
		if (str_eq(choices->v[i].s, s))
			return true;
	return choices->n == 0;
}

static json_t *parse_strings(const char *text)
{
	if (*text == '[')
		return json_parse_value(text, strlen(text), NULL);
	json_t *list = json_array();
	while (*text) {
		const char *end = strchrnul(text, ',');
		(void)json_array_append_new(list, json_text(text, (size_t)(end - text)));
		text = *end ? end + 1 : end;
	}
	return list;
}

static json_t *parse_number(const char *text, enum dsl_type t)
{
	char *end = NULL;

	errno = 0;
	if (t == DSL_INT) {
		long long n = strtoll(text, &end, 10);
		return errno || end == text || *end ? NULL : json_integer(n);
	}
	double d = strtod(text, &end);
	return errno || end == text || *end || !isfinite(d) ? NULL : json_real(d);
}

json_t *value_parse(const char *text, enum dsl_type t)
{
	json_t *v = NULL;

	switch (t) {
	case DSL_STRING:
		return json_text(text, strlen(text));
	case DSL_BOOL:
		if (str_eq(text, "true") || str_eq(text, "false"))
			v = json_boolean(*text == 't');
		break;
	case DSL_INT:
	case DSL_FLOAT:
		v = parse_number(text, t);
		break;
	case DSL_STRINGS:
		v = parse_strings(text);
		break;
	case DSL_TYPE_NONE:
	case DSL_JSON:
		v = json_parse_value(text, strlen(text), NULL);
		break;
	}
	if (v && value_has_type(v, t))
		return v;
	json_decref(v);
	return NULL;
}

static const char *json_type_word(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a float";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a bool";
	case JSON_NULL:
		break;
	}
	return "null";
}

/* Appends what is wrong with one field, if anything. */
static void check_field(const json_t *object, const struct dsl_field *f, struct buf *wrong)
{
	const json_t *v = json_object_get(object, f->name.s);
	const char *sep = wrong->len ? "; " : "";

	if (!v)
		(void)buf_printf(wrong, "%sfield %s is missing", sep, f->name.s);
	else if (!value_has_type(v, f->type))
		(void)buf_printf(wrong, "%sfield %s is %s, not %s", sep, f->name.s, json_type_word(v),
				 value_type_name(f->type));
	else if (!value_is_choice(v, &f->choices))
		(void)buf_printf(wrong, "%sfield %s is \"%.40s\", which is none of its choices", sep, f->name.s,
				 json_string_value(v) ? json_string_value(v) : "");
}

int value_check(const json_t *object, const struct dsl_schema *s, struct err *e)
{
	auto_buf wrong = BUF_INIT(600);

	for (size_t i = 0; i < s->n; i++)
		check_field(object, &s->fields[i], &wrong);
	if (wrong.len == 0)
		return 0;
	return err_set(e, ERR_NODE, EINVAL, "the output does not keep to schema %s: %s", s->name.s, buf_str(&wrong));
}
