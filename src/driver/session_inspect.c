/* TLS inspection and secrets of a session.
 *
 * The values are read here, handed to the proxy by its start, and wiped: from then on this process has names and
 * placeholders. The proxy's certificate comes back, and the sandbox gets it in two files: alone, for programs that add
 * it to what they trust (Node), and behind the host's own store, for those that take a file for all of it. The second
 * also stands at the places where images keep theirs.
 *
 * The keys of models that a backend may give its program are bound by themselves when nothing of the user's own state
 * is shared, so that a program inside cannot read the key of the very agent that started it. */
#include "session_inspect.h"
#include "guest_path.h"
#include "secret_exposed.h"
#include "secret_source.h"
#include "session_priv.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/agent.h>
#include <guest/protocol.h>
#include <net/secret.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STORE_MAX = 16 * 1024 * 1024, VALUE_MAX = SECRET_MAX + 1024 + 2 };

/* What the backends give their programs, where it is sent, and what may name another place for that. */
static const struct model_key {
	const char *name, *host, *base;
} model_keys[] = {
	{"ANTHROPIC_API_KEY", "api.anthropic.com", "ANTHROPIC_BASE_URL"},
	{"ANTHROPIC_AUTH_TOKEN", "api.anthropic.com", "ANTHROPIC_BASE_URL"},
	{"CLAUDE_CODE_OAUTH_TOKEN", "api.anthropic.com", "ANTHROPIC_BASE_URL"},
	{"OPENAI_API_KEY", "api.openai.com", "OPENAI_BASE_URL"},
	{"CODEX_API_KEY", "api.openai.com", "OPENAI_BASE_URL"},
};

bool session_inspects(const struct session *s)
{
	if (!s->policy || !s->driver->caps.secrets)
		return false;
	return s->spec.network.tls_inspect == TLS_INSPECT_ALL ||
	       (s->spec.network.tls_inspect == TLS_INSPECT_SECRETS && s->spec.n_secrets > 0);
}

static bool is_declared(const struct session *s, const char *name)
{
	for (size_t i = 0; i < s->spec.n_secrets; i++)
		if (str_eq(s->spec.secrets[i].name, name))
			return true;
	return false;
}

/* The host of a base URL; false when a key sent there would go in clear, or nowhere. */
static bool base_host(const char *url, struct host *ret)
{
	size_t len;
	uint16_t port;

	if (!str_starts(url, "https://"))
		return false;
	url += strlen("https://");
	len = strcspn(url, "/?#");
	return !memchr(url, '@', len) && host_port_parse(url, len, 443, ret, &port) == 0 && ret->family == AF_UNSPEC;
}

/* They become secrets like those of the block, but no program has their placeholders but the backend's. */
static void bind_model_keys(struct session *s)
{
	s->n_declared = s->spec.n_secrets;
	if (s->spec.host_state != HOST_STATE_NONE || s->spec.network.tls_inspect != TLS_INSPECT_SECRETS)
		return;
	for (size_t i = 0; i < ARRAY_LEN(model_keys); i++) {
		const struct model_key *k = &model_keys[i];
		const char *value = getenv(k->name), *base = getenv(k->base);
		struct host h;
		if (!value || is_declared(s, k->name) || secret_check_value(value, strlen(value), NULL) < 0 ||
		    (base && *base && !base_host(base, &h)))
			continue;
		struct sandbox_secret *x = sandbox_spec_add_secret(&s->spec);
		x->name = xstrdup(k->name);
		x->from = xasprintf("env:%s", k->name);
		strv_add(&x->hosts, base && *base ? h.text : k->host);
	}
}

int session_inspect_settle(struct session *s, struct err *e)
{
	int r = 0;

	if (!s->policy || !s->driver->caps.secrets)
		return 0;
	bind_model_keys(s);
	for (size_t i = 0; r == 0 && i < s->spec.n_secrets; i++)
		r = secret_source_check(&s->spec.secrets[i], e);
	if (r == 0 && session_inspects(s) && s->offered) {
		r = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			    "network.tls_inspect: an engine that is not on this machine cannot have its certificates");
		err_hint(e, "use an engine on this machine, or take tls_inspect and secrets out of the block");
	}
	if (r == 0 && session_inspects(s))
		s->params.certificates = &s->certificates;
	return r;
}

