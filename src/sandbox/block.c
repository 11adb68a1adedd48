/* From the sandbox: block as it was written to values with a meaning.
 *
 * The language's parser knows words and shapes; what a mount, a rule or a user may be is known here. Each value is
 * checked where it was written, so that a message can point there, and all problems are reported, not only the first.
 * Nothing here knows of flags, the environment or other blocks (resolve.c does). */
#include "check.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/block.h>
#include <sandbox/mount.h>
#include <sandbox/vars.h>

#include <errno.h>
#include <string.h>

struct reader {
	const struct sandbox_vars *vars;
	const char *origin;
	struct sandbox_block *out;
	sandbox_problem_fn report;
	void *arg;
	size_t problems;
};

void sandbox_block_done(struct sandbox_block *b)
{
	sandbox_spec_done(&b->spec);
	b->given = (__typeof__(b->given)){0};
}

static void problem(struct reader *r, struct dsl_pos pos, const char *field, struct err *e)
{
	(void)err_wrap(e, -EINVAL, "sandbox %s", field);
	r->problems++;
	r->report(r->arg, pos, e);
}

static void source(struct reader *r, const char *field)
{
	strv_set_env(&r->out->spec.sources, field, r->origin);
}

/* A text without a NUL inside; false when it has one, which was reported. */
static bool whole(struct reader *r, const struct dsl_str *s, const char *field)
{
	struct err e = ERR_INIT;

	if (strlen(s->s) == s->len)
		return true;
	(void)err_set(&e, ERR_INPUT, EINVAL, "it holds a NUL character");
	err_hint(&e, "take it out");
	problem(r, s->pos, field, &e);
	return false;
}

/* Copies a text that was written and that check (may be NULL) takes. */
static char *text(struct reader *r, const struct dsl_str *s, const char *field,
		  int (*check)(const char *, struct err *))
{
	struct err e = ERR_INIT;

	if (!s->s || !whole(r, s, field))
		return NULL;
	if (check && check(s->s, &e) < 0) {
		problem(r, s->pos, field, &e);
		return NULL;
	}
	source(r, field);
	return xstrdup(s->s);
}

static int check_not_empty(const char *s, struct err *e)
{
	if (s[strspn(s, " \t\n")])
		return 0;
	int r = err_set(e, ERR_INPUT, EINVAL, "it is empty");
	err_hint(e, "write a command, or leave the line out");
	return r;
}

/* "NAME=value" of every pair, with variables expanded. */
static void read_map(struct reader *r, const struct dsl_map *m, const char *what, struct strv *to)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct dsl_pair *p = &m->v[i];
		struct err e = ERR_INIT;
		auto_free char *field = xasprintf("%s.%.60s", what, p->key.s);
		if (check_env_name(p->key.s, p->key.len, &e) < 0) {
			problem(r, p->key.pos, what, &e);
			continue;
		}
		if (!whole(r, &p->value, field))
			continue;
		auto_free char *value = sandbox_vars_expand(r->vars, p->value.s);
		if (check_env_value(value, &e) < 0) {
			problem(r, p->value.pos, field, &e);
			continue;
		}
		strv_set_env(to, p->key.s, value);
		source(r, field);
	}
}

static void read_image(struct reader *r, const struct dsl_sandbox *b)
{
	struct sandbox_spec *s = &r->out->spec;

	s->image = text(r, &b->image, "image", check_image);
	if (!b->build.pos.line)
		return;
	s->build.dockerfile = text(r, &b->build.dockerfile, "build.dockerfile", check_build_path);
	s->build.context = text(r, &b->build.context, "build.context", check_build_path);
	s->build.target = text(r, &b->build.target, "build.target", check_build_target);
	if (!b->build.dockerfile.s)
		s->build.dockerfile = xstrdup("Dockerfile");
	if (!b->build.context.s)
		s->build.context = xstrdup(".");
	read_map(r, &b->build.args, "build.args", &s->build.args);
	source(r, "build");
	if (b->image.s) {
		struct err e = ERR_INIT;
		(void)err_set(&e, ERR_INPUT, EINVAL, "image and build stand together");
		err_hint(&e, "keep image: for one that exists, or build: for one that is built from a Dockerfile");
		problem(r, b->build.pos, "build", &e);
	}
}

static void read_mounts(struct reader *r, const struct dsl_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct err e = ERR_INIT;
		struct sandbox_mount m;
		if (!whole(r, &l->v[i], "mounts"))
			continue;
		auto_free char *expanded = sandbox_vars_expand(r->vars, l->v[i].s);
		if (sandbox_mount_parse(expanded, &m, &e) < 0) {
			problem(r, l->v[i].pos, "mounts", &e);
			continue;
		}
		m.origin = xstrdup(r->origin);
		*sandbox_spec_add_mount(&r->out->spec) = m;
	}
}

