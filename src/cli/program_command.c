/* What `sandbox exec` and `sandbox shell` share. They ask for a sandbox even when neither the file nor a flag does: who
 * calls them wants one, and --sandbox=none has to be said. */
#include "program_command.h"
#include "event_file.h"
#include "output.h"
#include "place.h"
#include "sandbox_program.h"
#include "workflow.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/log.h>

#include <stdlib.h>
#include <unistd.h>

const struct help_row program_exits[] = {
	{"0..125", "the program's own exit code (and 1 when the sandbox could not be started or died)"},
	{"2", "also: the file or the command line is wrong; nothing was started"},
	{"126", "the program could not be executed"},
	{"127", "the program was not found"},
	{"128+n", "signal n ended the program"},
	{NULL, NULL},
};

static int run_in(const struct program_opts *o, const struct dsl_file *file, const char *workspace,
		  const char *const *argv, bool on_terminal, struct err *e)
{
	struct sandbox_flags flags = o->sandbox;
	auto_free char *store = NULL;
	auto_sandbox_choice sandbox = {0};
	struct event_file events = {0};

	if (!flags.mode)
		flags.mode = "auto";
	int r = network_flags_check_resolve(&o->resolve, e);
	if (r == 0)
		r = place_store(o->store_dir, workspace, &store, e);
	if (r == 0)
		r = sandbox_flags_resolve(&flags, &o->network, file, workspace, &sandbox, e);
	if (r == 0 && o->events)
		r = event_file_open(o->events, NULL, &events, e);
	if (r < 0)
		return r;
	/* An image may not have the user's own shell. */
	const struct sandbox_spec *spec = &sandbox.resolved.spec;
	const char *own = spec->image || spec->build.dockerfile ? NULL : getenv("SHELL");
	const char *const shell[] = {own && own[0] == '/' && access(own, X_OK) == 0 ? own : "/bin/sh", NULL};
	const struct program_request q = {
		.spec = &sandbox.resolved.spec,
		.driver = sandbox.driver,
		.workspace = workspace,
		.store_dir = store,
		.resolve = (const char *const *)o->resolve.v,
		.argv = argv ? argv : shell,
		.events = &events,
		.on_terminal = on_terminal,
	};
	r = program_run(&q, e);
	if (r < 0) {
		(void)event_file_close(&events, NULL);
		return r;
	}
	int closed = event_file_close(&events, e);
	return closed < 0 ? closed : r;
}

int program_command(const struct program_opts *o, const char *file, const char *const *argv, bool on_terminal,
		    struct err *e)
{
	auto_free char *workspace = NULL;
	auto_workflow w = {0};

	output_log(LOG_WARN);
	int r = place_workspace(o->workspace, &workspace, e);
	if (r == 0 && file)
		r = workflow_load(file, workspace, &w, e);
	return r < 0 ? r : run_in(o, w.file, workspace, argv, on_terminal, e);
}
