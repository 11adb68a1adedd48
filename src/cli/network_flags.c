/* A network policy from the command line; what the rules mean is the policy's own business. */
#include "network_flags.h"

#include <base/err.h>

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
