/* What is wrong with the sandbox blocks of a workflow file.
 *
 * The language knows the shape of a block; whether a rule compiles, a mount is safe or a spec makes sense is known to
 * the sandbox layer. `validate` and `run` ask it through here, so that both find the same and show it with its line.
 * What the host can serve is not asked: a file is right or wrong on every machine alike. */
#include "sandbox_check.h"

#include <base/mem.h>
#include <base/str.h>
#include <dsl/ast.h>
#include <sandbox/block.h>
#include <sandbox/devcontainer.h>
#include <sandbox/resolve.h>
#include <sandbox/vars.h>

#include <stdlib.h>
#include <unistd.h>

static void add(void *arg, struct dsl_pos pos, const struct err *e)
{
	struct sandbox_findings *f = arg;

	f->v = grow_array(f->v, f->n, &f->cap, sizeof *f->v);
	f->v[f->n++] = (struct sandbox_finding){.pos = pos, .err = *e};
}

/* Reads a block when there is one. Whether it can be used further. */
static bool read_block(const struct dsl_sandbox *b, const struct sandbox_vars *v, const char *origin,
		       struct sandbox_block *ret, struct sandbox_findings *f)
{
	return !b || sandbox_block_read(b, v, origin, ret, add, f) == 0;
}

/* The blocks together, as a run without flags and variables resolves them. */
static void check_spec(const struct sandbox_block *workflow, const struct sandbox_block *node, struct dsl_pos pos,
		       struct sandbox_findings *f)
{
	const struct sandbox_inputs in = {.workflow = workflow, .node = node, .builtin_image = "image"};
	auto_sandbox_resolved r = {0};
	struct err e = ERR_INIT;

	if (sandbox_resolve(&in, &r, &e) < 0 || sandbox_settle(&r, true, &e) < 0)
		add(f, pos, &e);
}

static void check_node(const struct dsl_node *n, const struct sandbox_vars *v, const struct sandbox_block *workflow,
		       bool workflow_ok, struct sandbox_findings *f)
{
	auto_sandbox_block node = {0};

	if (n->sandbox && read_block(n->sandbox, v, "node sandbox: block", &node, f) && workflow_ok)
		check_spec(workflow, &node, n->sandbox->pos, f);
}

void sandbox_check_file(const struct dsl_file *file, const char *workspace, struct sandbox_findings *ret)
{
	const struct dsl_sandbox *b = file->workflow ? file->workflow->sandbox : NULL;
	const struct sandbox_vars v = {
		.env = (const char *const *)environ,
		.workspace = workspace,
		.container_workspace = b ? b->workspace_folder.s : NULL,
	};
	auto_sandbox_block workflow = {0};

	bool ok = read_block(b, &v, "workflow sandbox: block", &workflow, ret);
	if (b && ok)
		check_spec(&workflow, NULL, b->pos, ret);
	for (size_t i = 0; i < file->n_nodes; i++)
		check_node(file->nodes[i], &v, b ? &workflow : NULL, ok, ret);
}

void sandbox_check_devcontainer(const struct dsl_file *file, const char *workspace, const char *asked,
				struct sandbox_findings *ret, struct strv *warnings)
{
	const struct dsl_sandbox *b = file->workflow ? file->workflow->sandbox : NULL;
	const struct sandbox_vars v = {
		.env = (const char *const *)environ,
		.workspace = workspace,
		.container_workspace = b ? b->workspace_folder.s : NULL,
	};
	const struct dsl_pos pos = b ? b->pos : (struct dsl_pos){.line = 1, .column = 1};
	auto_sandbox_block workflow = {0};
	auto_sandbox_block devcontainer = {0};
	struct sandbox_inputs in = {.workflow = b ? &workflow : NULL, .builtin_image = "image"};
	enum sandbox_mode mode;
	struct err e = ERR_INIT;
	bool there = false;

	/* A block that is wrong has been told. */
	if (b && sandbox_block_load(file->name, b, &v, "workflow sandbox: block", &workflow, NULL) < 0)
		return;
	if (sandbox_decide_mode(&in, &mode, NULL) < 0 || (mode != SANDBOX_AUTO && !asked))
		return;
	int r = devcontainer_take(workspace, asked, v.env, workflow.spec.workspace_folder, &devcontainer, &there, &e);
	if (r == 0 && there) {
		auto_sandbox_resolved resolved = {0};
		in.devcontainer = &devcontainer;
		in.flag.mode = mode == SANDBOX_NONE ? "auto" : NULL;
		r = sandbox_resolve(&in, &resolved, &e);
		if (r == 0)
			r = sandbox_settle(&resolved, true, &e);
		for (size_t i = 0; r == 0 && i < resolved.spec.warnings.n; i++)
			strv_add(warnings, resolved.spec.warnings.v[i]);
	}
	if (r < 0)
		add(ret, pos, &e);
}

void sandbox_findings_done(struct sandbox_findings *f)
{
	free(f->v);
	*f = (struct sandbox_findings){0};
}
