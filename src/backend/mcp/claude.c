/* The servers of a node for claude, which starts them itself, where it runs: programs beside it, with the node's
 * environment, and remote ones through the network that it has. So nothing of it runs outside of its sandbox, and what
 * the sandbox lacks, a server lacks too. */
#include "mcp_priv.h"
#include "names.h"

#include <base/err.h>
#include <base/json.h>
#include <driver/session.h>

#include <errno.h>

static int add(struct mcp *m, const struct mcp_spec *spec, const struct strv *env, json_t *to, struct err *e)
{
	struct mcp_spec settled = {0};
	int r = mcp_spec_settle(spec, env, &settled, e);

	if (r == 0) {
		json_put(to, spec->name, mcp_spec_claude(&settled));
		mcp_spec_done(&settled);
	} else if (spec->project) {
		mcp_left_out(m, spec, e);
		r = 0;
	}
	return r;
}

int mcp_claude_config(const struct node_task *t, json_t **ret, struct err *e)
{
	struct mcp *m = mcp_of(t);
	auto_json servers = json_object();
	auto_strv env = {0};
	int r = 0;

	*ret = NULL;
	if (!m)
		return 0;
	if (m->failure.kind != ERR_NONE) {
		err_copy(e, &m->failure);
		return -EINVAL;
	}
	mcp_tell_complaints(m);
	for (const char *const *v = t->env; v && *v; v++)
		strv_add(&env, *v);
	bool outside = m->p.sandboxed && str_eq(session_driver(t->session), "noop");
	for (size_t i = 0; i < m->specs.n && r == 0; i++) {
		const struct mcp_spec *spec = &m->specs.v[i];
		struct err why = ERR_INIT;
		if (!mcp_server_allowed(t->agent->file, t->agent->node, spec->name, spec->project))
			continue;
		if (spec->project && outside) {
			(void)err_set(&why, ERR_SANDBOX, EPERM,
				      "MCP server %s of .mcp.json: it would run outside of the run's sandbox",
				      spec->name);
			mcp_left_out(m, spec, &why);
			continue;
		}
		r = add(m, spec, &env, servers, e);
	}
	if (r == 0 && json_object_size(servers) > 0) {
		*ret = json_object();
		json_put(*ret, "mcpServers", json_incref(servers));
	}
	return r;
}
