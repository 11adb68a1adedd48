/* What the nodes of a run share.
 *
 * Each part is made when a node first asks for it and lives until the run stops, so that a second node finds warm
 * connections, and a run that needs none pays nothing. */
#include "run.h"

#include <http/http.h>
#include "mcp/life.h"

#include <base/mem.h>

#include <stdlib.h>

struct backend_run {
	struct backend_run_params p;
	struct http *http;
	struct mcp *mcp;
	unsigned stopping; /* parts that have not ended */
	void (*stopped)(void *arg);
	void *arg;
};

struct backend_run *backend_run_new(const struct backend_run_params *p)
{
	struct backend_run *b = xcalloc(1, sizeof *b);

	b->p = *p;
	if (p->file && mcp_wanted(p->file)) {
		const struct mcp_params mp = {
			.loop = p->loop,
			.file = p->file,
			.workspace = p->workspace,
			.host_env = p->host_env,
			.sandboxed = p->sandboxed,
			.on_event = p->on_event,
			.arg = p->arg,
		};
		b->mcp = mcp_new(&mp);
	}
	return b;
}

struct http *backend_run_http(struct backend_run *b)
{
	if (!b->http)
		b->http = http_new(b->p.loop, b->p.host_env);
	return b->http;
}

struct mcp *backend_run_mcp(const struct backend_run *b)
{
	return b->mcp;
}

const struct backend_run_params *backend_run_of(const struct backend_run *b)
{
	return &b->p;
}

static void part_stopped(void *arg)
{
	struct backend_run *b = arg;

	if (--b->stopping > 0)
		return;
	void (*stopped)(void *arg) = b->stopped;
	void *its = b->arg;
	mcp_free(b->mcp);
	free(b);
	stopped(its);
}

void backend_run_stop(struct backend_run *b, void (*stopped)(void *arg), void *arg)
{
	b->stopped = stopped;
	b->arg = arg;
	b->stopping = 1;
	if (b->http) {
		b->stopping++;
		http_close(b->http, part_stopped, b);
	}
	if (b->mcp) {
		b->stopping++;
		mcp_stop(b->mcp, part_stopped, b);
	}
	part_stopped(b);
}
