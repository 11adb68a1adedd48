/* What a run would use, without starting anything.
 *
 * Nothing is decided here: the spec is what sandbox_flags_resolve says for `run`, the mounts and the network are what
 * session_plan says for the session that `run` would make. What is left is to put it together, and to name what does
 * not exist before the run does: its id, and with it the folder of its files and its worktree. */
#include "sandbox_plan.h"
#include "run_opts.h"

#include <backend/backend.h>
#include <backend/share.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <driver/session.h>
#include <dsl/ast.h>
#include <dsl/node.h>
#include <dsl/sandbox_block.h>
#include <engine/engine.h>
#include <engine/worktree.h>
#include <sandbox/devcontainer.h>
#include <sandbox/spec_json.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct planner {
	const struct plan_request *q;
	struct sandbox_flags flags;
	bool isolated;	       /* the run has a sandbox */
	struct worktree *tree; /* NULL: the run works in the workspace itself */
	char *artifact_files;  /* NULL: there is no run */
	char *attachments;     /* NULL: none were given */
};

static void planner_done(struct planner *p)
{
	worktree_free(p->tree);
	free(p->artifact_files);
	free(p->attachments);
}

/* With `worktree: auto` nodes work in a tree of the run's own. */
static int plan_tree(struct planner *p, struct err *e)
{
	const struct run_opts *o = p->q->opts;
	const struct dsl_file *f = p->q->file;
	const struct worktree_params wp = {
		.workspace = p->q->workspace,
		.store_dir = p->q->store_dir,
		.run_id = p->q->run_id,
		.run_name = o->name,
		.host_env = (const char *const *)environ,
		.branch = o->branch_name,
		.auto_merge = o->auto_merge,
		.merge_into = o->merge_into,
		.merge_strategy = o->merge_strategy,
	};
	bool wanted = f && f->workflow && f->workflow->worktree.v == DSL_WORKTREE_AUTO;

	int r = worktree_check_flags(&wp, wanted, e);
	return r == 0 && wanted ? worktree_plan(&wp, &p->tree, e) : r;
}

static void set(struct strv *env, const char *name, const char *value)
{
	strv_set_env(env, name, value ? value : "");
}

static void set_from_host(struct strv *env, const char *name)
{
	if (getenv(name))
		set(env, name, "");
}

static void add_list(struct strv *env, const struct strv *list)
{
	for (size_t i = 0; i < list->n; i++) {
		auto_free char *name = xstrndup(list->v[i], strcspn(list->v[i], "="));
		if (list->v[i][strlen(name)])
			set(env, name, list->v[i] + strlen(name) + 1);
	}
}

/* What a tool node of a run finds of the run, or a program of `sandbox exec` of the host. */
static void add_own_names(const struct planner *p, struct strv *env)
{
	static const char *const of_run[] = {"ITERION_RUN_ID", "ITERION_WORKFLOW", "ITERION_NODE_ID",
					     "ITERION_WORKSPACE", "ITERION_ARTIFACT_FILES_DIR"};

	for (size_t k = 0; p->q->file && k < ARRAY_LEN(of_run); k++)
		set(env, of_run[k], "");
	if (p->q->file && p->q->opts->name)
		set(env, "ITERION_RUN_NAME", "");
	if (!p->q->file) {
		set_from_host(env, "LOGNAME");
		set_from_host(env, "LC_ALL");
	}
}

/* The names that a program finds, and the values that the spec gives to some of them. */
static json_t *env_json(const struct planner *p, const struct sandbox_spec *spec, const json_t *session)
{
	auto_strv env = {0};
	auto_strv shown = {0};
	size_t i;
	json_t *name;

	set(&env, "PATH", getenv("PATH"));
	set(&env, "HOME", json_get_str(session, "home"));
	set_from_host(&env, "USER");
	set(&env, "LANG", getenv("LANG"));
	set(&env, "TERM", getenv("TERM"));
	set_from_host(&env, "TZ");
	if (spec->mode != SANDBOX_NONE) {
		add_list(&env, &spec->env);
		devcontainer_apply_remote_env(&env, &spec->remote_env);
	}
	for (size_t k = 0; k < env.n; k++) {
		auto_free char *known = xstrndup(env.v[k], strcspn(env.v[k], "="));
		if (strv_get_env(&spec->env, known) || strv_get_env(&spec->remote_env, known))
			strv_add(&shown, env.v[k]);
	}
	add_own_names(p, &env);
	json_array_foreach(json_object_get(session, "proxy_env"), i, name)
	{
		if (!strv_get_env(&env, json_string_value(name)))
			set(&env, json_string_value(name), "");
	}
	return plan_env_json(&env, &shown);
}

