/* Which backend an agent has. Credentials are only looked for, never read: what decides is whether a file or a variable
 * is there. Everything comes from the environment that the caller hands over. */
#include <backend/choose.h>
#include <base/cleanup.h>
#include <base/mem.h>
#include <base/str.h>

#include <string.h>
#include <unistd.h>

static const char default_preference[] = "claude_code,claw";

/* The value of a name, or NULL when it is not set or empty. */
static const char *value_of(const char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return (*env)[len + 1] ? *env + len + 1 : NULL;
	return NULL;
}

static bool on_path(const char *path, const char *program)
{
	auto_free char *list = path ? xstrdup(path) : NULL;
	char *state = NULL;

	for (char *dir = list ? strtok_r(list, ":", &state) : NULL; dir; dir = strtok_r(NULL, ":", &state)) {
		auto_free char *full = xasprintf("%s/%s", dir, program);
		if (access(full, X_OK) == 0)
			return true;
	}
	return false;
}

static bool has_claude(const char *const *env)
{
	const char *home = value_of(env, "HOME"), *config = value_of(env, "CLAUDE_CONFIG_DIR");
	auto_free char *local = xasprintf("%s/.claude/local/claude", home ? home : "");
	auto_free char *credentials = config ? xasprintf("%s/.credentials.json", config)
					     : xasprintf("%s/.claude/.credentials.json", home ? home : "");

	return (on_path(value_of(env, "PATH"), "claude") || access(local, X_OK) == 0) && access(credentials, F_OK) == 0;
}

static bool has_key(const char *const *env)
{
	return value_of(env, "ANTHROPIC_API_KEY") || value_of(env, "ANTHROPIC_AUTH_TOKEN") ||
	       value_of(env, "OPENAI_API_KEY");
}

static bool has_credentials(const char *name, const char *const *env)
{
	static const struct {
		const char *name;
		bool (*has)(const char *const *env);
	} known[] = {{"claude_code", has_claude}, {"claw", has_key}};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq(known[i].name, name))
			return known[i].has(env);
	return false;
}

static char *preferred(const char *const *env)
{
	const char *wanted = value_of(env, "ITERION_BACKEND_PREFERENCE");
	auto_free char *list = xstrdup(wanted ? wanted : default_preference);
	char *state = NULL;

	for (char *name = strtok_r(list, ", ", &state); name; name = strtok_r(NULL, ", ", &state))
		if (has_credentials(name, env))
			return xstrdup(name);
	return NULL;
}

char *backend_choose(const struct backend_wish *w, const char **ret_source)
{
	const char *by_env = value_of(w->env, "ITERION_DEFAULT_BACKEND");

	*ret_source = w->node ? "node backend:" : w->workflow ? "workflow default_backend:" : "ITERION_DEFAULT_BACKEND";
	if (w->node || w->workflow || by_env)
		return xstrdup(w->node ? w->node : w->workflow ? w->workflow : by_env);
	char *found = preferred(w->env);
	*ret_source = found ? "credentials that were found" : "the default";
	return found ? found : xstrdup("claw");
}
