/* The sandbox: block of a workflow or node, as written; the sandbox layer gives it its meaning. */
#pragma once

#include <dsl/text.h>

enum dsl_sandbox_mode {
	DSL_SANDBOX_UNSET,
	DSL_SANDBOX_INHERIT,
	DSL_SANDBOX_NONE,
	DSL_SANDBOX_AUTO,
	DSL_SANDBOX_INLINE
};
enum dsl_host_state { DSL_HOST_STATE_UNSET, DSL_HOST_STATE_AUTO, DSL_HOST_STATE_NONE };
enum dsl_network_mode {
	DSL_NETWORK_UNSET,
	DSL_NETWORK_OPEN,
	DSL_NETWORK_ALLOWLIST,
	DSL_NETWORK_DENYLIST,
	DSL_NETWORK_LEARN
};
enum dsl_network_inherit { DSL_NETWORK_INHERIT_UNSET, DSL_NETWORK_MERGE, DSL_NETWORK_APPEND, DSL_NETWORK_REPLACE };
enum dsl_tls_inspect { DSL_TLS_INSPECT_UNSET, DSL_TLS_INSPECT_OFF, DSL_TLS_INSPECT_SECRETS, DSL_TLS_INSPECT_ALL };

struct dsl_secret {
	struct dsl_str name;
	struct dsl_str from; /* "env:NAME", "file:PATH", "cmd:COMMAND", as written */
	struct dsl_list hosts;
};

struct dsl_sandbox {
	struct dsl_pos pos;
	bool short_form;      /* sandbox: WORD */
	struct dsl_word mode; /* enum dsl_sandbox_mode; UNSET in a block: inline or inherit, see sandbox docs */
	struct dsl_str image;
	struct {
		struct dsl_pos pos; /* line 0: no build block */
		struct dsl_str dockerfile, context, target;
		struct dsl_map args;
	} build;
	struct dsl_list mounts;
	struct dsl_map env;
	struct dsl_str user, workspace_folder;
	struct dsl_word host_state; /* enum dsl_host_state */
	struct dsl_str post_create;
	struct {
		struct dsl_pos pos;
		struct dsl_word mode;	/* enum dsl_network_mode */
		struct dsl_list preset; /* one word or a list */
		struct dsl_list rules;
		struct dsl_word inherit;     /* enum dsl_network_inherit */
		struct dsl_word tls_inspect; /* enum dsl_tls_inspect */
		struct dsl_bool strict_sni;
	} network;
	struct dsl_secret *secrets;
	size_t n_secrets;
	struct {
		struct dsl_pos pos;
		struct dsl_num cpus;
		struct dsl_str memory; /* as written: "2g", 1073741824 */
		struct dsl_int pids;
	} limits;
};
