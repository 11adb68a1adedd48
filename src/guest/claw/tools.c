/* The table of built-in tools, and what they share.
 *
 * A tool runs in one of three ways: at once (short and bounded by the size of a file), in a process of its own (the
 * searches, whose time and memory depend on a pattern and a tree that the model chose), or by callbacks (Bash). */
#include "procs.h"
#include "seen.h"
#include "shells.h"
#include "tool.h"
#include "worker.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/id.h>
#include <base/mem.h>

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct tool *const builtin_tools[] = {
	&tool_bash,	  &tool_bash_output, &tool_kill_shell, &tool_read, &tool_write,	     &tool_edit,
	&tool_multi_edit, &tool_glob,	     &tool_grep,       &tool_ls,   &tool_todo_write, NULL,
};

const struct tool *builtin_find(const char *name)
{
	for (size_t i = 0; builtin_tools[i]; i++)
		if (strcmp(builtin_tools[i]->name, name) == 0)
			return builtin_tools[i];
	return NULL;
}

void tool_result_done(struct tool_result *r)
{
	buf_done(&r->text);
	buf_done(&r->image);
	buf_done(&r->blocks);
}

bool tool_fail(struct tool_result *r, const char *fmt, ...)
{
	va_list ap;

	r->error = true;
	r->media_type = NULL;
	buf_clear(&r->blocks);
	buf_clear(&r->text);
	va_start(ap, fmt);
	(void)buf_vprintf(&r->text, fmt, ap);
	va_end(ap);
	return false;
}

void tools_init(struct tools *t, struct react *r, struct procs *p, const char *work_dir)
{
	char *here = work_dir && work_dir[0] ? xstrdup(work_dir) : getcwd(NULL, 0);

	*t = (struct tools){.react = r, .procs = p, .work_dir = here ? here : xstrdup("/")};
	t->cwd = xstrdup(t->work_dir);
	t->seen = seen_new();
	t->shells = shells_new(t);
}

void tools_done(struct tools *t, bool keep_files)
{
	shells_free(t->shells);
	seen_free(t->seen);
	/* Kept are only files of output, and the folder for their sake. */
	if (t->scratch && keep_files) {
		auto_free char *cwd = xasprintf("%s/cwd", t->scratch);
		(void)unlink(cwd);
		(void)rmdir(t->scratch);
	} else if (t->scratch) {
		(void)!tree_remove(AT_FDCWD, t->scratch, NULL);
	}
	free(t->work_dir);
	free(t->cwd);
	free(t->scratch);
	free(t->todos);
	*t = (struct tools){0};
}

const char *tools_scratch(struct tools *t)
{
	char name[17];

	if (t->scratch)
		return t->scratch;
	id_hex(name, 8);
	const char *tmp = getenv("TMPDIR");
	auto_free char *path = xasprintf("%s/iterion-claw-%s", tmp && tmp[0] == '/' ? tmp : "/tmp", name);
	if (mkdir(path, 0700) == 0)
		t->scratch = TAKE_PTR(path);
	return t->scratch;
}

bool tool_start(const struct tool *tool, struct tools *t, struct jv input, struct tool_call *call)
{
	if (tool->start)
		return tool->start(t, input, call);
	if (tool->flags & TOOL_WORKER)
		return worker_start(tool, t, input, call);
	tool->run(t, input, &call->result);
	return false;
}
