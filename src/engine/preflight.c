/* What this program cannot do must be said before anything runs, not in the middle of an expensive run: kinds of nodes
 * whose backend is not there, and properties that would be left out silently. */
#include "engine_priv.h"
#include "kinds.h"

#include <backend/choose.h>
#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Nodes that the engine carries out by itself. */
static bool is_own(const struct dsl_file *f, const struct dsl_node *n)
{
	return human_is_asked(f, n) || n->kind == DSL_COMPUTE || (n->kind == DSL_ROUTER && !route_is_llm(n));
}

int preflight_backend(const struct engine_params *p, const struct dsl_node *n, const struct backend_ops **ret,
		      struct err *e)
{
	const struct backend_wish wish = {
		.node = n->backend.s, .workflow = p->file->workflow->default_backend.s, .env = p->host_env};
	const char *source;

	*ret = NULL;
	if (is_own(p->file, n))
		return 0;
	if (n->kind == DSL_TOOL) {
		*ret = &backend_tool;
		return 0;
	}
	auto_free char *name = backend_choose(&wish, &source);
	*ret = backend_find(name);
	if (*ret)
		return 0;
	int r = err_set(e, ERR_PREFLIGHT, ENOTSUP,
			"node %s: kind %s%s needs a backend that this build does not have: %s (%s)", n->name.s,
			dsl_node_kind_name(n->kind), route_is_llm(n) ? " in mode llm" : "", name, source);
	err_hint(e, "the backends are claude_code, codex and claw");
	return r;
}

const struct backend_ops *engine_backend_of(const struct dsl_file *f, const struct dsl_node *n,
					    const char *const *host_env)
{
	const struct engine_params p = {.file = f, .host_env = host_env};
	const struct backend_ops *ops;

	return preflight_backend(&p, n, &ops, NULL) == 0 ? ops : NULL;
}

/* A model that may ask a person instead of guessing needs a backend whose agents can wait for the answer. */
static int check_asking(const struct dsl_file *f, const struct dsl_node *n, const struct backend_ops *ops,
			struct err *e)
{
	int how = n->interaction.v ? n->interaction.v : f->workflow->interaction.v;

	if (n->kind != DSL_HUMAN || how != DSL_INTERACT_LLM_OR_HUMAN || str_eq(ops->name, "claw"))
		return 0;
	int r = err_set(e, ERR_PREFLIGHT, ENOTSUP,
			"node %s: interaction: llm_or_human needs the backend claw, and %s is chosen", n->name.s,
			ops->name);
	err_hint(e, "write default_backend: \"claw\" in the workflow, or `interaction: human` or `interaction: llm`");
	return r;
}

static int check_node(const struct engine_params *p, const struct dsl_node *n, struct err *e)
{
	const struct backend_ops *ops = NULL;
	int r = preflight_backend(p, n, &ops, e);

	if (r < 0 || !ops)
		return r;
	r = check_asking(p->file, n, ops, e);
	if (r < 0 || !ops->check)
		return r;
	r = ops->check(n, activity_model(n), p->host_env, e);
	return r < 0 ? err_wrap(e, r, "node %s", n->name.s) : 0;
}

static int check_file(const struct engine_params *p, struct err *e)
{
	const struct dsl_file *f = p->file;

	for (size_t i = 0; i < f->n_nodes; i++) {
		int r = check_node(p, f->nodes[i], e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_workspace(const char *dir, struct err *e)
{
	struct stat st;
	int errnum = stat(dir, &st) < 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;

	if (!errnum && access(dir, R_OK | X_OK) < 0)
		errnum = errno;
	if (!errnum)
		return 0;
	int r = err_sys(e, errnum, "workspace %s", dir);
	err_set_kind(e, ERR_INPUT);
	err_hint(e, "name an existing folder with --workspace");
	return r;
}

int preflight_check(const struct engine_params *p, struct err *e)
{
	if (p->file->n_errors || !p->file->workflow || !dsl_find_node(p->file, p->file->workflow->entry.s)) {
		int r = err_set(e, ERR_INPUT, EINVAL, "%s: the file has errors", p->file_path);
		err_hint(e, "`iterion validate %s` shows them", p->file_path);
		return r;
	}
	int r = p->run_id ? store_run_id_check(p->run_id, e) : 0;
	if (r == 0)
		r = check_workspace(p->workspace, e);
	return r < 0 ? r : check_file(p, e);
}
