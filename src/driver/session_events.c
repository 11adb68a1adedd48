/* The events of a session, as docs/events.md describes them. A token or a secret's value has no way into one: none of
 * the fields here holds any. */
#include "post_create.h"
#include "session_inspect.h"
#include "session_priv.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <net/proxy_json.h>

#include <string.h>

static void emit(const struct session *s, const char *type, json_t *data)
{
	if (s->p.on_event)
		s->p.on_event(s->p.arg, type, data);
	json_decref(data);
}

static double ms_between(uint64_t from, uint64_t to)
{
	return to > from ? (double)((to - from) / 1000u) / 1000.0 : 0;
}

static void emit_skipped(const struct session *s)
{
	/* A run that never asked for a sandbox skips none. */
	if (s->spec.mode == SANDBOX_NONE)
		return;
	json_t *d = json_object();
	json_put_str(d, "driver", driver_name(s->driver));
	json_put_str(d, "mode", sandbox_mode_name(s->spec.mode));
	json_put_str(d, "source", s->spec.mode_source);
	json_put_str(d, "reason", "the noop driver was asked for: programs run on the host, nothing is isolated");
	emit(s, "sandbox_skipped", d);
}

json_t *session_network_json(const struct session *s)
{
	json_t *n = json_object(), *list = json_array();
	const char *const *rules = NULL;
	size_t count = s->policy ? policy_rules(s->policy, &rules) : 0;

	for (size_t i = 0; i < count; i++)
		(void)json_array_append_new(list, json_string(rules[i]));
	json_put_str(n, "mode", network_mode_name(s->spec.network.mode));
	json_put_str(n, "enforcement",
		     !s->params.enforce_network ? "none"
		     : s->driver->caps.remote	? "networkpolicy"
		     : s->offered		? "proxy-env"
						: "namespace");
	json_put(n, "rules", list);
	if (s->spec.network.tls_inspect != TLS_INSPECT_OFF)
		json_put_str(n, "tls_inspect", tls_inspect_name(s->spec.network.tls_inspect));
	return n;
}

void session_emit_started(const struct session *s)
{
	const struct sandbox_spec *spec = &s->spec;

	if (s->driver == &driver_noop) {
		emit_skipped(s);
		return;
	}
	json_t *d = json_object(), *ms = json_object();
	json_put_str(d, "driver", driver_name(s->driver));
	json_put_str(d, "mode", sandbox_mode_name(spec->mode));
	json_put_str(d, "source", spec->mode_source);
	json_put(d, "image", spec->image ? json_string(spec->image) : json_null());
	json_put_str(d, "image_digest", s->sandbox->image_digest);
	json_put_bool(d, "has_post_create", post_create_wanted(spec));
	json_put_str(d, "workspace_folder", s->workspace_target);
	json_put(d, "network", session_network_json(s));
	if (session_inspects(s))
		json_put(d, "secrets", session_secrets_json(s));
	json_put(ms, "prepare", json_real(ms_between(s->begin_ns, s->prepared_ns)));
	json_put(ms, "create", json_real(ms_between(s->prepared_ns, s->ready_ns)));
	json_put(ms, "ready", json_real(ms_between(s->begin_ns, s->ready_ns)));
	json_put(d, "start_ms", ms);
	emit(s, "sandbox_started", d);
}

static json_t *list_json(const struct strv *l)
{
	json_t *a = json_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(a, json_text(l->v[i], strlen(l->v[i])));
	return a;
}

json_t *session_skipped_json(const struct session *s)
{
	const struct host_state_plan *h = &s->host_state;
	json_t *skipped = json_array();

	for (size_t i = 0; i < h->skipped.n; i++) {
		json_t *one = json_object();
		json_put_str(one, "path", h->skipped.v[i]);
		json_put_str(one, "reason", h->reasons.v[i]);
		(void)json_array_append_new(skipped, one);
	}
	return skipped;
}

void session_emit_host_state(const struct session *s)
{
	const struct host_state_plan *h = &s->host_state;

	if (!s->driver->caps.host_state && !s->driver->caps.remote)
		return;
	json_t *d = json_object();
	json_put_bool(d, "enabled", s->spec.host_state != HOST_STATE_NONE);
	json_put_str(d, "source", s->spec.host_state_source);
	json_put_str(d, "workspace_folder", s->workspace_target);
	json_put(d, "mounts", list_json(&h->mounts));
	json_put(d, "skipped", session_skipped_json(s));
	emit(s, "sandbox_host_state_mounted", d);
}

json_t *session_offered_json(void)
{
	json_t *d = json_object();

	json_put_str(d, "code", "proxy_env");
	json_put_str(d, "message",
		     "the network policy is offered, not enforced: the sandbox has its engine's network, and programs "
		     "that ignore HTTP_PROXY and HTTPS_PROXY are not held back. ITERION_NETWORK_ENFORCEMENT=required "
		     "makes that an error");
	return d;
}

void session_emit_warnings(const struct session *s)
{
	if (s->offered)
		emit(s, "sandbox_warning", session_offered_json());
	for (size_t i = 0; i < s->spec.warnings.n; i++) {
		const char *entry = s->spec.warnings.v[i], *message = strchr(entry, '=') + 1;
		json_t *d = json_object();
		json_put(d, "code", json_text(entry, (size_t)(message - entry - 1)));
		json_put_str(d, "message", message);
		emit(s, "sandbox_warning", d);
	}
}

void session_emit_planted(const struct session *s, const char *path)
{
	auto_free char *message = xasprintf(
		"a program in the sandbox made %s, the name of a run store: later commands do not use what "
		"it holds, but a new run would go there if it is empty. Remove the folder unless you wanted it",
		path);
	json_t *d = json_object();

	json_put_str(d, "code", "store_planted");
	json_put_str(d, "message", message);
	emit(s, "sandbox_warning", d);
}

void session_emit_blocked(const struct session *s, const struct proxy_blocked *b)
{
	json_t *d = proxy_blocked_json(b);

	json_put_str(d, "run_id", s->p.run_id);
	if (!s->p.on_blocked) {
		emit(s, "network_blocked", d);
		return;
	}
	s->p.on_blocked(s->p.arg, "network_blocked", d, b->first_ms, b->last_ms);
	json_decref(d);
}

void session_emit_secret_blocked(const struct session *s, const struct proxy_secret_blocked *b)
{
	json_t *d = json_object();

	json_put_str(d, "name", b->name);
	json_put_str(d, "host", b->host);
	json_put_int(d, "port", b->port);
	json_put_str(d, "run_id", s->p.run_id);
	json_put_int(d, "count", b->count);
	if (!s->p.on_blocked) {
		emit(s, "secret_blocked", d);
		return;
	}
	s->p.on_blocked(s->p.arg, "secret_blocked", d, b->first_ms, b->last_ms);
	json_decref(d);
}

void session_emit_summary(const struct session *s, const struct proxy_host_total *t, size_t n)
{
	emit(s, "network_summary", proxy_summary_json(t, n));
}

void session_emit_stopped(const struct session *s)
{
	if (!s->emit_stopped || s->driver == &driver_noop)
		return;
	json_t *d = json_object();
	json_put_str(d, "driver", driver_name(s->driver));
	json_put(d, "duration_ms", json_real(ms_between(s->ready_ns, clock_ns())));
	json_put_str(d, "exit", s->was_lost ? "lost" : s->was_killed ? "killed" : "clean");
	emit(s, "sandbox_stopped", d);
}
