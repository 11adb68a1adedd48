/* Reading a workflow file for a command: the bytes once (their sha-256 and the parser must see the same), then both
 * steps of the language's front end. The environment is looked at here and not in the language's library. */
#include "workflow.h"
#include "output.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/file.h>
#include <base/str.h>
#include <dsl/check.h>
#include <dsl/diag.h>
#include <dsl/parse.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>

static const char *from_environment(void *arg, const char *name)
{
	(void)arg;
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

int workflow_read(const char *path, const char *project_dir, struct workflow *ret, struct err *e)
{
	const struct dsl_env env = {.get = from_environment, .project_dir = project_dir};
	int r = read_source(path, ret, e);

	if (r < 0)
		return r;
	/* Both steps report in the file's list of findings; the second leaves out what the first made unknowable. */
	(void)!dsl_parse(path, ret->source, ret->len, &env, &ret->file);
	(void)dsl_check(ret->file, NULL);
	return 0;
}

int workflow_load(const char *path, const char *project_dir, struct workflow *ret, struct err *e)
{
	int r = workflow_read(path, project_dir, ret, e);

	if (r < 0)
		return r;
	const struct dsl_file *f = ret->file;
	auto_buf findings = BUF_INIT(16 * 1024 * 1024);
	/* Beyond the limit the rest is left out: nobody reads that much. */
	(void)dsl_diags_format(&findings, f);
	print_text(buf_str(&findings));
	if (!f->n_errors)
		return 0;
	r = err_set(e, ERR_INPUT, EINVAL, "read %s: the workflow has %zu error%s, shown above", path, f->n_errors,
		    f->n_errors == 1 ? "" : "s");
	err_hint(e, "Mend the file; `iterion validate %s` checks it without running anything.", path);
	return r;
}

void workflow_done(struct workflow *w)
{
	dsl_file_free(w->file);
	free(w->source);
	*w = (struct workflow){0};
}
