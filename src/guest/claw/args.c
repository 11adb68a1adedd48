/* A tool's input. The model wrote it, so nothing of it is taken for granted; the error says what was wrong in words the
 * model can act on. Unknown members are let be: models know newer versions of these tools. */
#include "args.h"

#include <base/mem.h>
#include <base/path.h>

#include <stdlib.h>

static bool absent(struct jv v)
{
	return jv_type(v) == J_MISSING || jv_type(v) == J_NULL;
}

bool arg_opt_str(struct jv input, const char *name, char **ret, struct tool_result *r)
{
	struct jv v = jv_get(input, name);

	if (absent(v))
		return true;
	char *s = jv_cstr(v);
	if (!s)
		return tool_fail(r, "%s must be a string without NUL characters.", name);
	*ret = s;
	return true;
}

bool arg_str(struct jv input, const char *name, char **ret, struct tool_result *r)
{
	if (absent(jv_get(input, name)))
		return tool_fail(r, "%s is missing.", name);
	return arg_opt_str(input, name, ret, r);
}

bool arg_opt_int(struct jv input, const char *name, long long min, long long max, long long *ret, struct tool_result *r)
{
	struct jv v = jv_get(input, name);
	long long n;

	if (absent(v))
		return true;
	if (!jv_int(v, &n) || n < min || n > max)
		return tool_fail(r, "%s must be a whole number from %lld to %lld.", name, min, max);
	*ret = n;
	return true;
}

bool arg_opt_bool(struct jv input, const char *name, bool *ret, struct tool_result *r)
{
	struct jv v = jv_get(input, name);

	return absent(v) || jv_bool(v, ret) || tool_fail(r, "%s must be true or false.", name);
}

bool arg_list(struct jv input, const char *name, struct jv *ret, struct tool_result *r)
{
	struct jv v = jv_get(input, name);

	if (jv_type(v) != J_ARRAY)
		return tool_fail(r, "%s must be a list.", name);
	*ret = v;
	return true;
}

bool arg_opt_path(const struct tools *t, struct jv input, const char *name, char **ret, struct tool_result *r)
{
	char *path = NULL;

	if (!arg_opt_str(input, name, &path, r))
		return false;
	if (!path)
		return true;
	if (!path[0]) {
		free(path);
		return tool_fail(r, "%s is empty.", name);
	}
	*ret = path_join(t->work_dir, path);
	free(path);
	return true;
}

bool arg_path(const struct tools *t, struct jv input, const char *name, char **ret, struct tool_result *r)
{
	if (absent(jv_get(input, name)))
		return tool_fail(r, "%s is missing.", name);
	return arg_opt_path(t, input, name, ret, r);
}
