/* A secret that the sandbox has anyway is none.
 *
 * Variables of the host can be named in a devcontainer.json, which comes with the code that one works on: one line of
 * it would bring the value of a secret that is read from the environment into every program. So a value that stands
 * anywhere in the description ends the run before anything is made of that. A file in a folder that is mounted can be
 * read inside by everybody, too. */
#include "secret_exposed.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool holds(const struct strv *v, const char *value, const char **ret_which)
{
	for (size_t i = 0; i < v->n; i++) {
		if (strstr(v->v[i], value)) {
			*ret_which = v->v[i];
			return true;
		}
	}
	return false;
}

static bool is_in_commands(const struct sandbox_lifecycle *l, const char *value, const char **ret_name)
{
	const char *which;

	for (size_t stage = 0; stage < STAGE_COUNT; stage++) {
		const struct sandbox_hook *h = &l->stages[stage];
		for (size_t i = 0; i < h->n; i++) {
			if (!holds(&h->v[i].argv, value, &which))
				continue;
			*ret_name = h->v[i].name;
			return true;
		}
	}
	return false;
}

/* Names are told, values never. */
static int refuse_variable(const char *variable, struct err *e)
{
	size_t n = strcspn(variable, "=");
	int r = err_set(e, ERR_INPUT, EEXIST, "the variable %.*s of the sandbox holds its value",
			(int)(n < 100 ? n : 100), variable);

	err_hint(e,
		 "take it out of env or devcontainer.json (containerEnv, remoteEnv); inside, the secret's own variable "
		 "holds a placeholder that works");
	return r;
}

static int refuse(const char *what, struct err *e)
{
	int r = err_set(e, ERR_INPUT, EEXIST, "its value stands in %.100s of the sandbox", what);

	err_hint(e, "name the secret's variable there instead, which holds a placeholder inside");
	return r;
}

static int check_text(const struct sandbox_spec *spec, const char *value, struct err *e)
{
	const char *which = NULL;

	if (holds(&spec->env, value, &which) || holds(&spec->remote_env, value, &which))
		return refuse_variable(which, e);
	if (holds(&spec->build.args, value, &which))
		return refuse("the build's arguments", e);
	if (holds(&spec->run_args, value, &which))
		return refuse("runArgs", e);
	if (spec->post_create && strstr(spec->post_create, value))
		return refuse("post_create", e);
	return is_in_commands(&spec->lifecycle, value, &which) ? refuse(which, e) : 0;
}

static bool is_below(const char *file, const char *folder)
{
	auto_free char *real = realpath(folder, NULL);

	return real && path_within(file, real);
}

static int check_place(const struct sandbox_spec *spec, const char *workspace, const char *path, struct err *e)
{
	auto_free char *file = realpath(path, NULL);
	const char *folder = file && workspace && is_below(file, workspace) ? workspace : NULL;

	for (size_t i = 0; file && !folder && i < spec->n_mounts; i++)
		if (spec->mounts[i].type == MOUNT_BIND && is_below(file, spec->mounts[i].source))
			folder = spec->mounts[i].source;
	if (!folder)
		return 0;
	int r = err_set(e, ERR_INPUT, EEXIST, "the file %.200s can be read in the sandbox, which has %.200s", path,
			folder);
	err_hint(e, "keep the file outside of the workspace and of what is mounted");
	return r;
}

int secret_exposed_check(const struct sandbox_spec *spec, const char *workspace, const struct sandbox_secret *s,
			 const char *value, struct err *e)
{
	int r = check_text(spec, value, e);

	if (r == 0 && str_starts(s->from, "file:"))
		r = check_place(spec, workspace, s->from + strlen("file:"), e);
	return r < 0 ? err_wrap(e, r, "sandbox secrets.%.60s", s->name) : 0;
}
