/* What `sandbox exec` and `sandbox shell` share: their options, and running one program by them. */
#pragma once

#include "command.h"
#include "network_flags.h"
#include "run_choice.h"
#include "sandbox_flags.h"

struct program_opts {
	const char *workspace;
	const char *store_dir;
	const char *events;
	struct strv resolve;
	struct network_flags network;
	struct sandbox_flags sandbox;
};

#define PROGRAM_ROWS                                                                                                   \
	SANDBOX_FLAG_ROWS(struct program_opts, sandbox),                                                               \
		NETWORK_FLAG_ROWS("network", struct program_opts, network, "the workflow's; allowlist with rules"),    \
		RESOLVE_ROW(struct program_opts, resolve),                                                             \
		{.name = "workspace",                                                                                  \
		 .kind = OPTION_STRING,                                                                                \
		 .value = "DIR",                                                                                       \
		 .offset = offsetof(struct program_opts, workspace),                                                   \
		 .help = "the folder that can be written inside (default: the current one)"},                          \
		STORE_DIR_ROW(struct program_opts, store_dir),                                                         \
	{                                                                                                              \
		.name = "events", .kind = OPTION_STRING, .value = "FILE",                                              \
		.offset = offsetof(struct program_opts, events),                                                       \
		.help = "append the sandbox's events to FILE, one JSON object a line"                                  \
	}

/* Runs argv (NULL: a shell) in a sandbox as a run of file (NULL: none) with these options would make it. The exit code
 * or -errno. */
int program_command(const struct program_opts *o, const char *file, const char *const *argv, bool on_terminal,
		    struct err *e) __attribute__((warn_unused_result));

extern const struct help_row program_exits[];
