/* The environment of a program in a sandbox: a short list, since what the host's holds (tokens, sockets, paths) is
 * exactly what a sandbox keeps out. */
#include "program_env.h"

#include <base/mem.h>
#include <base/str.h>
#include <driver/session.h>
#include <sandbox/devcontainer.h>
#include <sandbox/spec.h>

#include <stdlib.h>
#include <string.h>

static void add_list(struct strv *env, const struct strv *list)
{
	for (size_t i = 0; i < list->n; i++) {
		size_t len = strcspn(list->v[i], "=");
		char *name = xstrndup(list->v[i], len);
		if (list->v[i][len])
			strv_set_env(env, name, list->v[i] + len + 1);
		free(name);
	}
}

static void set_default(struct strv *env, const char *name, const char *value)
{
	if (!strv_get_env(env, name))
		strv_set_env(env, name, value);
}

void program_env(struct strv *env, const struct sandbox_spec *spec, const struct session *session)
{
	static const char *const taken[] = {"USER", "LOGNAME", "LANG", "LC_ALL", "TERM", "TZ"};
	const char *home = session_home(session);

	add_list(env, session_image_env(session));
	/* An image has programs of its own, in places that the host's PATH says nothing about. */
	if (!spec->image && !spec->build.dockerfile && getenv("PATH"))
		set_default(env, "PATH", getenv("PATH"));
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		const char *value = getenv(taken[i]);
		if (value)
			set_default(env, taken[i], value);
	}
	set_default(env, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	set_default(env, "LANG", "C.UTF-8");
	set_default(env, "TERM", "dumb");
	if (home)
		strv_set_env(env, "HOME", home);
	add_list(env, &spec->env);
	devcontainer_apply_remote_env(env, &spec->remote_env);
}
