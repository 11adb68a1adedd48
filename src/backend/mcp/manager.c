/* The servers of a run: made with it, found for its nodes, ended before its sandboxes. One server serves all nodes that
 * share its place (site.c); each place has its own, since two sandboxes have nothing to do with each other. */
#include "mcp_priv.h"
#include "names.h"
#include <http/http.h>
#include "../run.h"

#include <base/err.h>
#include <base/json.h>
#include <base/log.h>
#include <base/mem.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *mcp_host_value(const struct mcp_params *p, const char *name)
{
	size_t len = strlen(name);

	for (const char *const *v = p->host_env; v && *v; v++)
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
			return *v + len + 1;
	return NULL;
}

static int read_timeout(const struct mcp_params *p, const char *name, unsigned preset, unsigned *ret, struct err *e)
{
	const char *value = mcp_host_value(p, name);
	unsigned long long ms = preset;

	if (value && *value && (str_parse_duration(value, &ms) < 0 || ms == 0 || ms > INT_MAX)) {
		int r = err_set(e, ERR_USAGE, EINVAL, "%s: \"%.40s\" is no length of time", name, value);
		err_hint(e, "write it like 90s or 2m");
		return r;
	}
	*ret = (unsigned)ms;
	return 0;
}

static bool any_autoload(const struct dsl_file *f)
{
	for (size_t i = 0; i < f->n_nodes; i++)
		if (mcp_autoload(f, f->nodes[i]))
			return true;
	return false;
}

bool mcp_wanted(const struct dsl_file *f)
{
	return f->n_mcp_servers > 0 || any_autoload(f);
}

struct mcp *mcp_new(const struct mcp_params *p)
{
	struct mcp *m = xcalloc(1, sizeof *m);
	struct err *e = &m->failure;

	m->p = *p;
	mcp_host_env(m);
	mcp_specs_declared(&m->specs, p->file);
	int r = read_timeout(p, "ITERION_MCP_START_TIMEOUT", MCP_START_TIMEOUT_MS, &m->start_timeout_ms, e);
	if (r == 0)
		r = read_timeout(p, "ITERION_MCP_CALL_TIMEOUT", MCP_CALL_TIMEOUT_MS, &m->call_timeout_ms, e);
	if (r == 0 && any_autoload(p->file))
		r = mcp_specs_load(&m->specs, p->workspace, e);
	/* A failure stays in m->failure, for whoever asks. */
	if (r < 0)
		log_warn("%s", e->msg);
	m->complained = xcalloc(m->specs.n + 1, sizeof *m->complained);
	return m;
}

struct mcp *mcp_of(const struct node_task *t)
{
	return t->shared && t->agent ? backend_run_mcp(t->shared) : NULL;
}

void mcp_free(struct mcp *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n_servers; i++)
		server_free(m->servers[i]);
	free(m->servers);
	mcp_specs_done(&m->specs);
	strv_done(&m->host_env);
	free(m->complained);
	free(m);
}

static void all_stopped(void *arg)
{
	struct mcp *m = arg;

	m->stopped(m->stopped_arg);
}

static void one_stopped(void *arg)
{
	struct mcp *m = arg;

	if (--m->stopping > 0)
		return;
	/* Not before: servers end their sessions with a request. */
	if (m->http)
		http_close(m->http, all_stopped, m);
	else
		all_stopped(m);
}

static void on_idle_closed(uv_handle_t *h)
{
	one_stopped(h->data);
}

void mcp_stop(struct mcp *m, void (*done)(void *arg), void *arg)
{
	m->stopped = done;
	m->stopped_arg = arg;
	m->stopping = (unsigned)m->n_servers + 1;
	for (size_t i = 0; i < m->n_servers; i++)
		server_stop(m->servers[i], one_stopped, m);
	(void)uv_idle_init(m->p.loop, &m->idle);
	m->idle.data = m;
	uv_close((uv_handle_t *)&m->idle, on_idle_closed);
}

struct mcp_server *mcp_server_for(struct mcp *m, const struct node_task *t, const struct mcp_spec *spec, struct err *e)
{
	struct mcp_site site;

	if (mcp_site_of(m, t, spec, &site, e) < 0)
		return NULL;
	struct mcp_server *s = NULL;
	for (size_t i = 0; i < m->n_servers && !s; i++)
		if (server_is(m->servers[i], spec, site.session))
			s = m->servers[i];
	if (!s) {
		if (spec->transport != DSL_STDIO && !m->http)
			m->http = http_new(m->p.loop, m->p.host_env);
		const struct server_params sp = {
			.loop = m->p.loop,
			.spec = spec,
			.session = site.session,
			.env = site.env,
			.cwd = site.cwd,
			.http = m->http,
			.start_timeout_ms = m->start_timeout_ms,
			.on_event = m->p.on_event,
			.arg = m->p.arg,
		};
		m->servers = grow_array(m->servers, m->n_servers, &m->cap_servers, sizeof(struct mcp_server *));
		s = m->servers[m->n_servers++] = server_new(&sp);
	}
	mcp_site_done(&site);
	return s;
}

/* --- what is left out --- */

static void tell(struct mcp *m, const char *server, const char *why, const char *hint)
{
	json_t *d = json_object();

	json_put_str(d, "server", server);
	json_put_str(d, "error", why);
	json_put_str(d, "hint", hint);
	if (m->p.on_event)
		m->p.on_event(m->p.arg, "mcp_server_failed", d);
	else
		json_decref(d);
}

void mcp_left_out(struct mcp *m, const struct mcp_spec *spec, const struct err *e)
{
	size_t i = (size_t)(spec - m->specs.v);

	if (m->complained[i])
		return;
	m->complained[i] = true;
	tell(m, spec->name, e->msg, e->hint[0] ? e->hint : NULL);
}

void mcp_tell_complaints(struct mcp *m)
{
	if (m->told_project)
		return;
	m->told_project = true;
	for (size_t i = 0; i < m->specs.complaints.n; i++)
		tell(m, NULL, m->specs.complaints.v[i], "mend .mcp.json of the workspace");
}

/* --- operations --- */

void mcp_op_init(struct mcp_op *op, const struct node_task *t)
{
	op->m = mcp_of(t);
	op->t = t;
	(void)uv_timer_init(t->loop, &op->timer);
	op->timer.data = op;
}

static void on_op_closed(uv_handle_t *h)
{
	struct mcp_op *op = h->data;

	op->free(op);
}

void mcp_op_end(struct mcp_op *op)
{
	uv_close((uv_handle_t *)&op->timer, on_op_closed);
}

void mcp_cancel(struct mcp_op *op)
{
	op->cancel(op);
	mcp_op_end(op);
}
