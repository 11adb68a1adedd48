/* What a plan does not show: values of secrets.
 *
 * A plan is pasted into issues and kept in logs. What the workflow file says is no secret, but ${localEnv:…} puts the
 * host's variables into environment, mounts and commands; so the values of those variables that are named like secrets
 * are looked for in the finished document, wherever they came to stand. */
#include "sandbox_plan.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum {
	MIN_SECRET = 6,	 /* a shorter value would be found in words that have nothing to do with it */
	MAX_DEPTH = 2048 /* jansson's own */
};

/* Whether a part of the name, between underscores, ends with a word for secrets. */
static bool is_secret_name(const char *name)
{
	static const char *const words[] = {"TOKEN",  "TOKENS",	    "SECRET",	   "SECRETS", "PASSWORD",
					    "PASSWD", "PASSPHRASE", "KEY",	   "KEYS",    "CREDENTIAL",
					    "PAT",    "COOKIE",	    "CREDENTIALS", "AUTH",    "PASSWORDS"};

	while (*name) {
		size_t len = strcspn(name, "_");
		for (size_t i = 0; i < ARRAY_LEN(words); i++) {
			size_t n = strlen(words[i]);
			if (len >= n && strncasecmp(name + len - n, words[i], n) == 0)
				return true;
		}
		name += len + (name[len] == '_');
	}
	return false;
}

json_t *plan_env_json(const struct strv *env, const struct strv *shown)
{
	json_t *o = json_object();

	for (size_t i = 0; i < env->n; i++) {
		auto_free char *name = xstrndup(env->v[i], strcspn(env->v[i], "="));
		const char *value = is_secret_name(name) ? NULL : strv_get_env(shown, name);
		json_put(o, name, value ? json_text(value, strlen(value)) : json_null());
	}
	return o;
}

void plan_hide_values(json_t *map)
{
	const char *name;
	json_t *value;
	void *next;

	json_object_foreach_safe(map, next, name, value)
	{
		if (is_secret_name(name))
			(void)json_object_set_new(map, name, json_null());
	}
}

/* The text with each value replaced; NULL when it has none. */
static char *replaced(const char *text, const struct strv *secrets)
{
	auto_free char *now = NULL;

	for (size_t i = 0; i < secrets->n; i++) {
		const char *entry = secrets->v[i], *value = strchr(entry, '=') + 1;
		const char *from = now ? now : text, *at = strstr(from, value);
		struct buf to = BUF_INIT(SIZE_MAX);
		if (!at)
			continue;
		for (; at; at = strstr(from, value)) {
			(void)buf_add(&to, from, (size_t)(at - from));
			(void)buf_printf(&to, "[%.*s]", (int)(value - entry - 1), entry);
			from = at + strlen(value);
		}
		(void)buf_puts(&to, from);
		free(now);
		now = buf_steal(&to);
	}
	return TAKE_PTR(now);
}

static void walk(json_t *j, const struct strv *secrets, unsigned depth)
{
	const char *key;
	json_t *value;
	size_t i;

	if (depth > MAX_DEPTH)
		return;
	if (json_is_string(j)) {
		auto_free char *text = replaced(json_string_value(j), secrets);
		if (text)
			(void)json_string_set_nocheck(j, text);
	}
	json_object_foreach(j, key, value)
	{
		walk(value, secrets, depth + 1);
	}
	json_array_foreach(j, i, value)
	{
		walk(value, secrets, depth + 1);
	}
}

void plan_redact(json_t *doc, const struct strv *also)
{
	auto_strv secrets = {0};

	for (char **v = environ; *v; v++) {
		const char *eq = strchr(*v, '=');
		auto_free char *name = eq ? xstrndup(*v, (size_t)(eq - *v)) : NULL;
		if (name && is_secret_name(name) && strlen(eq + 1) >= MIN_SECRET)
			strv_add(&secrets, *v);
	}
	for (size_t i = 0; i < also->n; i++)
		strv_add(&secrets, also->v[i]);
	if (secrets.n)
		walk(doc, &secrets, 0);
}
