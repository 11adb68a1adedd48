/* The environment by which programs inside find the proxy.
 *
 * Both cases of each variable: curl ignores the upper-case HTTP_PROXY for http:// (it can be set by a CGI request),
 * others ignore the lower-case ones. ALL_PROXY never comes alone: some clients then send requests in clear to the
 * proxy. The token is in the URL, so it must not be put where a tool would print it (a JVM echoes JAVA_TOOL_OPTIONS).
 */
#include "proxy_env.h"

#include <base/cleanup.h>
#include <base/mem.h>
#include <base/str.h>
#include <guest/protocol.h>

#include <stdio.h>
#include <string.h>

static const char *const url_names[] = {"HTTP_PROXY",	   "HTTPS_PROXY", "ALL_PROXY",	      "http_proxy",
					"https_proxy",	   "all_proxy",	  "npm_config_proxy", "npm_config_https_proxy",
					"CARGO_HTTP_PROXY"};
static const char *const direct_names[] = {"NO_PROXY", "no_proxy"};

static void add(struct strv *env, const char *name, const char *value)
{
	if (!strv_get_env(env, name))
		strv_set_env(env, name, value);
}

void proxy_env_add(struct strv *env, const char *host, uint16_t port, const char *token, bool with_guest)
{
	static const char own[] = "localhost,127.0.0.1,::1";
	const char *name = host ? host : "127.0.0.1", *open = strchr(name, ':') ? "[" : "", *close = *open ? "]" : "";
	auto_free char *url = xasprintf("http://iterion:%s@%s%s%s:%u", token, open, name, close, port);
	auto_free char *java = xasprintf("-Dhttp.proxyHost=%s -Dhttp.proxyPort=%u -Dhttps.proxyHost=%s "
					 "-Dhttps.proxyPort=%u -Djdk.http.auth.tunneling.disabledSchemes=",
					 name, port, name, port);

	for (size_t i = 0; i < ARRAY_LEN(url_names); i++)
		add(env, url_names[i], url);
	for (size_t i = 0; i < ARRAY_LEN(direct_names); i++)
		add(env, direct_names[i], own);
	add(env, "NODE_USE_ENV_PROXY", "1");
	add(env, "JAVA_TOOL_OPTIONS", java);
	if (with_guest)
		add(env, "GIT_SSH_COMMAND", "ssh -o ProxyCommand='" GUEST_PATH " connect %h %p'");
}

static bool names_one_of(const char *entry, const char *const *names, size_t n)
{
	size_t len = strcspn(entry, "=");

	for (size_t i = 0; i < n; i++)
		if (strlen(names[i]) == len && memcmp(names[i], entry, len) == 0)
			return true;
	return false;
}

void proxy_env_drop(struct strv *env)
{
	struct strv kept = {0};

	for (size_t i = 0; i < env->n; i++)
		if (!names_one_of(env->v[i], url_names, ARRAY_LEN(url_names)) &&
		    !names_one_of(env->v[i], direct_names, ARRAY_LEN(direct_names)))
			strv_add(&kept, env->v[i]);
	strv_done(env);
	*env = kept;
}
