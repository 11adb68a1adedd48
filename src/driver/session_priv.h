/* A session's state, shared by its life (session.c) and its words (session_events.c). */
#pragma once

#include "ops.h"

#include <base/clock.h>
#include <base/id.h>
#include <driver/session.h>
#include <net/policy.h>
#include <net/proxy.h>
#include <sandbox/host_state.h>
#include <sandbox/spec.h>

enum session_state {
	SESSION_NEW,
	SESSION_STARTING,
	SESSION_RUNNING,
	SESSION_FAILED,
	SESSION_STOPPING,
	SESSION_STOPPED
};

struct secrets;
struct sources;

struct session {
	struct session_params p;
	struct sandbox_spec spec; /* a copy, with the sources of mounts resolved */
	const struct driver *driver;
	enum session_state state;
	struct sandbox_params params;
	struct sandbox *sandbox;
	struct policy *policy; /* NULL: open network */
	struct proxy *proxy;
	char token[PROXY_TOKEN_SIZE];
	uint16_t proxy_port;
	struct secrets *secrets; /* without their values; NULL: TLS is not inspected */
	size_t n_declared;	 /* the first of them are the block's, which every program gets */
	struct certificates certificates;
	char *workspace_target;
	char *home;
	struct host_state_plan host_state;
	char *hidden;		 /* of the host, or NULL */
	char *artifact_files;	 /* of the host, resolved, or NULL */
	char *attachments;	 /* the same */
	struct sources *sources; /* NULL: the driver mounts by descriptor, or all is as it should be */
	bool sandbox_started, sandbox_ready, sandbox_stopping;
	bool proxy_attached, proxy_ready, proxy_stopping;
	bool offered;	/* the policy is not enforced, by the driver's word or the sandbox's */
	bool planned;	/* nothing is made: the run and its folders do not exist */
	bool had_store; /* the workspace had a store before the sandbox */
	bool was_started, was_lost, was_killed, emit_stopped;
	uint64_t begin_ns, prepared_ns, ready_ns;
	session_done_cb start_done;
	void *start_arg;
	session_done_cb stop_done;
	void *stop_arg;
};

/* A session of which nothing is decided yet; session_free ends it. */
struct session *session_alloc(const struct session_params *p) __attribute__((returns_nonnull));
/* All that is decided before anything is made: the driver, the paths on both sides, the policy. Looks at the host and
 * changes nothing. */
int session_settle(struct session *s, struct err *e) __attribute__((warn_unused_result));
/* Whether the driver has what the spec asks for: 0, or -ENOTSUP with which field, and who asked. */
int session_check_caps(const struct session *s, struct err *e) __attribute__((warn_unused_result));
/* {mode, enforcement, rules}; [{path, reason}]. */
json_t *session_network_json(const struct session *s);
json_t *session_skipped_json(const struct session *s);

/* {code, message}: that the policy is only offered. */
json_t *session_offered_json(void);

/* Adds what every exec in it needs beside its own environment. */
void session_add_env(const struct session *s, struct strv *env);

/* Each emits one event by the session's on_event, when it has one. */
void session_emit_started(const struct session *s);
void session_emit_host_state(const struct session *s);
void session_emit_warnings(const struct session *s);
/* A program inside made a folder where a run store of the workspace would be. */
void session_emit_planted(const struct session *s, const char *path);
void session_emit_secret_blocked(const struct session *s, const struct proxy_secret_blocked *b);
void session_emit_blocked(const struct session *s, const struct proxy_blocked *b);
void session_emit_summary(const struct session *s, const struct proxy_host_total *t, size_t n);
void session_emit_stopped(const struct session *s);
