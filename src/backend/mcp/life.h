/* The MCP servers of a run: their life. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

struct dsl_file;
struct mcp;

struct mcp_params {
	uv_loop_t *loop;
	const struct dsl_file *file; /* must outlive it */
	const char *workspace;	     /* on the host; its .mcp.json is read when the file says autoload_project */
	const char *const *host_env; /* NULL-terminated */
	bool sandboxed;		     /* the run has a sandbox: what .mcp.json names never runs outside of it */
	/* "mcp_server_started", "mcp_server_failed"; data is taken. May be NULL. */
	void (*on_event)(void *arg, const char *type, json_t *data);
	void *arg;
};

/* Whether any node of the file could use a server, so that there is something to make. */
bool mcp_wanted(const struct dsl_file *f);

/* Reads .mcp.json and starts nothing: a server starts when the first node asks for it, and serves all nodes from then
 * on. What is wrong with the file or the environment is told to the nodes that ask. */
struct mcp *mcp_new(const struct mcp_params *p) __attribute__((returns_nonnull));

/* Ends every server (its input is closed, TERM, then KILL) and calls done, later, when nothing is left. Once, with no
 * list or call under way, and before the sessions of the nodes are stopped. */
void mcp_stop(struct mcp *m, void (*done)(void *arg), void *arg);

/* After mcp_stop's done. */
void mcp_free(struct mcp *m);
