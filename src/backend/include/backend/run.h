/* What the backends of one run share and keep from node to node: connections to providers, tool servers. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

struct backend_run;
struct dsl_file;

/* Everything is borrowed until it was stopped. */
struct backend_run_params {
	uv_loop_t *loop;
	const struct dsl_file *file;
	const char *const *host_env; /* of the user, NULL-terminated */
	const char *workspace;	     /* on the host, absolute */
	bool sandboxed;		     /* some of its nodes run in a sandbox */
	/* An event of something shared ("mcp_server_started", …); data is taken. May be NULL. */
	void (*on_event)(void *arg, const char *type, json_t *data);
	void *arg;
};

/* Cheap: what a run does not use is never made. */
struct backend_run *backend_run_new(const struct backend_run_params *p) __attribute__((returns_nonnull));

/* Ends and frees all of it; no node may be under way. stopped is called once, at once when there is nothing to wait
 * for. */
void backend_run_stop(struct backend_run *b, void (*stopped)(void *arg), void *arg);
