/* What is known of a server before it starts: from the workflow file or from the project's .mcp.json. Pure, but for
 * the reading of that file. */
#pragma once

#include <base/str.h>
#include <dsl/ast.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum { MCP_SERVERS_MAX = 64, MCP_PROJECT_FILE_MAX = 1024 * 1024 };

/* Everything is its own; free with mcp_spec_done. */
struct mcp_spec {
	char *name;
	enum dsl_transport transport;
	struct strv argv;    /* stdio */
	struct strv env;     /* stdio: NAME=value */
	char *url;	     /* http, sse */
	struct strv headers; /* http, sse: "Name: value" */
	char *token;	     /* http, sse: goes into the Authorization header; a secret */
	bool sandboxed;	     /* stdio: runs inside */
	bool project;	     /* from .mcp.json: hostile */
};
void mcp_spec_done(struct mcp_spec *s);

struct mcp_specs {
	struct mcp_spec *v;
	size_t n, cap;
	struct strv complaints; /* servers of .mcp.json that were left out, and why */
};
void mcp_specs_done(struct mcp_specs *s);

/* The servers that the file declares. */
void mcp_specs_declared(struct mcp_specs *to, const struct dsl_file *f);

/* Adds the servers of a .mcp.json's text. One that is wrong is left out with a complaint, and so is one whose name is
 * taken; -EINVAL when the text as a whole is wrong. */
int mcp_specs_project(struct mcp_specs *to, const char *text, size_t len, struct err *e)
	__attribute__((warn_unused_result));
/* The same from the workspace's file. No file is no error; a symbolic link is. */
int mcp_specs_load(struct mcp_specs *to, const char *workspace, struct err *e) __attribute__((warn_unused_result));

/* A copy that can be started: checked, and with the ${NAME} and ${NAME:-default} of .mcp.json replaced from env, which
 * is never the user's whole environment. -EINVAL: it cannot be started, for example for want of a variable. */
int mcp_spec_settle(const struct mcp_spec *s, const struct strv *env, struct mcp_spec *ret, struct err *e)
	__attribute__((warn_unused_result));

/* One member of claude's "mcpServers". */
json_t *mcp_spec_claude(const struct mcp_spec *s) __attribute__((returns_nonnull));
