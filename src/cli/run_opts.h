/* The options of `run`, which `sandbox plan` takes as well: what a run would use is asked by its own command line. */
#pragma once

#include "command.h"
#include "network_flags.h"
#include "run_choice.h"
#include "sandbox_flags.h"

#include <engine/worktree.h>

struct run_opts {
	struct strv vars;
	const char *preset;
	struct strv attachments;
	const char *run_id;
	const char *name;
	const char *store_dir;
	const char *workspace;
	unsigned long long timeout_ms;
	const char *log_level;
	bool no_interactive;
	bool json;
	bool quiet;
	struct strv resolve;
	struct sandbox_flags sandbox;
	const char *branch_name;
	const char *merge_into;
	const char *merge_strategy;
	bool auto_merge;
};

extern const char *const run_log_levels[];

/* All but what a command shows and how. */
#define RUN_ROWS                                                                                                       \
	{.name = "var",                                                                                                \
	 .letter = 'v',                                                                                                \
	 .kind = OPTION_LIST,                                                                                          \
	 .value = "NAME=VALUE",                                                                                        \
	 .offset = offsetof(struct run_opts, vars),                                                                    \
	 .help = "the value of a variable of the workflow; read by its declared type"},                                \
		{.name = "preset",                                                                                     \
		 .kind = OPTION_STRING,                                                                                \
		 .value = "NAME",                                                                                      \
		 .offset = offsetof(struct run_opts, preset),                                                          \
		 .help = "one of the workflow's presets; --var comes over it"},                                        \
		{.name = "attachment",                                                                                 \
		 .kind = OPTION_LIST,                                                                                  \
		 .value = "NAME=FILE",                                                                                 \
		 .offset = offsetof(struct run_opts, attachments),                                                     \
		 .help = "a file for an attachment that the workflow declares"},                                       \
		{.name = "name",                                                                                       \
		 .kind = OPTION_STRING,                                                                                \
		 .value = "NAME",                                                                                      \
		 .offset = offsetof(struct run_opts, name),                                                            \
		 .help = "a name for the run, by which other commands find it"},                                       \
		{.name = "run-id",                                                                                     \
		 .kind = OPTION_STRING,                                                                                \
		 .value = "ID",                                                                                        \
		 .offset = offsetof(struct run_opts, run_id),                                                          \
		 .help = "the run's id (default: a new one)"},                                                         \
		{.name = "workspace",                                                                                  \
		 .kind = OPTION_STRING,                                                                                \
		 .value = "DIR",                                                                                       \
		 .offset = offsetof(struct run_opts, workspace),                                                       \
		 .help = "the folder that the workflow works in (default: the current one)"},                          \
		STORE_DIR_ROW(struct run_opts, store_dir),                                                             \
		{.name = "timeout",                                                                                    \
		 .kind = OPTION_DURATION,                                                                              \
		 .value = "TIME",                                                                                      \
		 .offset = offsetof(struct run_opts, timeout_ms),                                                      \
		 .help = "the run fails when it takes longer, such as 90s, 30m or 1h30m"},                             \
		SANDBOX_FLAG_ROWS(struct run_opts, sandbox), RESOLVE_ROW(struct run_opts, resolve),                    \
		{.name = "branch-name",                                                                                \
		 .kind = OPTION_STRING,                                                                                \
		 .value = "BRANCH",                                                                                    \
		 .offset = offsetof(struct run_opts, branch_name),                                                     \
		 .help = "with worktree: auto, the run's branch (default: iterion/run/ and the run's name or id)"},    \
		{.name = "auto-merge",                                                                                 \
		 .kind = OPTION_FLAG,                                                                                  \
		 .offset = offsetof(struct run_opts, auto_merge),                                                      \
		 .help = "merge the branch when the run finished"},                                                    \
		{.name = "merge-into",                                                                                 \
		 .kind = OPTION_STRING,                                                                                \
		 .value = "BRANCH",                                                                                    \
		 .offset = offsetof(struct run_opts, merge_into),                                                      \
		 .help = "where --auto-merge merges to (default: the branch that is checked out)"},                    \
		{.name = "merge-strategy",                                                                             \
		 .kind = OPTION_WORD,                                                                                  \
		 .value = "HOW",                                                                                       \
		 .words = worktree_strategies,                                                                         \
		 .offset = offsetof(struct run_opts, merge_strategy),                                                  \
		 .help = "how --auto-merge merges (default: merge)"},                                                  \
		{.name = "log-level",                                                                                  \
		 .kind = OPTION_WORD,                                                                                  \
		 .value = "LEVEL",                                                                                     \
		 .words = run_log_levels,                                                                              \
		 .offset = offsetof(struct run_opts, log_level),                                                       \
		 .help = "what is logged on standard error (default: warn)"},                                          \
	{                                                                                                              \
		.name = "no-interactive", .kind = OPTION_FLAG, .offset = offsetof(struct run_opts, no_interactive),    \
		.help = "never ask on the terminal"                                                                    \
	}
