/* The command line by which an engine makes a sandbox's container.
 *
 * A pure function from the spec to words, so that what a container gets can be read off a table of tests. The order is:
 * what it is (name, labels), its walls (network, capabilities, privileges), who runs where, what is mounted, its
 * limits, the words of devcontainer.json (checked when they were read), and last what runs. No value of the environment
 * is here: a command line can be read by everybody on the machine.
 *
 * Mounts are written as docker's CSV, with every field quoted that needs it, so that no character of a path can become
 * a key of its own. Covers (what must look empty inside) are read-only tmpfs; podman would fill a new tmpfs with what
 * lay below it, which is what a cover hides, so it is told not to. */
#include "args.h"
#include "engine.h"
#include "labels.h"
#include "ops.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <guest/protocol.h>
#include <sandbox/home.h>
#include <sandbox/host_state.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_LIMIT = 120, MOUNT_LIMIT = 64 * 1024 };

/* What images' programs need to change users and owners; everything else is dropped. */
static const char *const default_caps[] = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL"};

char *args_name(const char *run_id, unsigned n)
{
	auto_free char *id = xstrndup(run_id, NAME_LIMIT);

	for (char *c = id; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *c))
			*c = '-';
	return n > 1 ? xasprintf("iterion-%s-%u", id, n) : xasprintf("iterion-%s", id);
}

static bool shares_home(const struct sandbox_params *p)
{
	return p->spec->host_state != HOST_STATE_NONE && p->home;
}

bool args_remaps_user(const struct sandbox_params *p, const struct args_facts *f)
{
	return p->spec->host_state != HOST_STATE_NONE && !p->spec->user && f->uid != 0;
}

static void two(struct strv *to, const char *option, char *value)
{
	strv_add(to, option);
	strv_take(to, value);
}

static void add_labels(const struct sandbox_params *p, const struct args_facts *f, struct strv *to)
{
	two(to, "--label", xasprintf("%s=true", LABEL_MANAGED));
	two(to, "--label", xasprintf("%s=%s", LABEL_RUN_ID, p->run_id));
	two(to, "--label", xasprintf("%s=%s", LABEL_RUN_NAME, p->run_name ? p->run_name : ""));
	two(to, "--label", xasprintf("%s=%s", LABEL_OWNER, f->owner));
}

/* Whether devcontainer.json drops the capability, or all. */
static bool is_dropped(const struct sandbox_spec *spec, const char *cap)
{
	static const char option[] = "--cap-drop=";

	for (size_t i = 0; i < spec->run_args.n; i++) {
		const char *name = spec->run_args.v[i];
		if (!str_starts(name, option))
			continue;
		name += strlen(option);
		name += strncasecmp(name, "CAP_", 4) == 0 ? 4 : 0;
		if (strcasecmp(name, cap) == 0 || strcasecmp(name, "ALL") == 0)
			return true;
	}
	return false;
}

static void add_walls(const struct sandbox_params *p, const struct args_facts *f, struct strv *to)
{
	if (p->enforce_network && !f->advisory) {
		strv_add(to, "--network");
		strv_add(to, "none");
	} else if (p->enforce_network && f->alias) {
		two(to, "--add-host", xasprintf("%s:host-gateway", f->alias));
	}
	strv_add(to, "--cap-drop=ALL");
	for (size_t i = 0; i < ARRAY_LEN(default_caps); i++)
		if (!is_dropped(p->spec, default_caps[i]))
			strv_take(to, xasprintf("--cap-add=%s", default_caps[i]));
	strv_add(to, "--security-opt");
	strv_add(to, "no-new-privileges");
	if (f->unlabelled) {
		strv_add(to, "--security-opt");
		strv_add(to, "label=disable");
	}
	if (f->engine->keep_id && f->uid != 0)
		strv_add(to, "--userns=keep-id");
}

static void add_user(const struct sandbox_params *p, const struct args_facts *f, struct strv *to)
{
	if (p->spec->user)
		two(to, "--user", xstrdup(p->spec->user));
	else if (args_remaps_user(p, f))
		two(to, "--user", xasprintf("%u:%u", f->uid, f->gid));
	two(to, "--workdir", xstrdup(p->workspace_target));
}

/* One field of CSV (RFC 4180). */
static void add_field(struct buf *b, const char *key, const char *value)
{
	bool quote = strpbrk(value, ",\"\r\n") != NULL;

	(void)buf_printf(b, "%s%s%s=", b->len ? "," : "", quote ? "\"" : "", key);
	for (const char *c = value; *c; c++)
		(void)(*c == '"' ? buf_puts(b, "\"\"") : buf_putc(b, *c));
	if (quote)
		(void)buf_putc(b, '"');
}

