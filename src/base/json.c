/* JSON helpers over jansson: text of any bytes becomes a valid string, and running out of memory ends the process as
 * everywhere (base/mem.h). */
#include <base/buf.h>
#include <base/err.h>
#include <base/json.h>
#include <base/str.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static json_t *not_null(json_t *j)
{
	if (!j)
		abort();
	return j;
}

json_t *json_text(const char *s, size_t len)
{
	if (utf8_valid(s, len))
		return not_null(json_stringn_nocheck(s, len));
	auto_buf b = BUF_INIT(SIZE_MAX / 4);
	if (utf8_sanitize(&b, s, len) < 0)
		abort();
	return not_null(json_stringn_nocheck(buf_str(&b), b.len));
}

void json_put(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new_nocheck(object, key, not_null(value)) < 0)
		abort();
}

void json_put_str(json_t *object, const char *key, const char *value)
{
	if (value)
		json_put(object, key, json_text(value, strlen(value)));
}

void json_put_int(json_t *object, const char *key, long long value)
{
	json_put(object, key, json_integer(value));
}

void json_put_bool(json_t *object, const char *key, bool value)
{
	json_put(object, key, json_boolean(value));
}

static json_t *parse(const char *text, size_t len, size_t flags, struct err *e)
{
	json_error_t je;
	json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES | flags, &je);

	if (!j)
		(void)err_set(e, ERR_INPUT, 0, "JSON, line %d column %d: %s", je.line, je.column, je.text);
	return j;
}

json_t *json_parse(const char *text, size_t len, struct err *e)
{
	return parse(text, len, JSON_ALLOW_NUL, e);
}

/* How deep brackets nest outside of strings; of a text that is no JSON it is some number. */
static size_t nesting(const char *text, size_t len)
{
	size_t depth = 0, deepest = 0;
	bool in_string = false;

	for (const char *p = text; p < text + len; p++) {
		if (*p == '"')
			in_string = !in_string;
		else if (in_string && *p == '\\')
			p++;
		else if (!in_string && (*p == '[' || *p == '{') && ++depth > deepest)
			deepest = depth;
		else if (!in_string && (*p == ']' || *p == '}') && depth > 0)
			depth--;
	}
	return deepest;
}

json_t *json_parse_value(const char *text, size_t len, struct err *e)
{
	if (nesting(text, len) <= JSON_VALUE_DEPTH)
		return parse(text, len, 0, e);
	(void)err_set(e, ERR_INPUT, 0, "JSON that nests deeper than %d", JSON_VALUE_DEPTH);
	return NULL;
}

const char *json_get_str(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

char *json_compact(const json_t *j)
{
	char *s = json_dumps(j, JSON_REALS | JSON_COMPACT | JSON_ENCODE_ANY);

	if (!s)
		abort();
	return s;
}
