/* The spec as a value: names, copies, comparison, the end.
 *
 * A spec owns all its strings. Copies share nothing, because a node's spec is built from a copy of its workflow's.
 * Comparison is what decides whether two nodes share one sandbox: it looks at everything that changes what runs and at
 * nothing that only says where a value came from. */
#include <base/cleanup.h>
#include <base/mem.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const mode_names[] = {
	[SANDBOX_INHERIT] = "inherit",
	[SANDBOX_NONE] = "none",
	[SANDBOX_AUTO] = "auto",
	[SANDBOX_INLINE] = "inline",
};
static const char *const host_state_names[] = {
	[HOST_STATE_UNSET] = "unset",
	[HOST_STATE_AUTO] = "auto",
	[HOST_STATE_NONE] = "none",
};
static const char *const tls_inspect_names[] = {
	[TLS_INSPECT_OFF] = "off",
	[TLS_INSPECT_SECRETS] = "secrets",
	[TLS_INSPECT_ALL] = "all",
};
static const char *const mount_type_names[] = {
	[MOUNT_BIND] = "bind", [MOUNT_VOLUME] = "volume",	[MOUNT_TMPFS] = "tmpfs",
	[MOUNT_PVC] = "pvc",   [MOUNT_CONFIGMAP] = "configmap", [MOUNT_SECRET] = "secret",
};

const char *sandbox_mode_name(enum sandbox_mode m)
{
	return mode_names[m];
}

const char *host_state_name(enum host_state s)
{
	return host_state_names[s];
}

const char *tls_inspect_name(enum tls_inspect t)
{
	return tls_inspect_names[t];
}

const char *mount_type_name(enum mount_type t)
{
	return mount_type_names[t];
}