/* The file as the reference tool reads it. What the sandbox takes of it is in the spec. */
static int add_devcontainer(const struct planner *p, json_t *to, struct err *e)
{
	auto_devcontainer_file file = {0};
	auto_devcontainer d = NULL;
	const char *asked = p->flags.devcontainer;

	int r = asked ? devcontainer_read(p->q->workspace, asked, &file, e)
		      : devcontainer_find(p->q->workspace, &file, e);
	if (r < 0 || !file.path)
		return r;
	const struct devcontainer_params dp = {
		.workspace = p->q->workspace,
		.path = file.path,
		.env = (const char *const *)environ,
	};
	r = devcontainer_load(&dp, file.text, file.len, &d, e);
	if (r < 0)
		return r;
	json_t *out = json_object();
	json_put_str(out, "path", file.path);
	json_put(out, "configuration", devcontainer_configuration(d));
	json_put(to, "devcontainer", out);
	return 0;
}

static void take(json_t *to, json_t *from, const char *key)
{
	json_put(to, key, json_incref(json_object_get(from, key)));
}

static void add_warnings(json_t *to, const struct sandbox_spec *spec, const char *driver, json_t *session)
{
	json_t *list = sandbox_warnings_json(spec);

	if (str_eq(driver, "noop") && spec->mode != SANDBOX_NONE) {
		json_t *w = json_object();
		json_put_str(w, "code", "nothing_isolated");
		json_put_str(w, "message", "the noop driver was asked for: programs run on the host");
		(void)json_array_append_new(list, w);
	}
	(void)json_array_extend(list, json_object_get(session, "warnings"));
	json_put(to, "warnings", list);
}

/* What git needs of a worktree, which does not exist yet and so cannot be looked at. */
static void fill_tree(const struct planner *p, struct sandbox_spec *spec, json_t *ret_mounts)
{
	size_t kept = spec->n_mounts;

	worktree_fill_spec(p->tree, spec);
	for (size_t i = kept; i < spec->n_mounts; i++) {
		struct sandbox_mount *m = &spec->mounts[i];
		if (path_within(m->source, worktree_path(p->tree))) {
			json_t *j = json_object();
			json_put_str(j, "type", mount_type_name(m->type));
			json_put_str(j, "source", m->source);
			json_put_str(j, "target", m->target);
			json_put_bool(j, "readonly", m->readonly);
			json_put_str(j, "origin", m->origin ? m->origin : "worktree");
			(void)json_array_append_new(ret_mounts, j);
			free(m->source);
			free(m->target);
			free(m->origin);
		} else {
			spec->mounts[kept++] = *m;
		}
	}
	spec->n_mounts = kept;
}

static const struct backend_ops *backend_of(const struct planner *p, const struct dsl_node *n)
{
	return engine_backend_of(p->q->file, n, (const char *const *)environ);
}

/* Whether the program of its backend has a sandbox of its own, so that the run's is not used. */
static bool is_on_host(const struct planner *p, const struct dsl_node *n)
{
	const struct backend_ops *ops = backend_of(p, n);

	return p->isolated && !n->sandbox && ops && ops->on_host && ops->on_host((const char *const *)environ);
}

/* Where agents' programs are, for the nodes of this sandbox: those of one node, or all that have none of their own. */
static void share_programs(const struct planner *p, const struct dsl_node *node, const char *driver,
			   struct sandbox_spec *spec)
{
	const struct dsl_file *f = p->q->file;

	for (size_t i = 0; f && str_eq(driver, "native") && i < f->n_nodes; i++) {
		const struct dsl_node *n = f->nodes[i];
		const struct backend_ops *ops = backend_of(p, n);
		if (ops && (node ? n == node : !n->sandbox && !is_on_host(p, n)))
			backend_share_program(ops, (const char *const *)environ, p->q->workspace, spec);
	}
}

static int plan_session(const struct planner *p, const struct sandbox_choice *c, const struct dsl_node *node,
			json_t **ret, struct err *e)
{
	auto_sandbox_spec spec = {0};
	auto_json tree_mounts = json_array();
	const char *home = getenv("HOME");

	sandbox_spec_copy(&spec, &c->resolved.spec);
	if (p->tree && spec.mode != SANDBOX_NONE && !str_eq(c->driver, "noop"))
		fill_tree(p, &spec, tree_mounts);
	share_programs(p, node, c->driver, &spec);
	const struct session_params sp = {
		.spec = &spec,
		.driver = c->driver,
		.workspace = p->tree ? worktree_workspace(p->tree) : p->q->workspace,
		.run_id = p->q->run_id,
		.run_name = p->q->opts->name,
		.store_dir = p->q->store_dir,
		.artifact_files = p->artifact_files,
		.attachments = p->attachments,
		.home = home && home[0] == '/' ? home : NULL,
		.resolve = (const char *const *)p->q->opts->resolve.v,
	};
	int r = session_plan(&sp, ret, e);
	if (r == 0)
		(void)json_array_extend(json_object_get(*ret, "mounts"), tree_mounts);
	return r;
}

