/* Names of servers and tools, and which of them a node may use. Pure. */
#pragma once

#include <dsl/ast.h>
#include <stdbool.h>
#include <stddef.h>

enum { MCP_SERVER_NAME_MAX = 64, MCP_TOOL_NAME_MAX = 128 };

/* [A-Za-z0-9_-]: what can stand between the dots of mcp.SERVER.TOOL. */
bool mcp_server_name_good(const char *name);
/* [A-Za-z0-9_.-/]. */
bool mcp_tool_name_good(const char *name);

/* "mcp.SERVER.TOOL" taken apart; tool points into full. False when it is none. */
bool mcp_name_split(const char *full, char server[MCP_SERVER_NAME_MAX + 1], const char **ret_tool);

/* Whether a pattern (* stands for any text) matches the whole of a text; in time that grows with both lengths. */
bool mcp_pattern_matches(const char *pattern, const char *text);

/* Whether the node's `tools:` (no list: everything) and its `mcp: disable:`, and the workflow's, leave the tool. */
bool mcp_tool_allowed(const struct dsl_file *f, const struct dsl_node *n, const char *full);

/* Whether the node can use any tool of this server. project: it stands in .mcp.json and not in the file. */
bool mcp_server_allowed(const struct dsl_file *f, const struct dsl_node *n, const char *server, bool project);

/* Whether the node, or the workflow for it, says autoload_project. */
bool mcp_autoload(const struct dsl_file *f, const struct dsl_node *n);
