/* What the setting of a cursor means. A cursor has words, or bands of numbers within 0..1, written "0.0..0.3" or
 * "0.0-0.3"; each stands for a text. */
#include "cursor.h"

#include <dsl/ast.h>

#include <stdlib.h>
#include <string.h>

/* A number within 0..1 at *s, moving behind it. */
static bool read_share(const char **s, double *ret)
{
	char *end;

	if (!**s || strspn(*s, "0123456789.") == 0)
		return false;
	/* "0..3" must not read as "0." and "."; strtod would. */
	size_t n = strspn(*s, "0123456789");
	if ((*s)[n] == '.' && (*s)[n + 1] != '.')
		n += 1 + strspn(*s + n + 1, "0123456789");
	char text[32];
	if (n >= sizeof text)
		return false;
	memcpy(text, *s, n);
	text[n] = '\0';
	*ret = strtod(text, &end);
	*s += n;
	return end != text && *end == '\0' && *ret <= 1;
}

bool cursor_band(const char *s, double *ret_from, double *ret_to)
{
	if (!read_share(&s, ret_from))
		return false;
	s += strspn(s, " ");
	if (strncmp(s, "..", 2) == 0)
		s += 2;
	else if (*s == '-')
		s++;
	else
		return false;
	s += strspn(s, " ");
	return read_share(&s, ret_to) && !*s && *ret_from < *ret_to;
}

const char *dsl_cursor_meaning(const struct dsl_cursor *c, const json_t *value)
{
	double from, to, d = json_number_value(value);

	for (size_t i = 0; json_is_number(value) && i < c->bands.n; i++)
		if (cursor_band(c->bands.v[i].key.s, &from, &to) && d >= from && d <= to)
			return c->bands.v[i].value.s ? c->bands.v[i].value.s : "";
	for (size_t i = 0; json_is_string(value) && i < c->values.n; i++)
		if (strcmp(c->values.v[i].key.s, json_string_value(value)) == 0)
			return c->values.v[i].value.s ? c->values.v[i].value.s : "";
	return NULL;
}
