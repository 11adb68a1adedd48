/* The variables of devcontainer.json, exactly as the reference reads them (a regular expression, /\$\{(.*?)\}/, and a
 * split at colons): a variable ends at the first closing brace of its line, so one inside another is not seen; what is
 * behind the second colon is dropped; a variable that is set but empty does not take its default; values are put in
 * once. */
#include "devcontainer_vars.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/devcontainer.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool var_is(const struct var *v, const char *name)
{
	return v->name_len == strlen(name) && memcmp(v->name, name, v->name_len) == 0;
}

static const char *env_value(const char *const *env, const char *name, size_t len)
{
	if (memchr(name, '=', len))
		return NULL;
	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

int var_add_env(const struct var *v, const char *const *env, struct buf *to)
{
	int r = 0;

	if (!v->arg)
		return -EINVAL;
	const char *value = env_value(env, v->arg, v->arg_len);
	if (value)
		r = buf_puts(to, value);
	else if (v->fallback)
		r = buf_add(to, v->fallback, v->fallback_len);
	return r < 0 ? r : 1;
}

/* Cuts the part up to the next colon off what stands between the braces; NULL when there is none. */
static const char *next_part(const char **rest, size_t *left, size_t *ret_len)
{
	const char *part = *rest;

	if (!part)
		return NULL;
	const char *colon = memchr(part, ':', *left);
	*ret_len = colon ? (size_t)(colon - part) : *left;
	*left -= *ret_len + (colon != NULL);
	*rest = colon ? colon + 1 : NULL;
	return part;
}

static struct var split(const char *inside, size_t len)
{
	struct var v = {0};

	v.name = next_part(&inside, &len, &v.name_len);
	v.arg = next_part(&inside, &len, &v.arg_len);
	v.fallback = next_part(&inside, &len, &v.fallback_len);
	return v;
}

/* Where a '.' of the regular expression stops: the line terminators of ECMAScript. */
static bool ends_line(const char *s, const char *end)
{
	return *s == '\n' || *s == '\r' || (end - s >= 3 && memcmp(s, "\xe2\x80", 2) == 0 && (s[2] & ~1) == (char)0xa8);
}

/* The next variable in s: true with the first and the one behind its last character; false with where plain text goes
 * to. Openings before the end of a line or of the text that have no brace are passed at once, so that many of them do
 * not make it quadratic. */
static bool find_var(const char *s, const char *end, const char **ret_open, const char **ret_behind)
{
	const char *open = memmem(s, (size_t)(end - s), "${", 2), *close = open ? open + 2 : end;

	while (close < end && *close != '}' && !ends_line(close, end))
		close++;
	*ret_open = open;
	*ret_behind = close < end ? close + 1 : end;
	return close < end && *close == '}';
}

/* Between the braces stand len bytes of inside. */
static int add_var(const char *inside, size_t len, var_value_fn value, void *arg, struct buf *to)
{
	const struct var v = split(inside, len);
	int known = value(arg, &v, to);

	return known ? MIN(known, 0) : buf_add(to, inside - 2, len + 3);
}

int vars_replace(const char *text, size_t len, var_value_fn value, void *arg, struct buf *to)
{
	const char *s = text, *end = text + len, *open, *behind;

	while (s < end) {
		bool found = find_var(s, end, &open, &behind);
		int r = buf_add(to, s, (size_t)((found ? open : behind) - s));
		if (r == 0 && found)
			r = add_var(open + 2, (size_t)(behind - 1 - (open + 2)), value, arg, to);
		if (r < 0)
			return r;
		s = behind;
	}
	return 0;
}

static int container_value(void *arg, const struct var *v, struct buf *to)
{
	if (!var_is(v, "containerEnv"))
		return 0;
	int r = var_add_env(v, arg, to);
	return r == -EINVAL ? 0 : r;
}

char *devcontainer_expand_env(const struct strv *env, const char *text)
{
	/* Eight times what the kernel takes as one argument or variable (MAX_ARG_STRLEN): longer ones fail there. */
	struct buf out = BUF_INIT(1024 * 1024);

	if (vars_replace(text, strlen(text), container_value, env->v, &out) == 0)
		return buf_steal(&out);
	buf_done(&out);
	return xstrdup(text);
}

static void unset(struct strv *env, const char *name)
{
	size_t len = strlen(name), kept = 0;

	for (size_t i = 0; i < env->n; i++) {
		if (strncmp(env->v[i], name, len) == 0 && env->v[i][len] == '=')
			free(env->v[i]);
		else
			env->v[kept++] = env->v[i];
	}
	env->n = kept;
	if (env->v)
		env->v[kept] = NULL;
}

void devcontainer_apply_remote_env(struct strv *env, const struct strv *remote)
{
	auto_strv given = {0};

	if (remote->n == 0)
		return;
	for (size_t i = 0; i < env->n; i++)
		strv_add(&given, env->v[i]);
	for (size_t i = 0; i < remote->n; i++) {
		size_t len = strcspn(remote->v[i], "=");
		if (!remote->v[i][len]) {
			unset(env, remote->v[i]);
			continue;
		}
		auto_free char *name = xstrndup(remote->v[i], len);
		auto_free char *value = devcontainer_expand_env(&given, remote->v[i] + len + 1);
		strv_set_env(env, name, value);
	}
}
