/* Whether the driver can do what the spec asks for. What it cannot is an error, never left out: a sandbox that lacks a
 * limit or a user that somebody wrote is not the one that was asked for. */
#include "session_priv.h"

#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <string.h>

/* An init and no-new-privileges are what every sandbox has. */
static bool wants_run_args(const struct sandbox_spec *spec)
{
	for (size_t i = 0; i < spec->run_args.n; i++)
		if (!str_eq(spec->run_args.v[i], "--init") &&
		    !str_eq(spec->run_args.v[i], "--security-opt=no-new-privileges"))
			return true;
	return false;
}

/* Who asked for a field, or for a member of it ("limits.memory"). */
static const char *source_of(const struct sandbox_spec *spec, const char *field)
{
	size_t len = strlen(field);

	for (size_t i = 0; i < spec->sources.n; i++) {
		const char *entry = spec->sources.v[i];
		if (str_starts(entry, field) && (entry[len] == '=' || entry[len] == '.'))
			return strchr(entry, '=') + 1;
	}
	return NULL;
}

static int cannot_give(const struct session *s, const char *field, struct err *e)
{
	const char *source = source_of(&s->spec, field);
	bool ours = source && str_ends(source, "devcontainer.json");

	int r = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			"make the sandbox: the %s driver cannot give %s, which %s asks for", driver_name(s->driver),
			field, source ? source : "the sandbox block");
	err_hint(e,
		 "Take it out of the %s, or choose a driver that has it with --sandbox-driver "
		 "(`iterion sandbox exec --help` lists them)%s.",
		 ours ? "file" : "sandbox block",
		 ours ? "; --devcontainer=none makes a sandbox without that file" : "");
	return r;
}

/* What the spec asks for and the driver cannot do is an error, never left out. */
int session_check_caps(const struct session *s, struct err *e)
{
	const struct sandbox_spec *spec = &s->spec;
	const struct driver_caps *c = driver_caps(s->driver);
	const struct {
		const char *field;
		bool asked, can;
	} rows[] = {
		{"image", spec->image != NULL, c->image},
		{"build", spec->build.dockerfile != NULL, c->build},
		{"mounts", spec->n_mounts > 0, c->mounts},
		{"user", spec->user != NULL, c->user || (c->image_user && spec->image)},
		/* noop was asked for by name to run unprotected, which sandbox_skipped records. */
		{"a network policy", spec->network.mode != NETWORK_OPEN && s->driver != &driver_noop,
		 c->network_policy},
		{"network.tls_inspect", spec->network.tls_inspect != TLS_INSPECT_OFF, c->secrets},
		{"secrets", spec->n_secrets > 0, c->secrets},
		{"limits", spec->limits.cpus > 0 || spec->limits.memory || spec->limits.pids, c->limits},
		{"post_create", spec->post_create != NULL, s->driver != &driver_noop},
		{"commands of devcontainer.json", !lifecycle_empty(&spec->lifecycle), s->driver != &driver_noop},
		{"run_args", wants_run_args(spec), c->run_args},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].asked && !rows[i].can)
			return cannot_give(s, rows[i].field, e);
	return s->driver->check_spec ? s->driver->check_spec(spec, e) : 0;
}
