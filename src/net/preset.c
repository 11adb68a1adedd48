/* The named rule lists that ship with the program, as data.
 *
 * A preset is a list of rules in the policy's own syntax; an entry that begins with '@' stands for another preset of
 * this table (one level: the parts hold rules only). A preset is never applied by itself: whoever wants it names it.
 * Changing a list changes what sandboxes reach, so tests compare this table with tests/data/net/presets.json. */
#include "preset.h"

#include <base/mem.h>
#include <base/str.h>
#include <net/policy.h>

#include <errno.h>

static const char *const llm[] = {
	"api.anthropic.com",	    "api.openai.com",	 "openrouter.ai",
	"**.bedrock.amazonaws.com", "**.googleapis.com", "**.openai.azure.com",
	"api.mistral.ai",	    "api.z.ai",		 NULL,
};

static const char *const packages[] = {
	"**.npmjs.org",	   "pypi.org",		 "**.pythonhosted.org", "**.golang.org",
	"crates.io",	   "**.crates.io",	 "**.debian.org",	"**.ubuntu.com",
	"cache.nixos.org", "channels.nixos.org", "releases.nixos.org",	"nix-community.cachix.org",
	"devbox.sh",	   "**.devbox.sh",	 "get.jetify.com",	NULL,
};

static const char *const code_hosts[] = {
	"github.com",
	"**.github.com",
	"codeload.github.com",
	"objects.githubusercontent.com",
	"raw.githubusercontent.com",
	"gitlab.com",
	"**.gitlab.com",
	"bitbucket.org",
	"**.bitbucket.org",
	NULL,
};

static const char *const iterion_default[] = {"@llm", "@packages", "@code-hosts", NULL};

static const char *const none[] = {NULL};

static const struct preset {
	const char *name;
	const char *const *rules;
} presets[] = {
	{"iterion-default", iterion_default}, {"llm", llm},   {"packages", packages},
	{"code-hosts", code_hosts},	      {"none", none},
};

/* Telemetry and probes of coding agents: refused like any other host that no rule allows, but an event for each would
 * bury the ones that matter. */
static const char *const silent[] = {
	"statsig.anthropic.com",   "sentry.io", "**.sentry.io", "http-intake.logs.us5.datadoghq.com",
	"mcp-proxy.anthropic.com", NULL,
};

static const struct preset *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(presets); i++)
		if (str_eq(presets[i].name, name))
			return &presets[i];
	return NULL;
}

int preset_expand(const char *name, struct strv *to)
{
	const struct preset *p = find(name);

	if (!p)
		return -ENOENT;
	for (const char *const *r = p->rules; *r; r++) {
		const struct preset *part = (*r)[0] == '@' ? find(*r + 1) : NULL;
		if (!part) {
			strv_add(to, *r);
			continue;
		}
		for (const char *const *q = part->rules; *q; q++)
			strv_add(to, *q);
	}
	return 0;
}

const char *const *preset_silent(void)
{
	return silent;
}

const char *const *policy_preset_names(void)
{
	static const char *names[ARRAY_LEN(presets) + 1];

	for (size_t i = 0; i < ARRAY_LEN(presets); i++)
		names[i] = presets[i].name;
	return names;
}
