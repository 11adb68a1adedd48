/* Where a server may serve a node, and what it has there.
 *
 * The author of the workflow is the user, or trusted by him: what the file declares runs on the host, beside the
 * engine, unless it says `sandboxed`. But in a run with a sandbox the workspace is its agents' to write, so nothing of
 * it may choose what runs on the host: a server there starts in the user's HOME and not in the workspace (npx and its
 * like look around where they are), its PATH does not lead into the workspace, and its command is none of its files.
 *
 * The author of .mcp.json is whoever wrote the workspace, perhaps an agent in the sandbox: in a run that has a sandbox
 * its programs run inside of it, with the node's own environment, or not at all, and it may not make this process speak
 * to a host, because that would go around the sandbox's network rules. The file is read once, before the first node
 * runs. */
#include "mcp_priv.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <driver/session.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static bool in_workspace(const struct mcp *m, const char *path)
{
	auto_free char *clean = path_clean(path);
	auto_free char *real = clean ? realpath(clean, NULL) : NULL;

	return !clean || path_within(clean, m->p.workspace) || (real && path_within(real, m->p.workspace));
}

/* The user's PATH, in a run with a sandbox without what leads into the workspace. */
static char *safe_path(const struct mcp *m, const char *path)
{
	auto_buf kept = BUF_INIT(strlen(path) + 1);

	if (!m->p.sandboxed)
		return xstrdup(path);
	for (const char *p = path; p;) {
		size_t len = strcspn(p, ":");
		auto_free char *one = xstrndup(p, len);
		if (!in_workspace(m, one))
			(void)buf_printf(&kept, "%s%s", kept.len ? ":" : "", one);
		p = p[len] ? p + len + 1 : NULL;
	}
	return buf_steal(&kept);
}

void mcp_host_env(struct mcp *m)
{
	static const char *const names[] = {"HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"};
	const char *path = mcp_host_value(&m->p, "PATH");
	auto_free char *safe = safe_path(m, path ? path : "");

	strv_set_env(&m->host_env, "PATH", *safe ? safe : default_path);
	strv_set_env(&m->host_env, "LANG", "C.UTF-8");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = mcp_host_value(&m->p, names[i]);
		if (value)
			strv_set_env(&m->host_env, names[i], value);
	}
}

/* Where a server on the host starts. */
static const char *host_cwd(const struct mcp *m)
{
	const char *home = strv_get_env(&m->host_env, "HOME");

	if (!m->p.sandboxed)
		return m->p.workspace;
	return home && *home == '/' && !in_workspace(m, home) && access(home, X_OK) == 0 ? home : "/";
}

/* A program of the workspace is whatever the last agent made of it. */
static int check_command(const struct mcp *m, const struct mcp_spec *spec, struct err *e)
{
	const char *command = spec->argv.n ? spec->argv.v[0] : "";

	if (!m->p.sandboxed || !strchr(command, '/') || !in_workspace(m, command))
		return 0;
	int r = err_set(
		e, ERR_SANDBOX, EPERM,
		"MCP server %s: its command %.200s is a file of the workspace, which the run's sandbox can change",
		spec->name, command);
	err_hint(e, "write `sandboxed: true` to run it inside, or name a program outside of the workspace");
	return r;
}

static bool isolated(const struct node_task *t)
{
	return !str_eq(session_driver(t->session), "noop");
}

static int refuse(const struct mcp_spec *s, const char *why, struct err *e)
{
	int r = err_set(e, ERR_SANDBOX, EPERM, "MCP server %s of .mcp.json: %s", s->name, why);

	err_hint(e, "declare it in the workflow (mcp_server %s:) when you trust it", s->name);
	return r;
}

/* The node's environment serves other nodes too. */
static void shared_env(const struct node_task *t, struct strv *to)
{
	for (const char *const *v = t->env; v && *v; v++)
		if (!str_starts(*v, "ITERION_NODE_ID="))
			strv_add(to, *v);
}

int mcp_site_of(const struct mcp *m, const struct node_task *t, const struct mcp_spec *spec, struct mcp_site *ret,
		struct err *e)
{
	bool inside = isolated(t);

	*ret = (struct mcp_site){.env = &m->host_env, .cwd = host_cwd(m)};
	if (spec->project && m->p.sandboxed && spec->transport != DSL_STDIO)
		return refuse(spec, "it would be reached from outside of the sandbox, past its network rules", e);
	if (spec->project && m->p.sandboxed && !inside)
		return refuse(spec, "it would run outside of the run's sandbox, where this node runs", e);
	if (spec->transport != DSL_STDIO)
		return 0;
	if (!inside || !(spec->project || spec->sandboxed))
		return check_command(m, spec, e);
	shared_env(t, &ret->own);
	*ret = (struct mcp_site){.session = t->session, .env = &ret->own, .own = ret->own};
	return 0;
}

void mcp_site_done(struct mcp_site *site)
{
	strv_done(&site->own);
}
