/* One statement laid over another: the workflow's block over devcontainer.json, a node's block over its workflow's.
 *
 * Single values replace, environment and secrets replace by name, mounts by target. Network rules are added behind the
 * others, where the last match wins; that only means something while both lists are of one kind, because a rule that
 * denies in a denylist would allow in an allowlist. Different kinds are an error that asks for inherit: replace. */
#include "overlay.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The phrase of one value goes with it. */
static void source(struct sandbox_block *to, const struct sandbox_block *over, const char *field)
{
	const char *phrase = strv_get_env(&over->spec.sources, field);

	if (phrase)
		strv_set_env(&to->spec.sources, field, phrase);
}

static void replace(char **to, const char *from)
{
	if (!from)
		return;
	free(*to);
	*to = xstrdup(from);
}

static void replace_list(struct strv *to, const struct strv *from)
{
	strv_done(to);
	for (size_t i = 0; i < from->n; i++)
		strv_add(to, from->v[i]);
}

static void text(struct sandbox_block *to, const struct sandbox_block *over, const char *field, char **to_field,
		 const char *from)
{
	replace(to_field, from);
	if (from)
		source(to, over, field);
}

static void drop_build(struct sandbox_build *b)
{
	free(b->dockerfile);
	free(b->context);
	free(b->target);
	strv_done(&b->args);
	strv_done(&b->cache_from);
	*b = (struct sandbox_build){0};
}

static void overlay_image(struct sandbox_block *to, const struct sandbox_block *over)
{
	const struct sandbox_build *from = &over->spec.build;
	struct sandbox_build *b = &to->spec.build;

	if (over->spec.image) {
		drop_build(b);
		text(to, over, "image", &to->spec.image, over->spec.image);
	}
	if (!from->dockerfile)
		return;
	free(TAKE_PTR(to->spec.image));
	drop_build(b);
	replace(&b->dockerfile, from->dockerfile);
	replace(&b->context, from->context);
	replace(&b->target, from->target);
	replace_list(&b->args, &from->args);
	replace_list(&b->cache_from, &from->cache_from);
	source(to, over, "build");
}

/* "NAME" alone, which takes the variable out, is no entry for the helpers of environment lists. */
static void drop_bare(struct strv *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++) {
		if (!str_eq(list->v[i], name))
			continue;
		free(list->v[i]);
		memmove(&list->v[i], &list->v[i + 1], (list->n - i) * sizeof *list->v);
		list->n--;
		return;
	}
}

static void set_bare(struct strv *list, const char *name)
{
	/* An entry with a value becomes "NAME=" first, which can be told from others and be cut. */
	strv_set_env(list, name, "");
	for (size_t i = 0; i < list->n; i++)
		if (strncmp(list->v[i], name, strlen(name)) == 0 && str_eq(list->v[i] + strlen(name), "="))
			list->v[i][strlen(name)] = '\0';
}

static void overlay_env(struct sandbox_block *to, const struct sandbox_block *over, struct strv *list,
			const struct strv *from)
{
	for (size_t i = 0; i < from->n; i++) {
		auto_free char *name = xstrndup(from->v[i], strcspn(from->v[i], "="));
		auto_free char *field = xasprintf("env.%.60s", name);
		drop_bare(list, name);
		if (from->v[i][strlen(name)])
			strv_set_env(list, name, from->v[i] + strlen(name) + 1);
		else
			set_bare(list, name);
		source(to, over, field);
	}
}

static void free_mount(struct sandbox_mount *m)
{
	free(m->source);
	free(m->key);
	free(m->target);
	free(m->origin);
	*m = (struct sandbox_mount){0};
}

/* Among the first n, which were there before; two of one statement at one place are the check's to refuse. */
static struct sandbox_mount *mount_at(struct sandbox_spec *s, size_t n, const char *target)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(s->mounts[i].target, target))
			return &s->mounts[i];
	return sandbox_spec_add_mount(s);
}

static void overlay_mounts(struct sandbox_spec *to, const struct sandbox_spec *over)
{
	size_t before = to->n_mounts;

	for (size_t i = 0; i < over->n_mounts; i++) {
		const struct sandbox_mount *from = &over->mounts[i];
		struct sandbox_mount *m = mount_at(to, before, from->target);
		m->type = from->type;
		m->readonly = from->readonly;
		free(TAKE_PTR(m->source));
		free(TAKE_PTR(m->key));
		replace(&m->source, from->source);
		replace(&m->key, from->key);
		replace(&m->target, from->target);
		replace(&m->origin, from->origin);
	}
}

static void overlay_secrets(struct sandbox_block *to, const struct sandbox_block *over)
{
	for (size_t i = 0; i < over->spec.n_secrets; i++) {
		const struct sandbox_secret *from = &over->spec.secrets[i];
		struct sandbox_secret *s = NULL;
		for (size_t k = 0; k < to->spec.n_secrets; k++)
			if (str_eq(to->spec.secrets[k].name, from->name))
				s = &to->spec.secrets[k];
		if (!s)
			s = sandbox_spec_add_secret(&to->spec);
		replace(&s->name, from->name);
		replace(&s->from, from->from);
		replace_list(&s->hosts, &from->hosts);
		auto_free char *field = xasprintf("secrets.%.60s", from->name);
		source(to, over, field);
	}
}

static void append(struct strv *to, const struct strv *from)
{
	for (size_t i = 0; i < from->n; i++)
		strv_add(to, from->v[i]);
}

