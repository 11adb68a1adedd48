/* What agents do with the run's MCP servers: see their tools and call them. All answers come later, from the loop. */
#pragma once

#include <backend/backend.h>
#include <jansson.h>
#include <stdbool.h>

struct err;
struct mcp_op; /* a list or a call under way */

/* The tools that a node may use, as [{"name": "mcp.SERVER.TOOL", "description", "input_schema"}], or why a server that
 * the file declares could not be started. (One that only .mcp.json names and that fails is left out, with the event
 * mcp_server_failed.) tools is borrowed. Descriptions and schemas are the servers' words: hostile, but bounded. Names
 * hold dots; a provider that takes none needs names of its own. */
typedef void (*mcp_list_cb)(void *arg, json_t *tools, const struct err *e);

/* Starts the servers that the node uses and lists their tools, filtered by the node's `tools:` and `mcp:`. t is
 * borrowed until cb was called or the op cancelled, and so is t->env, which sandboxed servers start with. Returns 0, or
 * -errno and cb is never called. A run without servers: an empty list. */
int mcp_list(const struct node_task *t, mcp_list_cb cb, void *arg, struct mcp_op **ret, struct err *e)
	__attribute__((warn_unused_result));

struct mcp_result {
	const char *text;   /* all of its text; what is no text is described in words */
	json_t *content;    /* the checked blocks: {"type":"text",…}, {"type":"image","data","mimeType"}, … */
	json_t *structured; /* structuredContent, or NULL */
	bool is_error;	    /* the tool failed, and text says how: the model's business */
};

/* Of its images those that a model can be shown, png, jpeg, gif and webp, as [{"media_type", "data" (base64)}];
 * together they have at most max bytes of base64, and the others are left out. A new array. */
json_t *mcp_result_images(const struct mcp_result *r, size_t max) __attribute__((returns_nonnull));

/* r is borrowed; with e set (not started, lost, timed out) r is NULL. An agent may go on after either. */
typedef void (*mcp_call_cb)(void *arg, const struct mcp_result *r, const struct err *e);

enum { MCP_CALL_TIMEOUT_MS = 60 * 1000, MCP_START_TIMEOUT_MS = 30 * 1000 };

/* Calls a tool by its full name, when the node may use it, with an object as input (copied). timeout_ms 0: the default
 * (ITERION_MCP_CALL_TIMEOUT); progress that the server reports starts the time again, up to ten times of it in all. A
 * server that died before is started again; one that dies under the call too, and the call is repeated, once, if the
 * tool says that this is harmless (readOnlyHint or idempotentHint). t as above. */
int mcp_call(const struct node_task *t, const char *name, const json_t *input, unsigned timeout_ms, mcp_call_cb cb,
	     void *arg, struct mcp_op **ret, struct err *e) __attribute__((warn_unused_result));

/* The callback is not called any more; the server is told. The op is gone. */
void mcp_cancel(struct mcp_op *op);

/* The configuration for a program that starts the node's servers itself, where it runs: {"mcpServers": {NAME: {"type",
 * "command", "args", "env"} or {"type", "url", "headers"}}}, for a file of mode 0600 (it may hold tokens; never in
 * argv). *ret NULL: the node has none. */
int mcp_claude_config(const struct node_task *t, json_t **ret, struct err *e) __attribute__((warn_unused_result));
