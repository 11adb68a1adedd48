/* What `run` was told, from one process to the next.
 *
 * A run that goes on must do so in the same kind of place, although nobody repeats its flags or has its environment
 * around. So run.json keeps both as they were given, and they have the same weight again: a flag of then counts as a
 * flag, a variable of then as a variable, which the file's blocks override. Only a flag of now is stronger.
 *
 * Beside what was asked for stands which driver came of it. That is taken up where nothing was asked for: a container
 * engine that is away for a moment must not move a run into another kind of sandbox. "noop" is never taken up in this
 * way, since nobody is to lose a sandbox who did not ask for that. */
#include "run_note.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/path.h>
#include <base/str.h>

#include <stdlib.h>
#include <unistd.h>

static const char enforcement_name[] = "ITERION_NETWORK_ENFORCEMENT";

static json_t *note_env(void)
{
	const struct sandbox_env env = sandbox_env_now();
	json_t *o = json_object();

	json_put_str(o, "mode", env.mode);
	json_put_str(o, "driver", env.driver);
	json_put_str(o, "default_image", env.default_image);
	json_put_str(o, "host_state", env.host_state);
	json_put_str(o, "network_enforcement", getenv(enforcement_name));
	return o;
}

/* A path that was meant from the folder of then. */
static void put_path(json_t *o, const char *key, const char *path)
{
	auto_free char *cwd = getcwd(NULL, 0);
	auto_free char *whole = path && cwd && !str_eq(path, "none") ? path_join(cwd, path) : NULL;

	json_put_str(o, key, whole ? whole : path);
}

json_t *run_note(const struct run_opts *o)
{
	const struct sandbox_flags *f = &o->sandbox;
	json_t *note = json_object(), *resolve = json_array();

	json_put_str(note, "sandbox", f->mode);
	json_put_str(note, "sandbox_driver", f->driver);
	json_put_str(note, "sandbox_default_image", f->default_image);
	json_put_str(note, "sandbox_host_state", f->host_state);
	put_path(note, "devcontainer", f->devcontainer);
	for (size_t i = 0; i < o->resolve.n; i++)
		(void)json_array_append_new(resolve, json_string(o->resolve.v[i]));
	json_put(note, "resolve", resolve);
	json_put_int(note, "timeout_ms", (long long)o->timeout_ms);
	json_put_str(note, "branch_name", o->branch_name);
	json_put_str(note, "merge_into", o->merge_into);
	json_put_str(note, "merge_strategy", o->merge_strategy);
	json_put_bool(note, "auto_merge", o->auto_merge);
	json_put(note, "environment", note_env());
	return note;
}

static void take_str(const char **to, const json_t *from, const char *key)
{
	if (!*to)
		*to = json_get_str(from, key);
}

static void take_flags(struct run_opts *o, const json_t *note)
{
	const json_t *timeout = json_object_get(note, "timeout_ms"), *resolve = json_object_get(note, "resolve");
	size_t n = o->resolve.n ? 0 : json_array_size(resolve);

	take_str(&o->sandbox.driver, note, "sandbox_driver");
	take_str(&o->sandbox.default_image, note, "sandbox_default_image");
	take_str(&o->sandbox.host_state, note, "sandbox_host_state");
	/* A sandbox that somebody does without now needs none. */
	if (!str_eq(o->sandbox.mode, "none"))
		take_str(&o->sandbox.devcontainer, note, "devcontainer");
	take_str(&o->sandbox.mode, note, "sandbox");
	take_str(&o->branch_name, note, "branch_name");
	take_str(&o->merge_into, note, "merge_into");
	take_str(&o->merge_strategy, note, "merge_strategy");
	o->auto_merge |= json_is_true(json_object_get(note, "auto_merge"));
	if (!o->timeout_ms && json_is_integer(timeout) && json_integer_value(timeout) > 0)
		o->timeout_ms = (unsigned long long)json_integer_value(timeout);
	for (size_t i = 0; i < n; i++)
		if (json_is_string(json_array_get(resolve, i)))
			strv_add(&o->resolve, json_string_value(json_array_get(resolve, i)));
}

void run_noted_fill(struct run_noted *ret, const json_t *record)
{
	const json_t *note = json_object_get(record, "options"), *was = json_object_get(record, "sandbox");
	const json_t *env = json_object_get(note, "environment");
	/* Another mode may well be another kind of sandbox. */
	bool same = !ret->opts.sandbox.mode;

	take_flags(&ret->opts, note);
	if (json_is_object(env)) {
		ret->env = (struct sandbox_env){
			.mode = json_get_str(env, "mode"),
			.driver = json_get_str(env, "driver"),
			.default_image = json_get_str(env, "default_image"),
			.host_state = json_get_str(env, "host_state"),
		};
		ret->opts.sandbox.env = &ret->env;
	}
	if (!same || ret->opts.sandbox.driver || ret->env.driver)
		return;
	const char *driver = json_get_str(was, "driver");
	ret->main_driver = driver && !str_eq(driver, "noop") ? driver : NULL;
	ret->drivers = json_object_get(was, "nodes");
}

void run_noted_enforce(const json_t *record)
{
	const json_t *env = json_object_get(json_object_get(record, "options"), "environment");
	const char *then = json_get_str(env, "network_enforcement"), *now = getenv(enforcement_name);

	if (then && *then && (!now || !*now))
		(void)setenv(enforcement_name, then, 1);
}

void run_noted_done(struct run_noted *n)
{
	strv_done(&n->opts.resolve);
}