int sandbox_mode_parse(const char *word, enum sandbox_mode *ret)
{
	for (unsigned i = 0; i < ARRAY_LEN(mode_names); i++) {
		if (str_eq(word, mode_names[i])) {
			*ret = (enum sandbox_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}

int host_state_parse(const char *word, enum host_state *ret)
{
	for (unsigned i = HOST_STATE_AUTO; i < ARRAY_LEN(host_state_names); i++) {
		if (str_eq(word, host_state_names[i])) {
			*ret = (enum host_state)i;
			return 0;
		}
	}
	return -EINVAL;
}

static void mount_done(struct sandbox_mount *m)
{
	free(m->source);
	free(m->key);
	free(m->target);
	free(m->origin);
}

static void secret_done(struct sandbox_secret *s)
{
	free(s->name);
	free(s->from);
	strv_done(&s->hosts);
}

void sandbox_spec_done(struct sandbox_spec *s)
{
	int saved = errno;

	for (size_t i = 0; i < s->n_mounts; i++)
		mount_done(&s->mounts[i]);
	for (size_t i = 0; i < s->n_secrets; i++)
		secret_done(&s->secrets[i]);
	free(s->mounts);
	free(s->secrets);
	free(s->image);
	free(s->build.dockerfile);
	free(s->build.context);
	free(s->build.target);
	free(s->user);
	free(s->workspace_folder);
	lifecycle_done(&s->lifecycle);
	free(s->post_create);
	free(s->mode_source);
	free(s->host_state_source);
	struct strv *const lists[] = {&s->build.args, &s->build.cache_from, &s->env,
				      &s->remote_env, &s->network.presets,  &s->network.rules,
				      &s->run_args,   &s->sources,	    &s->warnings};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		strv_done(lists[i]);
	*s = (struct sandbox_spec){0};
	errno = saved;
}

struct sandbox_mount *sandbox_spec_add_mount(struct sandbox_spec *s)
{
	s->mounts = grow_array(s->mounts, s->n_mounts, &s->cap_mounts, sizeof *s->mounts);
	s->mounts[s->n_mounts] = (struct sandbox_mount){0};
	return &s->mounts[s->n_mounts++];
}

struct sandbox_secret *sandbox_spec_add_secret(struct sandbox_spec *s)
{
	s->secrets = grow_array(s->secrets, s->n_secrets, &s->cap_secrets, sizeof *s->secrets);
	s->secrets[s->n_secrets] = (struct sandbox_secret){0};
	return &s->secrets[s->n_secrets++];
}

static char *copy_text(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

static struct strv copy_list(const struct strv *from)
{
	struct strv to = {0};

	for (size_t i = 0; i < from->n; i++)
		strv_add(&to, from->v[i]);
	return to;
}

static void copy_members(struct sandbox_spec *ret, const struct sandbox_spec *from)
{
	for (size_t i = 0; i < from->n_mounts; i++) {
		const struct sandbox_mount *m = &from->mounts[i];
		*sandbox_spec_add_mount(ret) = (struct sandbox_mount){
			.type = m->type,
			.source = copy_text(m->source),
			.key = copy_text(m->key),
			.target = copy_text(m->target),
			.readonly = m->readonly,
			.origin = copy_text(m->origin),
		};
	}
	for (size_t i = 0; i < from->n_secrets; i++) {
		const struct sandbox_secret *s = &from->secrets[i];
		*sandbox_spec_add_secret(ret) = (struct sandbox_secret){
			.name = copy_text(s->name),
			.from = copy_text(s->from),
			.hosts = copy_list(&s->hosts),
		};
	}
}

void sandbox_spec_copy(struct sandbox_spec *ret, const struct sandbox_spec *from)
{
	*ret = *from;
	ret->image = copy_text(from->image);
	ret->build = (struct sandbox_build){
		.dockerfile = copy_text(from->build.dockerfile),
		.context = copy_text(from->build.context),
		.args = copy_list(&from->build.args),
		.target = copy_text(from->build.target),
		.cache_from = copy_list(&from->build.cache_from),
	};
	ret->mounts = NULL;
	ret->n_mounts = ret->cap_mounts = 0;
	ret->secrets = NULL;
	ret->n_secrets = ret->cap_secrets = 0;
	copy_members(ret, from);
	ret->env = copy_list(&from->env);
	ret->remote_env = copy_list(&from->remote_env);
	ret->user = copy_text(from->user);
	ret->workspace_folder = copy_text(from->workspace_folder);
	ret->lifecycle = (struct sandbox_lifecycle){0};
	lifecycle_append(&ret->lifecycle, &from->lifecycle);
	ret->post_create = copy_text(from->post_create);
	ret->network.presets = copy_list(&from->network.presets);
	ret->network.rules = copy_list(&from->network.rules);
	ret->run_args = copy_list(&from->run_args);
	ret->mode_source = copy_text(from->mode_source);
	ret->host_state_source = copy_text(from->host_state_source);
	ret->sources = copy_list(&from->sources);
	ret->warnings = copy_list(&from->warnings);
}

static bool lists_equal(const struct strv *a, const struct strv *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!str_eq(a->v[i], b->v[i]))
			return false;
	return true;
}

/* The same set of variables, in any order. */
static bool env_equal(const struct strv *a, const struct strv *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!strv_has(b, a->v[i]))
			return false;
	return true;
}

static bool mounts_equal(const struct sandbox_spec *a, const struct sandbox_spec *b)
{
	if (a->n_mounts != b->n_mounts)
		return false;
	for (size_t i = 0; i < a->n_mounts; i++) {
		const struct sandbox_mount *x = &a->mounts[i], *y = &b->mounts[i];
		if (x->type != y->type || x->readonly != y->readonly || !str_eq(x->source, y->source) ||
		    !str_eq(x->key, y->key) || !str_eq(x->target, y->target))
			return false;
	}
	return true;
}

static bool secrets_equal(const struct sandbox_spec *a, const struct sandbox_spec *b)
{
	if (a->n_secrets != b->n_secrets)
		return false;
	for (size_t i = 0; i < a->n_secrets; i++) {
		const struct sandbox_secret *x = &a->secrets[i], *y = &b->secrets[i];
		if (!str_eq(x->name, y->name) || !str_eq(x->from, y->from) || !lists_equal(&x->hosts, &y->hosts))
			return false;
	}
	return true;
}

static bool build_equal(const struct sandbox_build *a, const struct sandbox_build *b)
{
	return str_eq(a->dockerfile, b->dockerfile) && str_eq(a->context, b->context) && str_eq(a->target, b->target) &&
	       lists_equal(&a->args, &b->args) && lists_equal(&a->cache_from, &b->cache_from);
}

static bool network_equal(const struct sandbox_network *a, const struct sandbox_network *b)
{
	return a->mode == b->mode && a->tls_inspect == b->tls_inspect && a->strict_sni == b->strict_sni &&
	       lists_equal(&a->presets, &b->presets) && lists_equal(&a->rules, &b->rules);
}

static bool limits_equal(const struct sandbox_limits *a, const struct sandbox_limits *b)
{
	/* Both come from the same parser: equal means the same bits. */
	bool same_cpus = a->cpus >= b->cpus && a->cpus <= b->cpus;

	return same_cpus && a->memory == b->memory && a->pids == b->pids;
}

bool sandbox_spec_equal(const struct sandbox_spec *a, const struct sandbox_spec *b)
{
	return a->mode == b->mode && a->host_state == b->host_state && str_eq(a->image, b->image) &&
	       str_eq(a->user, b->user) && str_eq(a->workspace_folder, b->workspace_folder) &&
	       str_eq(a->post_create, b->post_create) && build_equal(&a->build, &b->build) &&
	       network_equal(&a->network, &b->network) && limits_equal(&a->limits, &b->limits) &&
	       env_equal(&a->env, &b->env) && env_equal(&a->remote_env, &b->remote_env) &&
	       lifecycle_equal(&a->lifecycle, &b->lifecycle) && lists_equal(&a->run_args, &b->run_args) &&
	       mounts_equal(a, b) && secrets_equal(a, b);
}