static bool has_list(const struct sandbox_network *n)
{
	return n->presets.n > 0 || n->rules.n > 0;
}

/* What a block means that gives no mode: a list without one is meant as an allowlist (seal rather than ignore). */
static enum network_mode effective(const struct sandbox_block *b)
{
	if (b->given.network_mode)
		return b->spec.network.mode;
	return has_list(&b->spec.network) ? NETWORK_ALLOWLIST : NETWORK_OPEN;
}

static int conflict(enum network_mode below, enum network_mode above, struct err *e)
{
	int r = err_set(e, ERR_INPUT, EINVAL,
			"sandbox network: the node's mode is %s and the workflow's rules are for mode %s",
			network_mode_name(above), network_mode_name(below));

	err_hint(e, "add inherit: replace to the node's network block, or use the workflow's mode");
	return r;
}

static int overlay_network(struct sandbox_block *to, const struct sandbox_block *over, struct err *e)
{
	struct sandbox_network *n = &to->spec.network;
	const struct sandbox_network *from = &over->spec.network;
	bool keep = to->given.network && from->inherit != NETWORK_REPLACE;

	if (!over->given.network)
		return 0;
	if (keep && over->given.network_mode && has_list(n) && effective(to) != from->mode)
		return conflict(effective(to), from->mode, e);
	if (!keep) {
		strv_done(&n->presets);
		strv_done(&n->rules);
		*n = (struct sandbox_network){0};
		to->given.network_mode = to->given.tls_inspect = to->given.strict_sni = false;
	}
	/* Rules without a mode over an open network: the mode that was written for nothing else. */
	bool seal = keep && !over->given.network_mode && has_list(from) && effective(to) == NETWORK_OPEN;
	if (over->given.network_mode || seal) {
		n->mode = effective(over);
		to->given.network_mode = true;
		source(to, over, "network.mode");
	}
	if (over->given.tls_inspect)
		n->tls_inspect = from->tls_inspect;
	if (over->given.strict_sni)
		n->strict_sni = from->strict_sni;
	to->given.network = true;
	to->given.tls_inspect |= over->given.tls_inspect;
	to->given.strict_sni |= over->given.strict_sni;
	append(&n->presets, &from->presets);
	append(&n->rules, &from->rules);
	static const char *const fields[] = {"network.preset", "network.rules", "network.tls_inspect",
					     "network.strict_sni"};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		source(to, over, fields[i]);
	n->mode = effective(to);
	if (!over->given.network_mode && has_list(from) && n->mode == NETWORK_ALLOWLIST)
		strv_set_env(&to->spec.sources, "network.mode", "rules without a mode");
	return 0;
}

static void overlay_limits(struct sandbox_block *to, const struct sandbox_block *over)
{
	const struct sandbox_limits *from = &over->spec.limits;
	struct sandbox_limits *l = &to->spec.limits;

	if (from->cpus > 0)
		l->cpus = from->cpus;
	if (from->memory)
		l->memory = from->memory;
	if (from->pids)
		l->pids = from->pids;
	static const char *const fields[] = {"limits.cpus", "limits.memory", "limits.pids"};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		source(to, over, fields[i]);
}

int sandbox_overlay(struct sandbox_block *to, const struct sandbox_block *over, struct err *e)
{
	struct sandbox_spec *s = &to->spec;
	const struct sandbox_spec *o = &over->spec;

	overlay_image(to, over);
	text(to, over, "user", &s->user, o->user);
	text(to, over, "workspace_folder", &s->workspace_folder, o->workspace_folder);
	text(to, over, "post_create", &s->post_create, o->post_create);
	if (o->host_state != HOST_STATE_UNSET) {
		s->host_state = o->host_state;
		replace(&s->host_state_source, o->host_state_source);
	}
	overlay_env(to, over, &s->env, &o->env);
	overlay_env(to, over, &s->remote_env, &o->remote_env);
	overlay_mounts(s, o);
	overlay_secrets(to, over);
	overlay_limits(to, over);
	lifecycle_append(&s->lifecycle, &o->lifecycle);
	append(&s->run_args, &o->run_args);
	static const char *const fields[] = {"onCreateCommand", "updateContentCommand", "postCreateCommand",
					     "postStartCommand", "run_args"};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		source(to, over, fields[i]);
	append(&s->warnings, &o->warnings);
	return overlay_network(to, over, e);
}

/* Whether a source's field is one of those that go with the image. */
static bool is_content(const char *source)
{
	static const char *const kept[] = {"network.", "secrets.", "limits."};

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (str_starts(source, kept[i]))
			return false;
	return true;
}

void sandbox_overlay_drop_content(struct sandbox_block *b)
{
	struct sandbox_spec *s = &b->spec;
	struct strv sources = {0};

	free(TAKE_PTR(s->image));
	drop_build(&s->build);
	free(TAKE_PTR(s->user));
	free(TAKE_PTR(s->workspace_folder));
	free(TAKE_PTR(s->post_create));
	for (size_t i = 0; i < s->n_mounts; i++)
		free_mount(&s->mounts[i]);
	s->n_mounts = 0;
	strv_done(&s->env);
	strv_done(&s->remote_env);
	strv_done(&s->run_args);
	strv_done(&s->warnings);
	lifecycle_done(&s->lifecycle);
	for (size_t i = 0; i < s->sources.n; i++)
		if (!is_content(s->sources.v[i]))
			strv_add(&sources, s->sources.v[i]);
	strv_done(&s->sources);
	s->sources = sources;
}
