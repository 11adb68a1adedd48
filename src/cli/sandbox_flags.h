/* --sandbox and its kin: the same flags for every command that makes a sandbox. */
#pragma once

#include "command.h"

#include <sandbox/resolve.h>

struct dsl_file;
struct dsl_node;
struct err;
struct network_flags;

/* What the environment says; NULL: not set. */
struct sandbox_env {
	const char *mode;	   /* ITERION_SANDBOX_DEFAULT */
	const char *host_state;	   /* ITERION_SANDBOX_HOST_STATE */
	const char *driver;	   /* ITERION_SANDBOX_DRIVER */
	const char *default_image; /* ITERION_SANDBOX_DEFAULT_IMAGE */
};
/* This process's own; an empty variable counts as not set. */
struct sandbox_env sandbox_env_now(void);

struct sandbox_flags {
	const char *mode;	       /* NULL: not given */
	const char *driver;	       /* NULL: not given */
	const char *host_state;	       /* NULL: not given */
	const char *devcontainer;      /* NULL: not given */
	const char *default_image;     /* NULL: not given */
	const struct sandbox_env *env; /* NULL: this process's own */
	const char *project;	       /* what blocks mean by the workspace (no flag); NULL: the workspace itself */
};

extern const char *const sandbox_mode_words[];
extern const char *const host_state_words[];

#define DEVCONTAINER_ROW(type, member)                                                                                 \
	{                                                                                                              \
		.name = "devcontainer", .kind = OPTION_STRING, .value = "PATH", .offset = offsetof(type, member),      \
		.help = "the devcontainer.json of a sandbox in mode auto, or none (default: the workspace's)"          \
	}

/* Rows for a command whose options have a struct sandbox_flags as `member`. */
#define SANDBOX_FLAG_ROWS(type, member)                                                                                \
	{.name = "sandbox",                                                                                            \
	 .kind = OPTION_WORD,                                                                                          \
	 .value = "MODE",                                                                                              \
	 .words = sandbox_mode_words,                                                                                  \
	 .offset = offsetof(type, member.mode),                                                                        \
	 .help = "over the workflow's block; auto keeps a block that says more"},                                      \
		{.name = "sandbox-driver",                                                                             \
		 .kind = OPTION_STRING,                                                                                \
		 .value = "NAME",                                                                                      \
		 .offset = offsetof(type, member.driver),                                                              \
		 .help = "how the sandbox is made: docker, podman, native, or noop to run unsandboxed (default: the "  \
			 "first that answers)"},                                                                       \
		{.name = "sandbox-default-image",                                                                      \
		 .kind = OPTION_STRING,                                                                                \
		 .value = "IMAGE",                                                                                     \
		 .offset = offsetof(type, member.default_image),                                                       \
		 .help = "the image of a sandbox in mode auto when nothing else names one"},                           \
		DEVCONTAINER_ROW(type, member.devcontainer),                                                           \
	{                                                                                                              \
		.name = "sandbox-host-state", .kind = OPTION_WORD, .value = "STATE", .words = host_state_words,        \
		.offset = offsetof(type, member.host_state), .help = "what of the user's home is mounted"              \
	}

struct sandbox_choice {
	struct sandbox_resolved resolved;
	const char *driver;	   /* the one that will serve; static */
	const char *driver_reason; /* why it is this one; static */
	bool has_devcontainer;	   /* a devcontainer.json is part of it */
};

/* The sandbox that these flags, the file's block (file NULL: none) and the environment come to, and the driver that
 * will make it. network (NULL: none) comes over the block's. The caller calls sandbox_choice_done in any case. */
int sandbox_flags_resolve(const struct sandbox_flags *f, const struct network_flags *network,
			  const struct dsl_file *file, const char *workspace, struct sandbox_choice *ret, struct err *e)
	__attribute__((warn_unused_result));
/* The same for one node of the file, with its own block over the workflow's. */
int sandbox_flags_resolve_node(const struct sandbox_flags *f, const struct dsl_file *file, const struct dsl_node *node,
			       const char *workspace, struct sandbox_choice *ret, struct err *e)
	__attribute__((warn_unused_result));
/* What they come to where no file says anything: mode, host state, driver and default image, with their sources. The
 * caller calls sandbox_resolved_done. */
int sandbox_flags_defaults(const struct sandbox_flags *f, struct sandbox_resolved *ret, struct err *e)
	__attribute__((warn_unused_result));
void sandbox_choice_done(struct sandbox_choice *c);
#define auto_sandbox_choice __attribute__((cleanup(sandbox_choice_done))) struct sandbox_choice
