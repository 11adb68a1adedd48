/* The tools that a node may use: its servers are started at once, and when the last is ready (or has failed) there is
 * the list. */
#include "mcp_priv.h"
#include "names.h"

#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>

struct part {
	struct list *list;
	struct mcp_server *server;
	struct server_wait wait;
	json_t *tools; /* NULL: not told yet, or it failed */
};

struct list {
	struct mcp_op op;
	mcp_list_cb cb;
	void *arg;
	struct part *parts;
	size_t n;
	size_t waiting;
};

static void free_list(struct mcp_op *op)
{
	struct list *l = (struct list *)op;

	for (size_t i = 0; i < l->n; i++)
		json_decref(l->parts[i].tools);
	free(l->parts);
	free(l);
}

static void cancel(struct mcp_op *op)
{
	struct list *l = (struct list *)op;

	for (size_t i = 0; i < l->n; i++)
		server_unwant(l->parts[i].server, &l->parts[i].wait);
}

static void add_tools(const struct list *l, const struct part *p, json_t *to)
{
	const struct agent_task *a = l->op.t->agent;
	size_t i;
	json_t *tool;

	json_array_foreach(p->tools, i, tool)
	{
		char *full = xasprintf("mcp.%s.%s", server_spec(p->server)->name, json_get_str(tool, "name"));
		if (mcp_tool_allowed(a->file, a->node, full)) {
			json_t *o = json_object();
			json_put_str(o, "name", full);
			json_put(o, "description", json_incref(json_object_get(tool, "description")));
			json_put(o, "input_schema", json_incref(json_object_get(tool, "input_schema")));
			(void)json_array_append_new(to, o);
		}
		free(full);
	}
}

static void finish(struct list *l, const struct err *e)
{
	json_t *tools = e ? NULL : json_array();

	for (size_t i = 0; i < l->n && !e; i++)
		add_tools(l, &l->parts[i], tools);
	l->cb(l->arg, tools, e);
	json_decref(tools);
	mcp_op_end(&l->op);
}

static void on_server(void *arg, const struct err *e)
{
	struct part *p = arg;
	struct list *l = p->list;

	l->waiting--;
	if (!e)
		p->tools = json_incref(server_tools(p->server));
	if (e && !server_spec(p->server)->project) {
		cancel(&l->op);
		finish(l, e);
		return;
	}
	/* A start that failed has its event already. */
	if (l->waiting == 0)
		finish(l, NULL);
}

static void on_timer(uv_timer_t *timer)
{
	finish(timer->data, NULL);
}

/* The servers that serve the node; -errno when one that the file declares may not. */
static int collect(struct list *l, struct err *e)
{
	struct mcp *m = l->op.m;
	const struct agent_task *a = l->op.t->agent;

	l->parts = xcalloc(m->specs.n + 1, sizeof *l->parts);
	for (size_t i = 0; i < m->specs.n; i++) {
		const struct mcp_spec *spec = &m->specs.v[i];
		struct err why = ERR_INIT;
		if (!mcp_server_allowed(a->file, a->node, spec->name, spec->project))
			continue;
		struct mcp_server *s = mcp_server_for(m, l->op.t, spec, &why);
		if (!s && !spec->project) {
			err_copy(e, &why);
			return -EPERM;
		}
		if (!s) {
			mcp_left_out(m, spec, &why);
			continue;
		}
		struct part *p = &l->parts[l->n++];
		*p = (struct part){.list = l, .server = s, .wait = {.cb = on_server, .arg = p}};
	}
	return 0;
}

int mcp_list(const struct node_task *t, mcp_list_cb cb, void *arg, struct mcp_op **ret, struct err *e)
{
	struct mcp *m = mcp_of(t);

	if (m && m->failure.kind != ERR_NONE) {
		err_copy(e, &m->failure);
		return -EINVAL;
	}
	struct list *l = xcalloc(1, sizeof *l);
	*l = (struct list){.op = {.cancel = cancel, .free = free_list}, .cb = cb, .arg = arg};
	mcp_op_init(&l->op, t);
	int r = 0;
	if (m) {
		mcp_tell_complaints(m);
		r = collect(l, e);
	}
	if (r < 0) {
		mcp_op_end(&l->op);
		return r;
	}
	l->waiting = l->n;
	for (size_t i = 0; i < l->n; i++)
		server_want(l->parts[i].server, &l->parts[i].wait);
	if (l->n == 0)
		(void)uv_timer_start(&l->op.timer, on_timer, 0, 0);
	*ret = &l->op;
	return 0;
}
