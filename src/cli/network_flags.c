/* A network policy from the command line; what the rules mean is the policy's own business. */
#include "network_flags.h"

#include <base/err.h>

#include <errno.h>
#include <string.h>

const char *const network_mode_words[] = {"allowlist", "denylist", "open", "learn", NULL};

int network_flags_policy(const struct network_flags *f, struct policy **ret, struct err *e)
{
	enum network_mode mode = NETWORK_ALLOWLIST;

	/* The option's table lets only known words through. */
	if (f->mode)
		(void)network_mode_parse(f->mode, &mode);
	int r = policy_new(mode, (const char *const *)f->presets.v, (const char *const *)f->rules.v, ret, e);
	if (r < 0)
		err_set_kind(e, ERR_USAGE);
	return r;
}

int network_flags_check_resolve(const struct strv *entries, struct err *e)
{
	for (size_t i = 0; i < entries->n; i++) {
		const char *text = entries->v[i], *colon = strchr(text, ':');
		struct host name, address;
		if (colon && host_parse(text, (size_t)(colon - text), &name) == 0 &&
		    host_parse(colon + 1, strlen(colon + 1), &address) == 0 && address.family != AF_UNSPEC)
			continue;
		int r = err_set(e, ERR_USAGE, EINVAL, "--resolve %s: this is not HOST:IP", text);
		err_hint(e, "Write a name, a colon and an address, such as api.example.com:127.0.0.1.");
		return r;
	}
	return 0;
}
