/* The checks of what was written: they look at the spec and at paths, and ask nobody. */
#include "strict_checks.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/session.h>
#include <net/policy.h>
#include <net/secret.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void take_error(struct finding *f, const struct err *e)
{
	finding_set(f, FINDING_NO, "%s", e->msg);
	finding_hint(f, "%s", e->hint);
}

void strict_spec(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;

	if (p->spec)
		finding_set(f, FINDING_YES, "mode %s, by %s", sandbox_mode_name(p->spec->mode), p->spec->mode_source);
	else if (p->why->kind == ERR_SANDBOX)
		finding_set(f, FINDING_UNKNOWN, "not looked at further: there is no driver for it");
	else
		take_error(f, p->why);
}

/* What session_new would make of it, or say to it. */
static int plan_of(const struct strict_params *p, const struct sandbox_spec *spec, const char *driver, json_t **ret,
		   struct err *e)
{
	const char *home = getenv("HOME");
	const struct session_params sp = {
		.spec = spec,
		.driver = driver,
		.workspace = p->workspace,
		.run_id = "doctor",
		.store_dir = p->store_dir,
		.home = home && home[0] == '/' ? home : NULL,
	};

	return session_plan(&sp, ret, e);
}

static int plan(const struct strict_params *p, const struct sandbox_spec *spec, const char *driver, struct err *e)
{
	auto_json ignored = NULL;

	return plan_of(p, spec, driver, &ignored, e);
}

/* Only what is mounted from this machine: the rest is other checks' business. Every driver has the same rules. */
static size_t keep_binds(const struct sandbox_spec *from, struct sandbox_spec *to)
{
	to->mode = SANDBOX_INLINE;
	to->host_state = HOST_STATE_NONE;
	for (size_t i = 0; i < from->n_mounts; i++) {
		const struct sandbox_mount *m = &from->mounts[i];
		if (m->type == MOUNT_BIND)
			*sandbox_spec_add_mount(to) = (struct sandbox_mount){
				.type = m->type, .source = xstrdup(m->source), .target = xstrdup(m->target)};
	}
	return to->n_mounts;
}

void strict_safety(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;
	auto_sandbox_spec binds = {0};
	struct err e = ERR_INIT;
	size_t n = keep_binds(p->spec, &binds);

	if (plan(p, &binds, "native", &e) < 0)
		take_error(f, &e);
	else
		finding_set(f, FINDING_YES, "%zu mount%s of this machine, none of a sensitive place", n,
			    n == 1 ? "" : "s");
}

void strict_workspace(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;
	const struct sandbox_spec bare = {.mode = SANDBOX_INLINE, .host_state = HOST_STATE_NONE};
	struct err e = ERR_INIT;

	if (plan(p, &bare, "native", &e) < 0) {
		take_error(f, &e);
	} else if (access(p->workspace, R_OK | X_OK) < 0) {
		finding_set(f, FINDING_NO, "%.400s cannot be read", p->workspace);
		finding_hint(f, "Make it readable for this user, or name another one with --workspace.");
	} else if (access(p->workspace, W_OK) < 0) {
		finding_set(f, FINDING_UNKNOWN, "%.400s cannot be written, so nodes can only read", p->workspace);
		finding_hint(f, "Make it writable for this user if nodes are to change files.");
	} else {
		finding_set(f, FINDING_YES, "%.400s", p->workspace);
	}
}

void strict_capabilities(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;
	struct err e = ERR_INIT;

	/* It is asked first; any other error is another check's. */
	if (plan(p, p->spec, p->driver, &e) < 0 && e.kind == ERR_UNSUPPORTED)
		take_error(f, &e);
	else
		finding_set(f, FINDING_YES, "%s has everything that is asked for", p->driver);
}

/* Why a driver cannot serve at all is other checks' business. */
static void check_enforcement(const struct strict_params *p, struct finding *f)
{
	auto_json doc = NULL;

	if (!p->driver || plan_of(p, p->spec, p->driver, &doc, NULL) < 0)
		return;
	const char *enforcement = json_get_str(json_object_get(doc, "network"), "enforcement");
	if (!enforcement || !str_eq(enforcement, "proxy-env"))
		return;
	finding_set(f, FINDING_UNKNOWN,
		    "the policy is offered, not enforced: programs that ignore HTTP_PROXY and HTTPS_PROXY are not held "
		    "back");
	finding_hint(f, "Use an engine of this machine, or --sandbox-driver=native; "
			"ITERION_NETWORK_ENFORCEMENT=required makes this an error.");
}

