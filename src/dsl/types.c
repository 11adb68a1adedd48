/* Declared types and the values that fit them. One rule for defaults, presets, --var and answers: what the file may
 * say the command line may say too. */
#include "state.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <dsl/vars.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {
	[DSL_TYPE_NONE] = "unknown", [DSL_STRING] = "string", [DSL_BOOL] = "bool",	  [DSL_INT] = "int",
	[DSL_FLOAT] = "float",	     [DSL_JSON] = "json",     [DSL_STRINGS] = "string[]",
};

const char *dsl_type_name(enum dsl_type type)
{
	return type_names[type];
}

static bool is_strings(const json_t *v)
{
	const json_t *item;
	size_t i;

	json_array_foreach(v, i, item) if (!json_is_string(item)) return false;
	return json_is_array(v);
}

bool dsl_type_accepts(enum dsl_type type, const json_t *v)
{
	switch (type) {
	case DSL_STRING:
		return json_is_string(v);
	case DSL_BOOL:
		return json_is_boolean(v);
	case DSL_INT:
		return json_is_integer(v) || (json_is_real(v) && json_real_value(v) == floor(json_real_value(v)) &&
					      fabs(json_real_value(v)) < 9e15);
	case DSL_FLOAT:
		return json_is_number(v);
	case DSL_STRINGS:
		return is_strings(v);
	case DSL_JSON:
	case DSL_TYPE_NONE:
		break;
	}
	return v != NULL;
}

/* Words between commas, without the spaces around them. */
static json_t *split_words(const char *s, size_t len)
{
	json_t *list = json_array();

	for (const char *end = s + len; len && s <= end;) {
		const char *comma = memchr(s, ',', (size_t)(end - s));
		const char *stop = comma ? comma : end, *next = stop + 1;
		while (s < stop && *s == ' ')
			s++;
		while (stop > s && stop[-1] == ' ')
			stop--;
		if (json_array_append_new(list, json_text(s, (size_t)(stop - s))) < 0)
			abort();
		s = next;
	}
	return list;
}

static json_t *parse_number(enum dsl_type type, const char *s)
{
	char *end;

	if (!*s || strspn(s, "+-.0123456789eE") != strlen(s))
		return NULL;
	errno = 0;
	if (type == DSL_INT) {
		long long v = strtoll(s, &end, 10);
		return *end || errno ? NULL : json_integer(v);
	}
	double d = strtod(s, &end);
	return *end || !isfinite(d) ? NULL : json_real(d);
}

static json_t *parse_typed(enum dsl_type type, const char *s, size_t len)
{
	switch (type) {
	case DSL_STRING:
		return json_text(s, len);
	case DSL_BOOL:
		if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0)
			return json_boolean(s[0] == 't');
		return NULL;
	case DSL_INT:
	case DSL_FLOAT:
		return strlen(s) == len ? parse_number(type, s) : NULL;
	case DSL_STRINGS:
		if (s[strspn(s, " \t\r\n")] != '[')
			return split_words(s, len);
		return json_loadb(s, len, JSON_REJECT_DUPLICATES, NULL);
	case DSL_JSON:
	case DSL_TYPE_NONE:
		break;
	}
	json_t *v = json_loadb(s, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
	return v ? v : json_text(s, len);
}

int dsl_type_parse(enum dsl_type type, const char *text, size_t len, json_t **ret, struct err *e)
{
	auto_free char *copy = xstrndup(text, len);
	auto_json v = parse_typed(type, copy, len);

	if (!v || !dsl_type_accepts(type, v))
		return err_set(e, ERR_INPUT, 0, "\"%.100s\" is no %s", copy, dsl_type_name(type));
	*ret = json_incref(v);
	return 0;
}

int dsl_var_check(const struct dsl_var *var, const json_t *v, struct err *e)
{
	if (!dsl_type_accepts(var->type, v)) {
		auto_free char *text = v ? json_dumps(v, JSON_REALS | JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
		return err_set(e, ERR_INPUT, 0, "%.100s is no %s", text ? text : "nothing", dsl_type_name(var->type));
	}
	if (!var->choices.n || !json_is_string(v))
		return 0;
	for (size_t i = 0; i < var->choices.n; i++)
		if (strcmp(var->choices.v[i].s, json_string_value(v)) == 0)
			return 0;
	return err_set(e, ERR_INPUT, 0, "\"%.100s\" is none of the values of \"%s\"", json_string_value(v),
		       var->name.s);
}
