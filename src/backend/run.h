/* What a backend asks of the things that the nodes of a run share. */
#pragma once

#include <backend/run.h>

struct http;
struct mcp;

/* The run's HTTP client; made when it is first asked for. */
struct http *backend_run_http(struct backend_run *b);
/* The run's MCP servers (mcp/mcp.h); NULL: it has none. */
struct mcp *backend_run_mcp(const struct backend_run *b);
/* What the run was given. */
const struct backend_run_params *backend_run_of(const struct backend_run *b);
