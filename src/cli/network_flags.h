/* --mode, --preset and --rule: a network policy on the command line. */
#pragma once

#include "command.h"

#include <base/str.h>
#include <net/policy.h>

struct network_flags {
	const char *mode; /* NULL: not given */
	struct strv presets;
	struct strv rules;
};

extern const char *const network_mode_words[];

/* Rows for a command whose options have a struct network_flags as `member`; mode_name is the mode's option. */
#define NETWORK_FLAG_ROWS(mode_name, type, member, default_mode)                                                       \
	{.name = mode_name,                                                                                            \
	 .kind = OPTION_WORD,                                                                                          \
	 .value = "MODE",                                                                                              \
	 .words = network_mode_words,                                                                                  \
	 .offset = offsetof(type, member.mode),                                                                        \
	 .help = "what happens to hosts that no rule names (default: " default_mode ")"},                              \
		{.name = "preset",                                                                                     \
		 .kind = OPTION_LIST,                                                                                  \
		 .value = "NAME",                                                                                      \
		 .offset = offsetof(type, member.presets),                                                             \
		 .help = "a shipped list of rules, read before the others"},                                           \
	{                                                                                                              \
		.name = "rule", .kind = OPTION_LIST, .value = "RULE", .offset = offsetof(type, member.rules),          \
		.help = "[!]host[:port]; the host may begin with *. (one label) or **. (any), or be an address or "    \
			"CIDR"                                                                                         \
	}

/* The row of --resolve. */
#define RESOLVE_ROW(type, member)                                                                                      \
	{                                                                                                              \
		.name = "resolve", .kind = OPTION_LIST, .value = "HOST:IP", .offset = offsetof(type, member),          \
		.help = "an answer of the proxy that comes before any look-up; the address is checked like any other"  \
	}

/* Whether every entry of --resolve is HOST:IP; the proxy itself would notice only once it runs. */
int network_flags_check_resolve(const struct strv *entries, struct err *e) __attribute__((warn_unused_result));

/* The policy that the flags describe, allowlist when no mode is given. */
int network_flags_policy(const struct network_flags *f, struct policy **ret, struct err *e)
	__attribute__((warn_unused_result));

static inline void cleanup_policy(struct policy **p)
{
	policy_free(*p);
}
#define auto_policy __attribute__((cleanup(cleanup_policy))) struct policy *