void strict_network(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;
	const struct sandbox_network *n = &p->spec->network;
	struct policy *policy = NULL;
	struct err e = ERR_INIT;

	if (policy_new(n->mode, (const char *const *)n->presets.v, (const char *const *)n->rules.v, &policy, &e) < 0) {
		take_error(f, &e);
		return;
	}
	const char *const *rules;
	finding_set(f, FINDING_YES, "mode %s, %zu rules", network_mode_name(n->mode), policy_rules(policy, &rules));
	policy_free(policy);
	check_enforcement(p, f);
}

static bool is_numeric(const char *user)
{
	return *user && user[strspn(user, "0123456789:")] == '\0';
}

void strict_k8s_spec(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;
	const struct sandbox_spec *s = p->spec;
	struct err e = ERR_INIT;
	const struct {
		bool wrong;
		const char *detail, *remedy;
	} rows[] = {
		{s->mode == SANDBOX_NONE, "no sandbox is asked for, and a cluster runs none without one",
		 "Add a sandbox block, or --sandbox=auto."},
		{s->build.dockerfile != NULL, "build: a cluster builds no images",
		 "Build the image beforehand, push it, and name it with image:."},
		{!s->image && !s->build.dockerfile, "image: a pod needs one", "Name one with image:."},
		{s->user && !is_numeric(s->user), "user: a pod's is a number",
		 "Write its number, such as \"1000:1000\"."},
		{s->host_state != HOST_STATE_NONE && !sandbox_host_state_is_default(s),
		 "host_state: auto, and pods have no user's home to share",
		 "Write host_state: none, or use --sandbox-host-state=none."},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!rows[i].wrong)
			continue;
		finding_set(f, FINDING_NO, "%s", rows[i].detail);
		finding_hint(f, "%s", rows[i].remedy);
		return;
	}
	/* The rest is what the driver itself says to it. */
	if (plan(p, s, "kubernetes", &e) < 0 && e.kind == ERR_UNSUPPORTED)
		take_error(f, &e);
	else
		finding_set(f, FINDING_YES, "image, user and host_state are what a pod can have");
}

/* What is wrong with one; false: nothing. */
static bool is_bad_secret(const struct sandbox_secret *s, struct finding *f)
{
	if (str_starts(s->from, "env:") && !getenv(s->from + strlen("env:"))) {
		finding_set(f, FINDING_NO, "%.100s: the variable %.100s is not set", s->name, s->from + strlen("env:"));
		finding_hint(f, "Export it before the run, or name another source.");
		return true;
	}
	const char *value = str_starts(s->from, "env:") ? getenv(s->from + strlen("env:")) : NULL;
	struct err e = ERR_INIT;
	if (value && secret_check_value(value, strlen(value), &e) < 0) {
		finding_set(f, FINDING_NO, "%.100s: %.300s", s->name, e.msg);
		finding_hint(f, "%s", e.hint);
		return true;
	}
	if (str_starts(s->from, "file:") && access(s->from + strlen("file:"), R_OK) < 0) {
		finding_set(f, FINDING_NO, "%.100s: the file %.300s cannot be read", s->name,
			    s->from + strlen("file:"));
		finding_hint(f, "Create it, readable for this user, or name another source.");
		return true;
	}
	for (size_t i = 0; i < s->hosts.n; i++) {
		if (!strchr(s->hosts.v[i], '*'))
			continue;
		finding_set(f, FINDING_NO, "%.100s: the host %.100s is a pattern", s->name, s->hosts.v[i]);
		finding_hint(f, "Name each host that may have the secret.");
		return true;
	}
	return false;
}

void strict_secrets(const struct question *q, struct finding *f)
{
	const struct sandbox_spec *s = ((const struct strict_params *)q->arg)->spec;

	for (size_t i = 0; i < s->n_secrets; i++)
		if (is_bad_secret(&s->secrets[i], f))
			return;
	finding_set(f, FINDING_YES, "%zu, and each has its source", s->n_secrets);
}
