/* A spec as JSON. Every field has its key whether it was given or not (null, or an empty list), so that a reader need
 * not know which are optional; only the run's secrets have no value here, because a spec holds none: it says where
 * they come from. */
#include <base/json.h>
#include <base/mem.h>
#include <sandbox/spec.h>
#include <sandbox/spec_json.h>

#include <stdlib.h>
#include <string.h>

static json_t *text_or_null(const char *s)
{
	return s ? json_text(s, strlen(s)) : json_null();
}

static json_t *list_json(const struct strv *l)
{
	json_t *a = json_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(a, json_text(l->v[i], strlen(l->v[i])));
	return a;
}

/* "NAME=value" entries as an object; "NAME" alone becomes null. */
static json_t *map_json(const struct strv *l)
{
	json_t *o = json_object();

	for (size_t i = 0; i < l->n; i++) {
		size_t len = strcspn(l->v[i], "=");
		char *name = xstrndup(l->v[i], len);
		json_put(o, name, text_or_null(l->v[i][len] ? l->v[i] + len + 1 : NULL));
		free(name);
	}
	return o;
}

static json_t *build_json(const struct sandbox_build *b)
{
	if (!b->dockerfile)
		return json_null();
	json_t *o = json_object();
	json_put(o, "dockerfile", text_or_null(b->dockerfile));
	json_put(o, "context", text_or_null(b->context));
	json_put(o, "args", map_json(&b->args));
	json_put(o, "target", text_or_null(b->target));
	json_put(o, "cache_from", list_json(&b->cache_from));
	return o;
}

static json_t *network_json(const struct sandbox_network *n)
{
	json_t *o = json_object();

	json_put_str(o, "mode", network_mode_name(n->mode));
	json_put(o, "presets", list_json(&n->presets));
	json_put(o, "rules", list_json(&n->rules));
	json_put_str(o, "tls_inspect", tls_inspect_name(n->tls_inspect));
	json_put_bool(o, "strict_sni", n->strict_sni);
	return o;
}

static json_t *secrets_json(const struct sandbox_spec *s)
{
	json_t *o = json_object();

	for (size_t i = 0; i < s->n_secrets; i++) {
		json_t *one = json_object();
		json_put(one, "from", text_or_null(s->secrets[i].from));
		json_put(one, "hosts", list_json(&s->secrets[i].hosts));
		json_put(o, s->secrets[i].name, one);
	}
	return o;
}

static json_t *limits_json(const struct sandbox_limits *l)
{
	json_t *o = json_object();

	json_put(o, "cpus", l->cpus > 0 ? json_real(l->cpus) : json_null());
	json_put(o, "memory", l->memory ? json_integer((json_int_t)l->memory) : json_null());
	json_put(o, "pids", l->pids ? json_integer((json_int_t)l->pids) : json_null());
	return o;
}

/* In the order in which they run: name, and the program with its arguments. */
static json_t *commands_json(const struct sandbox_lifecycle *l)
{
	json_t *a = json_array();

	for (unsigned stage = 0; stage < STAGE_COUNT; stage++) {
		const struct sandbox_hook *h = &l->stages[stage];
		for (size_t i = 0; i < h->n; i++) {
			json_t *one = json_object();
			json_put_str(one, "name", h->v[i].name);
			json_put(one, "argv", list_json(&h->v[i].argv));
			(void)json_array_append_new(a, one);
		}
	}
	return a;
}

/* Values that everything has: when nobody gave them they are the defaults. */
static json_t *sources_json(const struct sandbox_spec *s)
{
	static const char *const always[] = {"user", "workspace_folder", "network.mode"};
	json_t *o = map_json(&s->sources);

	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		if (!json_object_get(o, always[i]))
			json_put_str(o, always[i], "default");
	json_put_str(o, "mode", s->mode_source);
	json_put_str(o, "host_state", s->host_state_source);
	return o;
}

json_t *sandbox_spec_json(const struct sandbox_spec *s)
{
	json_t *o = json_object();

	json_put_str(o, "mode", sandbox_mode_name(s->mode));
	json_put(o, "image", text_or_null(s->image));
	json_put(o, "build", build_json(&s->build));
	json_put(o, "user", text_or_null(s->user));
	json_put(o, "workspace_folder", text_or_null(s->workspace_folder));
	json_put_str(o, "host_state", host_state_name(s->host_state));
	json_put(o, "env", map_json(&s->env));
	json_put(o, "remote_env", map_json(&s->remote_env));
	json_put(o, "lifecycle", commands_json(&s->lifecycle));
	json_put(o, "post_create", text_or_null(s->post_create));
	json_put(o, "network", network_json(&s->network));
	json_put(o, "secrets", secrets_json(s));
	json_put(o, "limits", limits_json(&s->limits));
	json_put(o, "run_args", list_json(&s->run_args));
	json_put(o, "sources", sources_json(s));
	return o;
}

json_t *sandbox_warnings_json(const struct sandbox_spec *s)
{
	json_t *a = json_array();

	for (size_t i = 0; i < s->warnings.n; i++) {
		const char *entry = s->warnings.v[i];
		size_t len = strcspn(entry, "=");
		json_t *one = json_object();
		json_put(one, "code", json_text(entry, len));
		json_put_str(one, "message", entry[len] ? entry + len + 1 : "");
		(void)json_array_append_new(a, one);
	}
	return a;
}