/* Presets and rules one by one, so that each has its place. */
static void read_policy_list(struct reader *r, const struct dsl_list *l, const char *field, bool presets,
			     struct strv *to)
{
	for (size_t i = 0; i < l->n; i++) {
		const char *one[] = {l->v[i].s, NULL};
		struct policy *p = NULL;
		struct err e = ERR_INIT;
		if (!whole(r, &l->v[i], field))
			continue;
		int bad = policy_new(NETWORK_OPEN, presets ? one : NULL, presets ? NULL : one, &p, &e);
		policy_free(p);
		if (bad < 0)
			problem(r, l->v[i].pos, field, &e);
		else
			strv_add(to, l->v[i].s);
	}
	if (l->pos.line)
		source(r, field);
}

static void read_network(struct reader *r, const struct dsl_sandbox *b)
{
	static const enum network_mode modes[] = {
		[DSL_NETWORK_UNSET] = NETWORK_OPEN,	     [DSL_NETWORK_OPEN] = NETWORK_OPEN,
		[DSL_NETWORK_ALLOWLIST] = NETWORK_ALLOWLIST, [DSL_NETWORK_DENYLIST] = NETWORK_DENYLIST,
		[DSL_NETWORK_LEARN] = NETWORK_LEARN,
	};
	static const enum network_inherit inherits[] = {
		[DSL_NETWORK_INHERIT_UNSET] = NETWORK_MERGE,
		[DSL_NETWORK_MERGE] = NETWORK_MERGE,
		[DSL_NETWORK_APPEND] = NETWORK_APPEND,
		[DSL_NETWORK_REPLACE] = NETWORK_REPLACE,
	};
	static const enum tls_inspect inspects[] = {
		[DSL_TLS_INSPECT_UNSET] = TLS_INSPECT_OFF,
		[DSL_TLS_INSPECT_OFF] = TLS_INSPECT_OFF,
		[DSL_TLS_INSPECT_SECRETS] = TLS_INSPECT_SECRETS,
		[DSL_TLS_INSPECT_ALL] = TLS_INSPECT_ALL,
	};
	struct sandbox_network *n = &r->out->spec.network;
	size_t before = r->problems;

	if (!b->network.pos.line)
		return;
	r->out->given.network = true;
	r->out->given.network_mode = b->network.mode.v != DSL_NETWORK_UNSET;
	r->out->given.tls_inspect = b->network.tls_inspect.v != DSL_TLS_INSPECT_UNSET;
	r->out->given.strict_sni = b->network.strict_sni.set;
	n->mode = modes[b->network.mode.v];
	n->inherit = inherits[b->network.inherit.v];
	n->tls_inspect = inspects[b->network.tls_inspect.v];
	n->strict_sni = b->network.strict_sni.v;
	read_policy_list(r, &b->network.preset, "network.preset", true, &n->presets);
	read_policy_list(r, &b->network.rules, "network.rules", false, &n->rules);
	if (r->out->given.network_mode)
		source(r, "network.mode");
	if (r->out->given.tls_inspect)
		source(r, "network.tls_inspect");
	if (r->out->given.strict_sni)
		source(r, "network.strict_sni");
	if (!r->out->given.network_mode || r->problems > before)
		return;
	/* All of them together: what a mode asks of its list. */
	struct policy *p = NULL;
	struct err e = ERR_INIT;
	if (policy_new(n->mode, (const char *const *)n->presets.v, (const char *const *)n->rules.v, &p, &e) < 0)
		problem(r, b->network.pos, "network", &e);
	policy_free(p);
}

static void read_secret(struct reader *r, const struct dsl_secret *x)
{
	struct err e = ERR_INIT;
	auto_free char *field = xasprintf("secrets.%.60s", x->name.s);
	struct dsl_str none = {.s = "", .pos = x->name.pos};

	if (check_env_name(x->name.s, x->name.len, &e) < 0) {
		problem(r, x->name.pos, "secrets", &e);
		return;
	}
	struct sandbox_secret *s = sandbox_spec_add_secret(&r->out->spec);
	s->name = xstrdup(x->name.s);
	s->from = text(r, x->from.s ? &x->from : &none, field, check_secret_from);
	for (size_t i = 0; i < x->hosts.n; i++) {
		char *host = text(r, &x->hosts.v[i], field, check_secret_host);
		if (host)
			strv_take(&s->hosts, host);
	}
	if (x->hosts.n == 0) {
		(void)err_set(&e, ERR_INPUT, EINVAL, "no hosts");
		err_hint(&e, "name the hosts that may get the value: hosts: [\"api.github.com\"]");
		problem(r, x->name.pos, field, &e);
	}
}

