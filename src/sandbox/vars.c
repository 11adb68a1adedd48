/* ${…} variables, by the rules of devcontainer.json: one pass from left to right, what was put in is not looked at
 * again, and an unknown variable stays as text. */
#include <base/buf.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/vars.h>

#include <stdint.h>
#include <string.h>

static const char *env_value(const char *const *env, const char *name, size_t len)
{
	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

static bool is_word(const char *s, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(s, word, len) == 0;
}

/* "NAME" or "NAME:default". */
static void add_env(struct buf *to, const struct sandbox_vars *v, const char *s, size_t len)
{
	const char *colon = memchr(s, ':', len);
	size_t name = colon ? (size_t)(colon - s) : len;
	const char *value = env_value(v->env, s, name);

	if (value)
		(void)buf_puts(to, value);
	else if (colon)
		(void)buf_add(to, colon + 1, len - name - 1);
}

/* Adds the value of what stands between the braces; false when it is no variable of ours. */
static bool add_value(struct buf *to, const struct sandbox_vars *v, const char *s, size_t len)
{
	static const char local_env[] = "localEnv:";
	const char *inside = v->container_workspace ? v->container_workspace : v->workspace;

	if (len > strlen(local_env) && memcmp(s, local_env, strlen(local_env)) == 0)
		add_env(to, v, s + strlen(local_env), len - strlen(local_env));
	else if (is_word(s, len, "localWorkspaceFolder"))
		(void)buf_puts(to, v->workspace);
	else if (is_word(s, len, "localWorkspaceFolderBasename"))
		(void)buf_puts(to, path_base(v->workspace));
	else if (is_word(s, len, "containerWorkspaceFolder"))
		(void)buf_puts(to, inside);
	else if (is_word(s, len, "containerWorkspaceFolderBasename"))
		(void)buf_puts(to, path_base(inside));
	else
		return false;
	return true;
}

char *sandbox_vars_expand(const struct sandbox_vars *v, const char *text)
{
	struct buf out = BUF_INIT(SIZE_MAX);

	while (*text) {
		const char *open = strstr(text, "${"), *close = open ? strchr(open, '}') : NULL;
		if (!close) {
			(void)buf_puts(&out, text);
			break;
		}
		(void)buf_add(&out, text, (size_t)(open - text));
		if (!add_value(&out, v, open + 2, (size_t)(close - open - 2)))
			(void)buf_add(&out, open, (size_t)(close + 1 - open));
		text = close + 1;
	}
	return buf_steal(&out);
}
