/* The driver-neutral description of a sandbox: what the workflow's block, devcontainer.json, the flags and the
 * environment come to. */
#pragma once

#include <base/str.h>
#include <net/policy.h>
#include <sandbox/lifecycle.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum sandbox_mode { SANDBOX_INHERIT, SANDBOX_NONE, SANDBOX_AUTO, SANDBOX_INLINE };
enum network_inherit { NETWORK_MERGE, NETWORK_APPEND, NETWORK_REPLACE };
enum tls_inspect { TLS_INSPECT_OFF, TLS_INSPECT_SECRETS, TLS_INSPECT_ALL };
enum host_state { HOST_STATE_UNSET, HOST_STATE_AUTO, HOST_STATE_NONE };
enum mount_type { MOUNT_BIND, MOUNT_VOLUME, MOUNT_TMPFS, MOUNT_PVC, MOUNT_CONFIGMAP, MOUNT_SECRET };

struct sandbox_mount {
	enum mount_type type;
	char *source; /* NULL for tmpfs */
	char *key;    /* of a configmap or secret: the one that is mounted, as a file; NULL: all, as a folder */
	char *target; /* absolute, clean */
	bool readonly;
	char *origin; /* a phrase: where it was asked for */
};

struct sandbox_build {
	char *dockerfile; /* NULL: no build */
	char *context;
	struct strv args; /* "KEY=value" */
	char *target;
	struct strv cache_from;
};

struct sandbox_secret {
	char *name;
	char *from; /* env:NAME, file:PATH or cmd:COMMAND */
	struct strv hosts;
};

struct sandbox_network {
	enum network_mode mode;
	struct strv presets;
	struct strv rules;
	enum network_inherit inherit; /* of a node's block; settled in a resolved spec */
	enum tls_inspect tls_inspect;
	bool strict_sni;
};

struct sandbox_limits {
	double cpus;	 /* 0: none */
	uint64_t memory; /* bytes, 0: none */
	uint64_t pids;	 /* 0: none */
};

/* All strings are owned; NULL means "not given". Freed by sandbox_spec_done. */
struct sandbox_spec {
	enum sandbox_mode mode;
	char *image;
	struct sandbox_build build;
	struct sandbox_mount *mounts;
	size_t n_mounts;
	size_t cap_mounts;
	struct strv env;	/* "NAME=value": for the container and every exec */
	struct strv remote_env; /* execs only; also "NAME": not set, and ${containerEnv:…} (sandbox/devcontainer.h) */
	char *user;
	char *workspace_folder; /* where the workspace stands inside; NULL: at its own path */
	enum host_state host_state;
	struct sandbox_lifecycle lifecycle;
	char *post_create; /* runs behind the commands of STAGE_POST_CREATE */
	struct sandbox_network network;
	struct sandbox_secret *secrets;
	size_t n_secrets;
	size_t cap_secrets;
	struct sandbox_limits limits;
	struct strv run_args;
	/* Where each decision came from, as phrases for events and people. */
	char *mode_source;
	char *host_state_source;
	struct strv sources;  /* "FIELD=phrase" for every other value that was given: image, user, env.NAME, … */
	struct strv warnings; /* "CODE=message": asked for and not honoured; each becomes an event at the start */
};

void sandbox_spec_done(struct sandbox_spec *s);
#define auto_sandbox_spec __attribute__((cleanup(sandbox_spec_done))) struct sandbox_spec

/* Fills ret (taken as empty) with a copy that shares nothing. */
void sandbox_spec_copy(struct sandbox_spec *ret, const struct sandbox_spec *from);

/* Whether both describe the same sandbox: everything but where the values came from. */
bool sandbox_spec_equal(const struct sandbox_spec *a, const struct sandbox_spec *b);

const char *sandbox_mode_name(enum sandbox_mode m);
/* Whether nobody said what the host state is to be. */
bool sandbox_host_state_is_default(const struct sandbox_spec *s);
const char *host_state_name(enum host_state s);
const char *tls_inspect_name(enum tls_inspect t);
const char *mount_type_name(enum mount_type t);
/* -EINVAL when the word is none of the names. */
int sandbox_mode_parse(const char *word, enum sandbox_mode *ret);
int host_state_parse(const char *word, enum host_state *ret);

/* Appends an empty mount or secret and returns it; the caller fills it with strings of its own. */
struct sandbox_mount *sandbox_spec_add_mount(struct sandbox_spec *s) __attribute__((returns_nonnull));
struct sandbox_secret *sandbox_spec_add_secret(struct sandbox_spec *s) __attribute__((returns_nonnull));

/* Whether the spec is valid by itself (the rules of docs/sandbox.md, "Validity"): 0, or -EINVAL with which field, why,
 * and what to write instead. host_toolchain: the driver can run the host's own programs, so that an inline spec needs
 * neither image nor build. */
int sandbox_spec_check(const struct sandbox_spec *s, bool host_toolchain, struct err *e)
	__attribute__((warn_unused_result));
