/* Reading a workflow file for a command: the bytes once (their sha-256 and the parser must see the same), both steps of
 * the language's front end, then the sandbox blocks. The environment is looked at here and not in the libraries. */
#include "workflow.h"
#include "output.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/check.h>
#include <dsl/diag.h>
#include <dsl/parse.h>
#include <engine/worktree.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>

enum { MAX_FINDINGS = 16 * 1024 * 1024 };

/* The names of folders that sandbox blocks may use are the sandbox layer's to replace: here they stay as written. */
static const char *from_environment(void *arg, const char *name)
{
	static const char *const later[][2] = {
		{"localWorkspaceFolder", "${localWorkspaceFolder}"},
		{"localWorkspaceFolderBasename", "${localWorkspaceFolderBasename}"},
		{"containerWorkspaceFolder", "${containerWorkspaceFolder}"},
		{"containerWorkspaceFolderBasename", "${containerWorkspaceFolderBasename}"},
	};

	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(later); i++)
		if (str_eq(later[i][0], name))
			return later[i][1];
	return getenv(name);
}

static int read_source(const char *path, struct workflow *w, struct err *e)
{
	int r = file_read(AT_FDCWD, path, DSL_FILE_MAX, &w->source, &w->len, e);

	if (r >= 0)
		return 0;
	err_set_kind(e, ERR_INPUT);
	if (r == -ENOENT || r == -ENOTDIR)
		err_hint(e, "Check the path; a relative one starts at the current folder. Workflow files end in .bot.");
	else if (r == -EACCES)
		err_hint(e, "Make the file readable for you (chmod u+r), or run as its owner.");
	else if (r == -EISDIR)
		err_hint(e, "Name a workflow file in the folder, such as main.bot.");
	else if (r == -EFBIG)
		err_hint(e, "A workflow is a text file of a few thousand lines at most: is it the right file?");
	else
		err_hint(e, "Name a regular file that holds a workflow.");
	return r;
}

int workflow_read(const char *path, const char *workspace, struct workflow *ret, struct err *e)
{
	const struct dsl_env env = {.get = from_environment, .project_dir = workspace};
	int r = read_source(path, ret, e);

	if (r < 0)
		return r;
	/* Both steps report in the file's list of findings; the second leaves out what the first made unknowable. */
	r = dsl_parse(path, ret->source, ret->len, &env, &ret->file);
	(void)dsl_check(ret->file, NULL);
	if (r == 0)
		sandbox_check_file(ret->file, workspace, &ret->sandbox);
	return 0;
}

size_t workflow_errors(const struct workflow *w)
{
	return w->file->n_errors + w->sandbox.n;
}

size_t workflow_warnings(const struct workflow *w)
{
	return w->file->n_warnings;
}

/* A finding about a sandbox block in the form of the language's own. */
static struct dsl_diag as_diag(const struct sandbox_finding *f)
{
	return (struct dsl_diag){
		.code = "C044",
		.severity = DSL_ERROR,
		.pos = f->pos,
		.message = f->err.msg,
		.hint = f->err.hint[0] ? f->err.hint : NULL,
	};
}

void workflow_findings(const struct workflow *w, struct buf *to)
{
	int r = dsl_diags_format(to, w->file);

	for (size_t i = 0; r == 0 && i < w->sandbox.n; i++) {
		const struct dsl_diag d = as_diag(&w->sandbox.v[i]);
		r = dsl_diag_format(to, w->file, &d);
	}
}

json_t *workflow_findings_json(const struct workflow *w)
{
	json_t *doc = dsl_diags_json(w->file);
	json_t *list = json_object_get(doc, "diagnostics");

	for (size_t i = 0; i < w->sandbox.n; i++) {
		const struct dsl_diag d = as_diag(&w->sandbox.v[i]);
		json_t *j = json_object();
		json_put_str(j, "code", d.code);
		json_put_str(j, "severity", "error");
		json_put_int(j, "line", d.pos.line);
		json_put_int(j, "column", d.pos.column);
		json_put_str(j, "message", d.message);
		json_put_str(j, "hint", d.hint);
		(void)json_array_append_new(list, j);
	}
	json_put_bool(doc, "ok", workflow_errors(w) == 0);
	return doc;
}

/* Shows the findings; an error among them is one of the command. */
static int refuse_errors(const char *path, const struct workflow *w, struct err *e)
{
	auto_buf findings = BUF_INIT(MAX_FINDINGS);
	size_t n = workflow_errors(w);

	workflow_findings(w, &findings);
	show_text(buf_str(&findings));
	if (n == 0)
		return 0;
	int r = err_set(e, ERR_INPUT, EINVAL, "read %s: the workflow has %zu error%s, shown above", path, n,
			n == 1 ? "" : "s");
	err_hint(e, "Mend the file; `iterion validate %s` checks it without running anything.", path);
	return r;
}

int workflow_load(const char *path, const char *workspace, struct workflow *ret, struct err *e)
{
	int r = workflow_read(path, workspace, ret, e);

	return r < 0 ? r : refuse_errors(path, ret, e);
}

int workflow_load_run(const char *path, const char *workspace, const char *store_dir, const char *run_id,
		      struct workflow *ret, struct err *e)
{
	int r = workflow_read(path, workspace, ret, e);

	if (r < 0)
		return r;
	/* Variables are replaced while the file is read, so it is read again once it is known what they mean. */
	if (ret->file->workflow && ret->file->workflow->worktree.v == DSL_WORKTREE_AUTO) {
		char *project = worktree_place(store_dir, run_id, workspace);
		workflow_done(ret);
		r = workflow_read(path, project, ret, e);
		ret->project = project;
	}
	return r < 0 ? r : refuse_errors(path, ret, e);
}

void workflow_done(struct workflow *w)
{
	sandbox_findings_done(&w->sandbox);
	dsl_file_free(w->file);
	free(w->source);
	free(w->project);
	*w = (struct workflow){0};
}