static void add_bind(struct strv *to, const char *source, const char *target, bool readonly)
{
	auto_buf b = BUF_INIT(MOUNT_LIMIT);

	add_field(&b, "type", "bind");
	add_field(&b, "source", source);
	add_field(&b, "target", target);
	if (readonly)
		(void)buf_puts(&b, ",readonly");
	two(to, "--mount", buf_steal(&b));
}

static void add_tmpfs(struct strv *to, const char *target, const char *options)
{
	auto_buf b = BUF_INIT(MOUNT_LIMIT);

	add_field(&b, "type", "tmpfs");
	add_field(&b, "target", target);
	(void)buf_printf(&b, ",%s", options);
	two(to, "--mount", buf_steal(&b));
}

static void add_ours(const struct sandbox_params *p, const struct args_facts *f, struct strv *to, struct strv *targets)
{
	const struct {
		const char *source, *target;
		bool readonly;
	} rows[] = {
		{p->workspace, p->workspace_target, false},
		{f->socket ? f->guest : NULL, GUEST_PATH, true},
		{f->socket ? f->guest : NULL, "/usr/local/bin/iterion", true},
		{f->socket, GUEST_CONTROL_SOCKET, false},
		{p->artifact_files, GUEST_ARTIFACT_FILES, false},
		{p->attachments, GUEST_ATTACHMENTS, true},
		{f->authority, GUEST_CA_AUTHORITY, true},
		{f->bundle, GUEST_CA_BUNDLE, true},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!rows[i].source)
			continue;
		add_bind(to, rows[i].source, rows[i].target, rows[i].readonly);
		strv_add(targets, rows[i].target);
	}
}

/* The image's own file of certificates, wherever its system has it, reads as the one with the proxy's. */
static void add_certificates(const struct args_facts *f, struct strv *to)
{
	for (const char *const *v = certificate_places; f->bundle && *v; v++)
		add_bind(to, f->bundle, *v, true);
}

static int add_mount(const struct sandbox_mount *m, const struct args_facts *f, struct strv *to, struct err *e)
{
	auto_buf b = BUF_INIT(MOUNT_LIMIT);

	if (m->type == MOUNT_BIND) {
		add_bind(to, m->source, m->target, m->readonly);
		return 0;
	}
	if (m->type == MOUNT_TMPFS) {
		add_tmpfs(to, m->target, f->engine->tmpfs_shared);
		return 0;
	}
	if (m->type != MOUNT_VOLUME) {
		int r = err_set(e, ERR_UNSUPPORTED, ENOTSUP, "mount at %s: %s has bind, volume and tmpfs mounts only",
				m->target, f->engine->name);
		err_hint(e, "Mounts of type pvc, configmap and secret belong to the kubernetes driver.");
		return r;
	}
	add_field(&b, "type", "volume");
	if (m->source)
		add_field(&b, "source", m->source);
	add_field(&b, "target", m->target);
	if (m->readonly)
		(void)buf_puts(&b, ",readonly");
	two(to, "--mount", buf_steal(&b));
	return 0;
}

/* HOME and what lies between it and the mounts below it, owned by the container's user. Who that is is known only when
 * it is a number; for a name, or the image's own user, everybody in the container may write there. */
static int add_home_folder(const struct sandbox_params *p, const struct args_facts *f, const char *path,
			   struct strv *to, struct err *e)
{
	const char *user = p->spec->user;
	unsigned long long uid = f->uid, gid = f->gid;
	bool known = args_remaps_user(p, f);

	if (!f->engine->tmpfs_owner) {
		add_tmpfs(to, path, f->engine->tmpfs_home);
		return 0;
	}
	if (strpbrk(path, ":,")) {
		int r = err_set(e, ERR_SANDBOX, EINVAL, "HOME %s: %s cannot mount at a path with ':' or ','", path,
				f->engine->name);
		err_hint(e, "Use --sandbox-host-state=none, or another HOME.");
		return r;
	}
	if (user) {
		auto_free char *first = xstrndup(user, strcspn(user, ":"));
		const char *colon = strchr(user, ':');
		known = str_parse_uint(first, 0, UINT32_MAX - 1, &uid) == 0;
		gid = uid;
		if (known && colon)
			known = str_parse_uint(colon + 1, 0, UINT32_MAX - 1, &gid) == 0;
	}
	if (known)
		two(to, "--tmpfs", xasprintf("%s:exec,mode=0700,uid=%llu,gid=%llu", path, uid, gid));
	else
		two(to, "--tmpfs", xasprintf("%s:exec,mode=1777", path));
	return 0;
}

