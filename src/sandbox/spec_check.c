/* Whether a whole spec is valid: each value by itself (check.c), and what must or must not stand together.
 *
 * validate, doctor and run all come here, so what one of them takes the others take. A block was checked value by value
 * already, with its place in the file; this is for what only the merged spec shows, and for specs from elsewhere. */
#include "check.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/mount.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int named(const char *field, int r, struct err *e)
{
	return r < 0 ? err_wrap(e, r, "sandbox %s", field) : 0;
}

static int check_origin(const struct sandbox_spec *s, bool host_toolchain, struct err *e)
{
	if (s->image && s->build.dockerfile) {
		int r = err_set(e, ERR_INPUT, EINVAL, "sandbox: image and build stand together");
		err_hint(e, "keep image: for one that exists, or build: for one that is built from a Dockerfile");
		return r;
	}
	if (s->mode == SANDBOX_INLINE && !s->image && !s->build.dockerfile && !host_toolchain) {
		int r = err_set(e, ERR_INPUT, EINVAL, "sandbox: a block needs image or build with this driver");
		err_hint(
			e,
			"add image: or build:, write mode: auto for the default image, or use the native driver, which "
			"can run the host's own programs");
		return r;
	}
	if (s->image)
		return named("image", check_image(s->image, e), e);
	if (!s->build.dockerfile)
		return 0;
	int r = named("build.dockerfile", check_build_path(s->build.dockerfile, e), e);
	if (r == 0 && s->build.context)
		r = named("build.context", check_build_path(s->build.context, e), e);
	if (r == 0 && s->build.target)
		r = named("build.target", check_build_target(s->build.target, e), e);
	return r;
}

static int check_env_list(const char *field, const struct strv *env, struct err *e)
{
	for (size_t i = 0; i < env->n; i++) {
		size_t len = strcspn(env->v[i], "=");
		int r = check_env_name(env->v[i], len, e);
		if (r < 0)
			return named(field, r, e);
		r = env->v[i][len] ? check_env_value(env->v[i] + len + 1, e) : 0;
		if (r < 0)
			return err_wrap(e, r, "sandbox %s.%.*s", field, (int)MIN(len, (size_t)60), env->v[i]);
	}
	return 0;
}

static int by_target(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* No two of them at one place. Sorted, since a devcontainer.json may have thousands. */
static int check_targets(const struct sandbox_spec *s, struct err *e)
{
	auto_free const char **targets = xcalloc(MAX(s->n_mounts, 1u), sizeof *targets);

	for (size_t i = 0; i < s->n_mounts; i++)
		targets[i] = s->mounts[i].target;
	qsort(targets, s->n_mounts, sizeof *targets, by_target);
	for (size_t i = 1; i < s->n_mounts; i++) {
		if (!str_eq(targets[i - 1], targets[i]))
			continue;
		int r = err_set(e, ERR_INPUT, EINVAL, "sandbox mounts: two mounts at %.200s", targets[i]);
		err_hint(e, "keep one of them, or give them different targets");
		return r;
	}
	return 0;
}

static int check_mounts(const struct sandbox_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->n_mounts; i++) {
		int r = sandbox_mount_check(&s->mounts[i], e);
		if (r < 0)
			return named("mounts", r, e);
	}
	return check_targets(s, e);
}

static int check_network(const struct sandbox_network *n, struct err *e)
{
	struct policy *p = NULL;
	int r = policy_new(n->mode, (const char *const *)n->presets.v, (const char *const *)n->rules.v, &p, e);

	policy_free(p);
	if (r < 0)
		return named("network", r, e);
	if (n->tls_inspect == TLS_INSPECT_OFF || n->mode != NETWORK_OPEN)
		return 0;
	r = err_set(e, ERR_INPUT, EINVAL,
		    "sandbox network.tls_inspect: in mode open there is no proxy to inspect anything");
	err_hint(e, "set network.mode to allowlist, denylist or learn, or leave tls_inspect out");
	return r;
}

static int check_secret(const struct sandbox_spec *s, const struct sandbox_secret *x, struct err *e)
{
	int r = check_env_name(x->name, strlen(x->name), e);

	if (r == 0)
		r = check_secret_from(x->from ? x->from : "", e);
	for (size_t i = 0; r == 0 && i < x->hosts.n; i++)
		r = check_secret_host(x->hosts.v[i], e);
	if (r == 0 && x->hosts.n == 0) {
		r = err_set(e, ERR_INPUT, EINVAL, "no hosts");
		err_hint(e, "name the hosts that may get the value: hosts: [\"api.github.com\"]");
	}
	if (r == 0 && (strv_get_env(&s->env, x->name) || strv_get_env(&s->remote_env, x->name))) {
		r = err_set(e, ERR_INPUT, EINVAL, "env sets the same variable");
		err_hint(e, "take it out of env: inside, the variable holds a placeholder for the secret");
	}
	return r < 0 ? err_wrap(e, r, "sandbox secrets.%.60s", x->name) : 0;
}

static int check_secrets(const struct sandbox_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->n_secrets; i++) {
		int r = check_secret(s, &s->secrets[i], e);
		if (r < 0)
			return r;
	}
	if (s->n_secrets == 0 || s->network.tls_inspect != TLS_INSPECT_OFF)
		return 0;
	int r = err_set(e, ERR_INPUT, EINVAL,
			"sandbox secrets: they reach their hosts by TLS inspection, which is off");
	err_hint(e, "set network.tls_inspect to secrets, and network.mode to allowlist");
	return r;
}

static int check_limits(const struct sandbox_limits *l, struct err *e)
{
	int r = 0;

	if (l->cpus < 0 || l->cpus > 0)
		r = named("limits.cpus", check_cpus(l->cpus, e), e);
	if (r == 0 && l->memory)
		r = named("limits.memory", check_memory(l->memory, e), e);
	if (r == 0 && l->pids)
		r = named("limits.pids", check_pids(l->pids, e), e);
	return r;
}

int sandbox_spec_check(const struct sandbox_spec *s, bool host_toolchain, struct err *e)
{
	int r;

	if (s->mode == SANDBOX_NONE)
		return 0;
	r = check_origin(s, host_toolchain, e);
	if (r == 0 && s->user)
		r = named("user", check_user(s->user, e), e);
	if (r == 0 && s->workspace_folder)
		r = named("workspace_folder", check_workspace_folder(s->workspace_folder, e), e);
	if (r == 0)
		r = check_env_list("build.args", &s->build.args, e);
	if (r == 0)
		r = check_env_list("env", &s->env, e);
	if (r == 0)
		r = check_env_list("remote_env", &s->remote_env, e);
	if (r == 0)
		r = check_mounts(s, e);
	if (r == 0)
		r = check_network(&s->network, e);
	if (r == 0)
		r = check_secrets(s, e);
	if (r == 0)
		r = check_limits(&s->limits, e);
	return r;
}
