/* The environment of a node: made from nothing, so that no key of the user's shell reaches a program of a workflow.
 * A few names come from the host, unless an image has a word of its own for them; in a sandbox the spec's variables
 * come over them; the run's own come last and cannot be replaced. */
#include "place.h"

#include <base/mem.h>
#include <driver/session.h>
#include <sandbox/devcontainer.h>
#include <sandbox/spec.h>

#include <stdlib.h>
#include <string.h>

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static const char *host_value(const struct engine *en, const char *name)
{
	size_t len = strlen(name);

	for (const char *const *v = en->p.host_env; v && *v; v++)
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
			return *v + len + 1;
	return NULL;
}

static void set(struct strv *to, const char *name, const char *value)
{
	if (value)
		strv_set_env(to, name, value);
}

/* Over nothing that is there already. */
static void set_default(struct strv *to, const char *name, const char *value)
{
	if (!strv_get_env(to, name))
		set(to, name, value);
}

static void add_list(struct strv *to, const struct strv *from)
{
	for (size_t i = 0; i < from->n; i++) {
		const char *eq = strchr(from->v[i], '=');
		if (!eq)
			continue;
		char *name = xstrndup(from->v[i], (size_t)(eq - from->v[i]));
		strv_set_env(to, name, eq + 1);
		free(name);
	}
}

void env_build(const struct engine *en, const struct place *place, const char *node_id, struct strv *to)
{
	/* An image has programs of its own, in places that the host's PATH says nothing about. */
	bool image = place->isolated && (place->spec.image || place->spec.build.dockerfile);
	const char *path = host_value(en, "PATH");
	const char *lang = host_value(en, "LANG");
	const char *term = host_value(en, "TERM");

	if (place->isolated)
		add_list(to, session_image_env(place->session));
	set_default(to, "PATH", path && *path && !image ? path : default_path);
	set(to, "HOME", place->isolated ? session_home(place->session) : host_value(en, "HOME"));
	set_default(to, "USER", host_value(en, "USER"));
	set_default(to, "LANG", lang ? lang : "C.UTF-8");
	set_default(to, "TERM", term ? term : "dumb");
	set_default(to, "TZ", host_value(en, "TZ"));
	if (place->isolated) {
		add_list(to, &place->spec.env);
		devcontainer_apply_remote_env(to, &place->spec.remote_env);
	}
	set(to, "ITERION_RUN_ID", en->run_id);
	set(to, "ITERION_RUN_NAME", en->p.run_name);
	set(to, "ITERION_WORKFLOW", en->workflow->name.s);
	set(to, "ITERION_NODE_ID", node_id);
	set(to, "ITERION_WORKSPACE", session_workspace(place->session));
	set(to, "ITERION_ARTIFACT_FILES_DIR", session_artifact_files(place->session));
}