static const char *find_store(struct err *e)
{
	static const char *const places[] = {
		"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/ssl/ca-bundle.pem",
		"/etc/ssl/cert.pem",
	};
	const char *named = getenv("SSL_CERT_FILE");

	if (named && *named)
		return named;
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], R_OK) == 0)
			return places[i];
	(void)err_set(e, ERR_INPUT, ENOENT, "TLS inspection: this system has no store of certificates to trust");
	err_hint(e, "install ca-certificates, or name a PEM file in SSL_CERT_FILE");
	return NULL;
}

static int read_secrets(const struct session *s, struct secrets *to, struct err *e)
{
	for (size_t i = 0; i < s->spec.n_secrets; i++) {
		const struct sandbox_secret *x = &s->spec.secrets[i];
		auto_buf value = BUF_INIT(VALUE_MAX);
		int r = secret_source_read(x, &value, e);
		if (r == 0) {
			r = secrets_add(to, x->name, value.data, value.len, &x->hosts, e);
			r = r < 0 ? err_wrap(e, r, "sandbox secrets.%.60s", x->name)
				  : secret_exposed_check(&s->spec, s->p.workspace, x, value.data, e);
		}
		if (value.data)
			explicit_bzero(value.data, value.cap);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The store with our certificate behind it. */
static int make_files(struct session *s, const char *store, struct err *e)
{
	auto_free char *own = NULL;
	size_t len;
	const char *pem = proxy_certificate(s->proxy);
	int r = file_read(AT_FDCWD, store, STORE_MAX, &own, &len, e);

	if (r < 0)
		return err_wrap(e, r, "TLS inspection");
	s->certificates.authority = xstrdup(pem);
	s->certificates.bundle = xasprintf("%s\n%s", own, pem);
	return 0;
}

int session_inspect_start(struct session *s, struct proxy_params *pp, struct err *e)
{
	auto_free char *program = NULL;
	struct secrets *secrets = secrets_new();
	const char *store = find_store(e);
	int r = store ? proxy_path_find(&program, e) : -ENOENT;

	s->secrets = secrets;
	if (r == 0)
		r = read_secrets(s, secrets, e);
	if (r == 0) {
		const struct proxy_inspect inspect = {
			.all = s->spec.network.tls_inspect == TLS_INSPECT_ALL,
			.secrets = secrets,
			.program = program,
			.trust = store,
		};
		pp->inspect = &inspect;
		r = proxy_new(pp, &s->proxy, e);
		pp->inspect = NULL;
	}
	secrets_forget(secrets);
	return r < 0 ? r : make_files(s, store, e);
}

void session_inspect_env(const struct session *s, struct strv *env)
{
	static const char *const bundles[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
					      "PIP_CERT",      "CARGO_HTTP_CAINFO",  "AWS_CA_BUNDLE"};
	static const char *const added[] = {"NODE_EXTRA_CA_CERTS", "DENO_CERT"};

	if (!s->params.certificates)
		return;
	for (size_t i = 0; i < ARRAY_LEN(bundles); i++)
		if (!strv_get_env(env, bundles[i]))
			strv_set_env(env, bundles[i], GUEST_CA_BUNDLE);
	for (size_t i = 0; i < ARRAY_LEN(added); i++)
		if (!strv_get_env(env, added[i]))
			strv_set_env(env, added[i], GUEST_CA_AUTHORITY);
	if (!strv_get_env(env, "SSL_CERT_DIR"))
		strv_set_env(env, "SSL_CERT_DIR", GUEST_CA_DIR);
	for (size_t i = 0; i < s->n_declared && i < secrets_count(s->secrets); i++)
		strv_set_env(env, secrets_name(s->secrets, i), secrets_placeholder_at(s->secrets, i));
}

json_t *session_secrets_json(const struct session *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->spec.n_secrets; i++)
		(void)json_array_append_new(list, json_string(s->spec.secrets[i].name));
	return list;
}

const char *session_secret(const struct session *s, const char *name)
{
	return s ? secrets_placeholder_of(s->secrets, name) : NULL;
}

void session_inspect_done(struct session *s)
{
	secrets_free(s->secrets);
	free(s->certificates.authority);
	free(s->certificates.bundle);
}