static int add_home(const struct sandbox_params *p, const struct args_facts *f, const struct strv *targets,
		    struct strv *to, struct err *e)
{
	auto_strv tmpfs = {0};
	int r = sandbox_home_tmpfs(p->home, (const char *const *)targets->v, targets->n, &tmpfs, e);

	for (size_t i = 0; r == 0 && i < tmpfs.n; i++)
		r = add_home_folder(p, f, tmpfs.v[i], to, e);
	return r;
}

static void add_covers(const struct sandbox_params *p, const struct args_facts *f, struct strv *to)
{
	for (size_t i = 0; p->host_state && i < p->host_state->covers.n; i++)
		add_tmpfs(to, p->host_state->covers.v[i], f->engine->tmpfs_cover);
	if (p->hidden) {
		auto_free char *inside = path_join(p->workspace_target, p->hidden + strlen(p->workspace) + 1);
		add_tmpfs(to, inside, f->engine->tmpfs_cover);
	}
}

static int add_mounts(const struct sandbox_params *p, const struct args_facts *f, struct strv *to, struct err *e)
{
	auto_strv targets = {0};
	int r = 0;

	add_ours(p, f, to, &targets);
	add_certificates(f, to);
	for (size_t i = 0; p->host_state && i < p->host_state->mounts.n; i++) {
		add_bind(to, p->host_state->sources.v[i], p->host_state->mounts.v[i], false);
		strv_add(&targets, p->host_state->mounts.v[i]);
	}
	for (size_t i = 0; r == 0 && i < p->spec->n_mounts; i++) {
		r = add_mount(&p->spec->mounts[i], f, to, e);
		strv_add(&targets, p->spec->mounts[i].target);
	}
	if (r == 0 && shares_home(p))
		r = add_home(p, f, &targets, to, e);
	add_covers(p, f, to);
	return r;
}

static void add_limits(const struct sandbox_limits *l, struct strv *to)
{
	if (l->cpus > 0)
		two(to, "--cpus", xasprintf("%.3f", l->cpus));
	if (l->memory)
		two(to, "--memory", xasprintf("%llub", (unsigned long long)l->memory));
	if (l->pids)
		two(to, "--pids-limit", xasprintf("%llu", (unsigned long long)l->pids));
}

/* An init and no-new-privileges are there already. */
static void add_run_args(const struct sandbox_spec *spec, struct strv *to)
{
	for (size_t i = 0; i < spec->run_args.n; i++)
		if (!str_eq(spec->run_args.v[i], "--init") &&
		    !str_eq(spec->run_args.v[i], "--security-opt=no-new-privileges"))
			strv_add(to, spec->run_args.v[i]);
}

static void add_program(const struct args_facts *f, struct strv *to)
{
	two(to, "--entrypoint", xstrdup(f->socket ? GUEST_PATH : "sleep"));
	strv_add(to, f->image);
	strv_add(to, f->socket ? "init" : "infinity");
	if (f->socket)
		strv_add(to, GUEST_CONTROL_SOCKET);
}

int args_run(const struct sandbox_params *p, const struct args_facts *f, struct strv *ret, struct err *e)
{
	static const char *const fixed[] = {"run",	    "--detach", "--rm",		 "--pull", "never",
					    "--log-driver", "none",	"--stop-signal", "TERM",   "--no-healthcheck"};

	strv_add(ret, f->program);
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		strv_add(ret, fixed[i]);
	two(ret, "--name", xstrdup(f->name));
	add_labels(p, f, ret);
	add_walls(p, f, ret);
	add_user(p, f, ret);
	int r = add_mounts(p, f, ret, e);
	if (r < 0)
		return r;
	add_limits(&p->spec->limits, ret);
	add_run_args(p->spec, ret);
	two(ret, "--env-file", xstrdup(f->env_file));
	add_program(f, ret);
	return 0;
}

int args_env(const struct sandbox_params *p, struct buf *ret)
{
	int r = shares_home(p) ? buf_printf(ret, "HOME=%s\n", p->home) : 0;

	for (size_t i = 0; r == 0 && i < p->spec->env.n; i++)
		r = buf_printf(ret, "%s\n", p->spec->env.v[i]);
	return r;
}
