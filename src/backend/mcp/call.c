/* One call of a tool: the server is made ready, the call sent, the answer waited for.
 *
 * A server that goes down under a call leaves open whether the tool did its work. The call is sent again, once, only
 * when the tool said of itself that this is harmless; otherwise the agent is told, and decides. */
#include "mcp_priv.h"
#include "names.h"
#include "result.h"

#include <base/clock.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>

enum { PROGRESS_FACTOR = 10 };

struct call {
	struct mcp_op op;
	mcp_call_cb cb;
	void *arg;
	struct mcp_server *server;
	char *tool;
	json_t *input;
	unsigned timeout_ms;
	uint64_t last_ms; /* when it ends whatever progress there is; 0: not sent yet */
	bool harmless, repeated;
	struct server_wait wait;
	struct server_call sent;
};

static void free_call(struct mcp_op *op)
{
	struct call *c = (struct call *)op;

	free(c->tool);
	json_decref(c->input);
	free(c);
}

static void cancel(struct mcp_op *op)
{
	struct call *c = (struct call *)op;

	server_unwant(c->server, &c->wait);
	server_abandon(c->server, &c->sent, "it was cancelled");
}

static void finish(struct call *c, const struct mcp_result *r, const struct err *e)
{
	c->cb(c->arg, r, e);
	mcp_op_end(&c->op);
}

static void on_timeout(uv_timer_t *timer)
{
	struct call *c = timer->data;
	struct err e = ERR_INIT;

	server_abandon(c->server, &c->sent, "it took too long");
	(void)err_set(&e, ERR_NODE, ETIMEDOUT, "MCP server %s: %s did not answer within %.1f s",
		      server_spec(c->server)->name, c->tool, c->timeout_ms / 1000.0);
	err_hint(&e, "ask for less, or give such calls more time with ITERION_MCP_CALL_TIMEOUT (now %gs)",
		 c->timeout_ms / 1000.0);
	finish(c, NULL, &e);
}

static void on_progress(void *arg)
{
	struct call *c = arg;
	uint64_t now = clock_ms(), left = c->last_ms > now ? c->last_ms - now : 0;

	(void)uv_timer_start(&c->op.timer, on_timeout, MIN(left, (uint64_t)c->timeout_ms), 0);
}

static void lost(struct call *c, const struct err *e)
{
	struct err why = *e;

	why.hint[0] = '\0';
	(void)err_wrap(&why, -1, "call %s", c->tool);
	err_hint(&why, "whether the tool did its work is not known; the server starts again with the next call");
	finish(c, NULL, &why);
}

static void on_answer(void *arg, const json_t *result, const struct err *e, bool was_lost)
{
	struct call *c = arg;
	struct mcp_result r = {0};
	struct err bad = ERR_INIT;

	(void)uv_timer_stop(&c->op.timer);
	if (was_lost && c->harmless && !c->repeated) {
		c->repeated = true;
		server_want(c->server, &c->wait);
		return;
	}
	if (was_lost) {
		lost(c, e);
		return;
	}
	if (e)
		mcp_result_failure(e->msg, &r);
	else if (mcp_result_read(server_spec(c->server)->name, result, &r, &bad) < 0) {
		finish(c, NULL, &bad);
		return;
	}
	finish(c, &r, NULL);
	mcp_result_done(&r);
}

static void no_tool(const struct call *c, struct err *e)
{
	(void)err_set(e, ERR_INPUT, ENOENT, "MCP server %s: it has no tool %s", server_spec(c->server)->name, c->tool);
	err_hint(e, "call one of the tools that were listed");
}

static void on_ready(void *arg, const struct err *failed)
{
	struct call *c = arg;
	struct err e = ERR_INIT;

	if (failed) {
		finish(c, NULL, failed);
		return;
	}
	const json_t *tool = server_tool(c->server, c->tool);
	if (!tool) {
		no_tool(c, &e);
		finish(c, NULL, &e);
		return;
	}
	c->harmless = json_is_true(json_object_get(tool, "harmless"));
	c->sent = (struct server_call){.on_answer = on_answer, .on_progress = on_progress, .arg = c};
	if (server_call(c->server, &c->sent, c->tool, c->input, &e) < 0) {
		finish(c, NULL, &e);
		return;
	}
	c->last_ms = clock_ms() + (uint64_t)c->timeout_ms * PROGRESS_FACTOR;
	(void)uv_timer_start(&c->op.timer, on_timeout, c->timeout_ms, 0);
}

static const struct mcp_spec *find(const struct mcp *m, const struct agent_task *a, const char *name,
				   const char **ret_tool)
{
	char server[MCP_SERVER_NAME_MAX + 1];

	if (!m || !a || !mcp_name_split(name, server, ret_tool) || !mcp_tool_allowed(a->file, a->node, name))
		return NULL;
	for (size_t i = 0; i < m->specs.n; i++) {
		const struct mcp_spec *s = &m->specs.v[i];
		if (str_eq(s->name, server))
			return mcp_server_allowed(a->file, a->node, server, s->project) ? s : NULL;
	}
	return NULL;
}

int mcp_call(const struct node_task *t, const char *name, const json_t *input, unsigned timeout_ms, mcp_call_cb cb,
	     void *arg, struct mcp_op **ret, struct err *e)
{
	const char *tool;
	struct mcp *m = mcp_of(t);
	const struct mcp_spec *spec = find(m, t->agent, name, &tool);

	if (!spec) {
		int r = err_set(e, ERR_INPUT, ENOENT, "call %.200s: the node has no such tool", name);
		err_hint(e, "call one of the tools that were listed");
		return r;
	}
	if (!json_is_object(input)) {
		int r = err_set(e, ERR_INPUT, EINVAL, "call %s: its input is no object", name);
		err_hint(e, "give the input as the tool's schema says");
		return r;
	}
	struct mcp_server *server = mcp_server_for(m, t, spec, e);
	if (!server)
		return -EPERM;
	struct call *c = xcalloc(1, sizeof *c);
	*c = (struct call){
		.op = {.cancel = cancel, .free = free_call},
		.cb = cb,
		.arg = arg,
		.server = server,
		.tool = xstrdup(tool),
		.input = json_deep_copy(input),
		.timeout_ms = timeout_ms ? timeout_ms : m->call_timeout_ms,
		.wait = {.cb = on_ready, .arg = c},
	};
	mcp_op_init(&c->op, t);
	server_want(server, &c->wait);
	*ret = &c->op;
	return 0;
}