static int describe(const struct planner *p, const struct sandbox_choice *c, const struct dsl_node *node, json_t *to,
		    struct err *e)
{
	const struct sandbox_spec *spec = &c->resolved.spec;
	auto_json session = NULL;

	int r = plan_session(p, c, node, &session, e);
	if (r < 0)
		return r;
	json_t *s = sandbox_spec_json(spec);
	json_put(s, "workspace_folder", json_incref(json_object_get(session, "workspace_folder")));
	plan_hide_values(json_object_get(s, "env"));
	plan_hide_values(json_object_get(s, "remote_env"));
	plan_hide_values(json_object_get(json_object_get(s, "build"), "args"));
	json_put_str(to, "driver", c->driver);
	json_put_str(to, "driver_reason", c->driver_reason);
	json_put_str(to, "mode", sandbox_mode_name(spec->mode));
	json_put_str(to, "source", spec->mode_source);
	json_put(to, "spec", s);
	take(to, session, "mounts");
	take(to, session, "skipped");
	json_put(to, "env", env_json(p, spec, session));
	take(to, session, "network");
	if (json_array_size(json_object_get(session, "limits")))
		take(to, session, "limits");
	add_warnings(to, spec, c->driver, session);
	return c->has_devcontainer ? add_devcontainer(p, to, e) : 0;
}

/* As if the node's block said none. */
static void choose_host(const struct planner *p, const struct dsl_node *n, struct sandbox_choice *ret)
{
	*ret = (struct sandbox_choice){.driver = "noop", .driver_reason = "no sandbox is asked for"};
	ret->resolved.spec.mode = SANDBOX_NONE;
	ret->resolved.spec.host_state = HOST_STATE_NONE;
	ret->resolved.spec.mode_source =
		xasprintf("backend %s runs on the host, in a sandbox of its own", backend_of(p, n)->name);
}

static int plan_node(const struct planner *p, const struct dsl_node *n, json_t *nodes, struct err *e)
{
	auto_sandbox_choice c = {0};
	json_t *one = json_object();
	int r = 0;

	json_put(nodes, n->name.s, one);
	if (n->sandbox)
		r = sandbox_flags_resolve_node(&p->flags, p->q->file, n, p->q->workspace, &c, e);
	else
		choose_host(p, n, &c);
	return r < 0 ? r : describe(p, &c, n, one, e);
}

/* Nodes that are not in the run's sandbox. */
static int add_nodes(const struct planner *p, json_t *doc, struct err *e)
{
	const struct dsl_file *f = p->q->file;
	auto_json nodes = json_object();
	int r = 0;

	for (size_t i = 0; r == 0 && f && i < f->n_nodes; i++)
		if (f->nodes[i]->sandbox || is_on_host(p, f->nodes[i]))
			r = plan_node(p, f->nodes[i], nodes, e);
	if (r == 0 && json_object_size(nodes))
		json_put(doc, "nodes", json_incref(nodes));
	return r;
}

static int plan(struct planner *p, json_t *doc, struct err *e)
{
	const struct plan_request *q = p->q;
	auto_sandbox_choice c = {0};

	int r = sandbox_flags_resolve(&p->flags, NULL, q->file, q->workspace, &c, e);
	if (r == 0)
		r = plan_tree(p, e);
	p->isolated = c.resolved.spec.mode != SANDBOX_NONE;
	if (r == 0)
		r = describe(p, &c, NULL, doc, e);
	return r < 0 ? r : add_nodes(p, doc, e);
}

int sandbox_plan_make(const struct plan_request *q, json_t **ret, struct err *e)
{
	__attribute__((cleanup(planner_done))) struct planner p = {.q = q, .flags = q->opts->sandbox};
	auto_json doc = json_object();
	auto_strv names = {0};

	if (!q->file && !p.flags.mode)
		p.flags.mode = "auto";
	p.flags.project = q->project;
	if (q->file)
		p.artifact_files = xasprintf("%s/runs/%s/artifact-files", q->store_dir, q->run_id);
	if (q->file && q->opts->attachments.n)
		p.attachments = xasprintf("%s/runs/%s/attachments", q->store_dir, q->run_id);
	int r = plan(&p, doc, e);
	if (r < 0)
		return r;
	if (!q->opts->run_id)
		strv_set_env(&names, "RUN", q->run_id);
	plan_redact(doc, &names);
	*ret = TAKE_PTR(doc);
	return 0;
}