static void read_limits(struct reader *r, const struct dsl_sandbox *b)
{
	struct sandbox_limits *l = &r->out->spec.limits;
	struct err e = ERR_INIT;

	if (b->limits.cpus.set && check_cpus(b->limits.cpus.v, &e) < 0)
		problem(r, b->limits.cpus.pos, "limits.cpus", &e);
	else if (b->limits.cpus.set) {
		l->cpus = b->limits.cpus.v;
		source(r, "limits.cpus");
	}
	e = ERR_INIT;
	if (b->limits.memory.s && whole(r, &b->limits.memory, "limits.memory")) {
		if (parse_memory(b->limits.memory.s, &l->memory, &e) < 0)
			problem(r, b->limits.memory.pos, "limits.memory", &e);
		source(r, "limits.memory");
	}
	e = ERR_INIT;
	/* A negative number is far out of range as an unsigned one too. */
	if (b->limits.pids.set && check_pids((uint64_t)b->limits.pids.v, &e) < 0)
		problem(r, b->limits.pids.pos, "limits.pids", &e);
	else if (b->limits.pids.set) {
		l->pids = (uint64_t)b->limits.pids.v;
		source(r, "limits.pids");
	}
}

static void read_words(struct reader *r, const struct dsl_sandbox *b)
{
	static const enum sandbox_mode modes[] = {
		[DSL_SANDBOX_UNSET] = SANDBOX_INHERIT, [DSL_SANDBOX_INHERIT] = SANDBOX_INHERIT,
		[DSL_SANDBOX_NONE] = SANDBOX_NONE,     [DSL_SANDBOX_AUTO] = SANDBOX_AUTO,
		[DSL_SANDBOX_INLINE] = SANDBOX_INLINE,
	};
	static const enum host_state states[] = {
		[DSL_HOST_STATE_UNSET] = HOST_STATE_UNSET,
		[DSL_HOST_STATE_AUTO] = HOST_STATE_AUTO,
		[DSL_HOST_STATE_NONE] = HOST_STATE_NONE,
	};
	struct sandbox_spec *s = &r->out->spec;

	r->out->given.mode = b->mode.v != DSL_SANDBOX_UNSET;
	s->mode = modes[b->mode.v];
	s->host_state = states[b->host_state.v];
	s->mode_source = xstrdup(r->origin);
	if (s->host_state != HOST_STATE_UNSET)
		s->host_state_source = xstrdup(r->origin);
}

size_t sandbox_block_read(const struct dsl_sandbox *b, const struct sandbox_vars *v, const char *origin,
			  struct sandbox_block *ret, sandbox_problem_fn report, void *arg)
{
	struct sandbox_vars vars = *v;
	struct reader r = {.vars = &vars, .origin = origin, .out = ret, .report = report, .arg = arg};

	*ret = (struct sandbox_block){0};
	read_words(&r, b);
	read_image(&r, b);
	ret->spec.user = text(&r, &b->user, "user", check_user);
	ret->spec.workspace_folder = text(&r, &b->workspace_folder, "workspace_folder", check_workspace_folder);
	if (ret->spec.workspace_folder)
		vars.container_workspace = ret->spec.workspace_folder;
	ret->spec.post_create = text(&r, &b->post_create, "post_create", check_not_empty);
	read_mounts(&r, &b->mounts);
	read_map(&r, &b->env, "env", &ret->spec.env);
	read_network(&r, b);
	for (size_t i = 0; i < b->n_secrets; i++)
		read_secret(&r, &b->secrets[i]);
	read_limits(&r, b);
	return r.problems;
}

struct first {
	const char *file;
	struct err *e;
	bool seen;
};

static void keep_first(void *arg, struct dsl_pos pos, const struct err *e)
{
	struct first *f = arg;

	if (f->seen)
		return;
	f->seen = true;
	err_copy(f->e, e);
	(void)err_wrap(f->e, -EINVAL, "%s:%u:%u", f->file, (unsigned)pos.line, (unsigned)pos.column);
}

int sandbox_block_load(const char *file, const struct dsl_sandbox *b, const struct sandbox_vars *v, const char *origin,
		       struct sandbox_block *ret, struct err *e)
{
	struct first f = {.file = file, .e = e};
	struct sandbox_block block;

	if (sandbox_block_read(b, v, origin, &block, keep_first, &f) > 0) {
		sandbox_block_done(&block);
		return -EINVAL;
	}
	*ret = block;
	return 0;
}
