/* What this program cannot do must be said before anything runs, not in the middle of an expensive run: kinds of nodes
 * whose backend is not there, and properties that would be left out silently. */
#include "engine_priv.h"

#include <base/mem.h>
#include <dsl/sandbox_block.h>

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

const struct backend_ops *preflight_backend(const struct dsl_node *n)
{
	if (n->kind == DSL_TOOL)
		return &backend_tool;
	if (n->kind != DSL_AGENT && n->kind != DSL_JUDGE)
		return NULL;
	const struct backend_ops *ops = n->backend.s ? backend_find(n->backend.s) : NULL;
	return ops == &backend_tool ? NULL : ops;
}

/* Whether a person is asked, and nobody else. */
static bool is_asked(const struct dsl_file *f, const struct dsl_node *n)
{
	int how = n->interaction.v ? n->interaction.v : f->workflow->interaction.v;

	return n->kind == DSL_HUMAN && (how == DSL_INTERACTION_UNSET || how == DSL_INTERACT_HUMAN);
}

/* Nodes that the engine carries out by itself. */
static bool is_own(const struct dsl_file *f, const struct dsl_node *n)
{
	return is_asked(f, n) || n->kind == DSL_COMPUTE || (n->kind == DSL_ROUTER && n->mode.v != DSL_LLM);
}

static int check_node(const struct dsl_file *f, const struct dsl_node *n, struct err *e)
{
	if (!is_own(f, n) && !preflight_backend(n)) {
		int r = err_set(e, ERR_PREFLIGHT, ENOTSUP,
				"node %s: kind %s%s needs a backend that this build does not have", n->name.s,
				dsl_node_kind_name(n->kind), n->kind == DSL_ROUTER ? " in mode llm" : "");
		err_hint(e,
			 "this build runs tool and compute nodes, human nodes with interaction: human, and routers of "
			 "the modes fan_out_all, condition and round_robin");
		return r;
	}
	const struct dsl_sandbox *s = n->sandbox;
	if (!s || s->mode.v == DSL_SANDBOX_NONE || (s->short_form && s->mode.v == DSL_SANDBOX_INHERIT))
		return 0;
	int r = err_set(e, ERR_PREFLIGHT, ENOTSUP,
			"node %s: a sandbox of its own; this build runs all nodes in the run's sandbox or on the host",
			n->name.s);
	err_hint(e,
		 "move the sandbox block to the workflow, or write `sandbox: none` or `sandbox: inherit` at the node");
	return r;
}

static int check_file(const struct dsl_file *f, struct err *e)
{
	for (size_t i = 0; i < f->n_nodes; i++) {
		int r = check_node(f, f->nodes[i], e);
		if (r < 0)
			return r;
	}
	if (f->workflow->worktree.v == DSL_WORKTREE_AUTO) {
		int r = err_set(e, ERR_PREFLIGHT, ENOTSUP, "workflow %s: worktree: auto is not part of this build",
				f->workflow->name.s);
		err_hint(e, "write `worktree: none`, and run it in a git worktree that you made");
		return r;
	}
	for (size_t i = 0; i < f->n_attachments; i++) {
		if (!f->attachments[i]->required.v)
			continue;
		int r = err_set(e, ERR_PREFLIGHT, ENOTSUP,
				"attachment %s: it is required, and attachments are not part of this build",
				f->attachments[i]->name.s);
		err_hint(e, "make it optional, or pass the file's path as a variable");
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
	return r < 0 ? r : check_file(p->file, e);
}
