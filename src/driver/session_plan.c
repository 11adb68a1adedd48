/* What a session would be made of, told before anything is made.
 *
 * The decisions are those of session_new itself (session_settle), and a driver that can tell its mounts does so from
 * the very list that it would carry out, so the two cannot say different things. What is added here is whose each mount
 * is: a mount is known by its target, since no two have the same. */
#include "ops.h"
#include "proxy_env.h"
#include "session_inspect.h"
#include "session_priv.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <driver/limits.h>
#include <sandbox/home.h>

#include <stdlib.h>
#include <string.h>

/* For a driver that has no list of its own. */
static void list_params(const struct sandbox_params *p, json_t *list)
{
	const struct host_state_plan *h = p->host_state;

	mount_list_add(list, "bind", p->workspace, p->workspace_target, false);
	for (size_t i = 0; i < h->mounts.n; i++)
		mount_list_add(list, "bind", h->sources.v[i], h->mounts.v[i], false);
	for (size_t i = 0; i < h->covers.n; i++)
		mount_list_add(list, "cover", NULL, h->covers.v[i], true);
	for (size_t i = 0; i < p->spec->n_mounts; i++) {
		const struct sandbox_mount *m = &p->spec->mounts[i];
		mount_list_add(list, mount_type_name(m->type), m->source, m->target, m->readonly);
	}
	if (p->hidden) {
		auto_free char *inside = path_join(p->workspace_target, p->hidden + strlen(p->workspace) + 1);
		mount_list_add(list, "cover", NULL, inside, true);
	}
}

static bool is_listed(const json_t *list, const char *target)
{
	size_t i;
	json_t *m;

	json_array_foreach(list, i, m)
	{
		if (str_eq(json_get_str(m, "target"), target))
			return true;
	}
	return false;
}

/* HOME and the folders between it and a mount below it are empty and writable, however the driver makes them. */
static int add_home(const struct session *s, json_t *list, struct err *e)
{
	auto_strv binds = {0};
	auto_strv tmpfs = {0};
	size_t i;
	json_t *m;

	json_array_foreach(list, i, m)
	{
		if (str_eq(json_get_str(m, "type"), "bind"))
			strv_add(&binds, json_get_str(m, "target"));
	}
	int r = sandbox_home_tmpfs(s->home, (const char *const *)binds.v, binds.n, &tmpfs, e);
	for (size_t k = 0; r == 0 && k < tmpfs.n; k++)
		if (!is_listed(list, tmpfs.v[k]))
			mount_list_add(list, "tmpfs", NULL, tmpfs.v[k], false);
	return r;
}

static const char *spec_origin(const struct session *s, const char *target)
{
	for (size_t i = 0; i < s->spec.n_mounts; i++)
		if (str_eq(s->spec.mounts[i].target, target))
			return s->spec.mounts[i].origin ? s->spec.mounts[i].origin : "sandbox spec";
	return NULL;
}

/* Whose a mount is, as a phrase. */
static const char *origin_of(const struct session *s, const json_t *m)
{
	const struct host_state_plan *h = &s->host_state;
	const char *target = json_get_str(m, "target"), *from_spec = spec_origin(s, target);
	const char *type = json_get_str(m, "type");

	if (from_spec)
		return from_spec;
	if (str_eq(target, s->workspace_target))
		return "workspace";
	if (strv_has(&h->mounts, target))
		return "host state";
	if (str_eq(type, "cover"))
		return strv_has(&h->covers, target) || s->hidden ? "run store: other runs are hidden" : "driver";
	if (str_eq(target, session_artifact_files(s)) || str_eq(target, session_attachments(s)))
		return "run's files";
	if (str_eq(type, "tmpfs") && s->home && path_within(target, s->home))
		return "home";
	return "driver";
}

static int add_mounts(struct session *s, json_t *to, struct err *e)
{
	json_t *list = json_array(), *m;
	size_t i;
	int r = 0;

	json_put(to, "mounts", list);
	if (s->driver == &driver_noop)
		return 0;
	if (s->driver->list_mounts)
		r = s->driver->list_mounts(&s->params, list, e);
	else
		list_params(&s->params, list);
	/* A container without the user's state has its image's own HOME. */
	if (r == 0 && s->home && is_listed(list, s->home))
		r = add_home(s, list, e);
	json_array_foreach(list, i, m)
	{
		json_put_str(m, "origin", origin_of(s, m));
	}
	return r;
}

/* By name: the values are the proxy's address and token, which do not exist yet. */
static json_t *proxy_names(const struct session *s)
{
	json_t *list = json_array();
	auto_strv env = {0};

	if (s->policy)
		proxy_env_add(&env, NULL, 0, "", !s->offered);
	session_inspect_env(s, &env);
	for (size_t i = 0; i < env.n; i++)
		(void)json_array_append_new(list, json_text(env.v[i], strcspn(env.v[i], "=")));
	return list;
}

static json_t *warnings(const struct session *s)
{
	json_t *list = json_array();

	if (s->offered)
		(void)json_array_append_new(list, session_offered_json());
	if (s->spec.build.dockerfile && s->params.enforce_network) {
		json_t *w = json_object();
		json_put_str(w, "code", "build_network");
		json_put_str(w, "message",
			     "the network policy is for the sandbox: RUN steps of the Dockerfile have the engine's "
			     "network while the image is built");
		(void)json_array_append_new(list, w);
	}
	return list;
}

static int fill(struct session *s, json_t *to, struct err *e)
{
	int r = session_settle(s, e);

	if (r < 0)
		return r;
	json_put_str(to, "driver", driver_name(s->driver));
	json_put_str(to, "workspace_folder", s->workspace_target);
	json_put_str(to, "home", session_home(s));
	json_put_str(to, "artifact_files", session_artifact_files(s));
	json_put(to, "skipped", session_skipped_json(s));
	json_put(to, "network", session_network_json(s));
	if (session_inspects(s))
		json_put(to, "secrets", session_secrets_json(s));
	json_put(to, "proxy_env", proxy_names(s));
	json_put(to, "limits", driver_limits(s->driver, &s->spec.limits));
	json_put(to, "warnings", warnings(s));
	return add_mounts(s, to, e);
}

int session_plan(const struct session_params *p, json_t **ret, struct err *e)
{
	struct session *s = session_alloc(p);

	s->planned = true;
	auto_json out = json_object();
	int r = fill(s, out, e);

	session_free(s);
	if (r == 0)
		*ret = TAKE_PTR(out);
	return r;
}
