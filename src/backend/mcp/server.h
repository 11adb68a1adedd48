/* One server of a run, in one place: started when it is first wanted, and again after it went down. */
#pragma once

#include <base/err.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct http;
struct mcp_server;
struct mcp_spec;
struct session;
struct strv;

enum { MCP_TOOLS_MAX = 1024, MCP_PAGES_MAX = 128 };

struct server_params {
	uv_loop_t *loop;
	const struct mcp_spec *spec; /* as written; outlives the server */
	struct session *session;     /* where a stdio server runs; NULL: on the host */
	const struct strv *env;	     /* of its place; copied */
	const char *cwd;	     /* NULL: the session's workspace */
	struct http *http;
	unsigned start_timeout_ms;
	void (*on_event)(void *arg, const char *type, json_t *data); /* data is taken */
	void *arg;
};

struct mcp_server *server_new(const struct server_params *p) __attribute__((returns_nonnull));
/* Whether it is this spec's, in this place. */
bool server_is(const struct mcp_server *s, const struct mcp_spec *spec, const struct session *session);
const struct mcp_spec *server_spec(const struct mcp_server *s);

/* Somebody who wants it ready; told once, from the loop. The struct is the caller's and may not move until then. */
struct server_wait {
	void (*cb)(void *arg, const struct err *e);
	void *arg;
	struct server_wait *next;
};
void server_want(struct mcp_server *s, struct server_wait *w);
void server_unwant(struct mcp_server *s, struct server_wait *w); /* one that is not waiting is fine */

/* Of a server that is ready: its tools, [{"name", "description", "input_schema", "harmless"}], names without prefix. */
json_t *server_tools(const struct mcp_server *s);
const json_t *server_tool(const struct mcp_server *s, const char *name);

/* A call under way; the caller's, as above. */
struct server_call {
	/* lost: the server went down under it. result is borrowed; NULL when e is set. An error that the server
	 * answered has kind NODE and the server's words. */
	void (*on_answer)(void *arg, const json_t *result, const struct err *e, bool lost);
	void (*on_progress)(void *arg);
	void *arg;
	int64_t id;
	struct server_call *next;
};
/* Calls a tool of a ready server. -errno: it is going down, and nobody is called. */
int server_call(struct mcp_server *s, struct server_call *c, const char *tool, json_t *input, struct err *e)
	__attribute__((warn_unused_result));
/* The answer is not wanted any more, for this reason; the server is told. One that was answered is fine. */
void server_abandon(struct mcp_server *s, struct server_call *c, const char *why);

/* Ends it, once; nobody may wait or call any more. Then it can be freed. */
void server_stop(struct mcp_server *s, void (*done)(void *arg), void *arg);
void server_free(struct mcp_server *s);
