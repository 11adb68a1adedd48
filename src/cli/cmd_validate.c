/* `validate`: what is wrong with a workflow file, without running anything. */
#include "commands.h"
#include "output.h"
#include "place.h"
#include "sandbox_check.h"
#include "sandbox_flags.h"
#include "workflow.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/str.h>

#include <string.h>

struct validate_opts {
	const char *workspace;
	const char *devcontainer;
	bool json;
};

static void show(const char *path, const struct workflow *w)
{
	auto_buf findings = BUF_INIT(16 * 1024 * 1024);
	size_t errors = workflow_errors(w), warnings = workflow_warnings(w);

	workflow_findings(w, &findings);
	out_printf("%s", buf_str(&findings));
	if (errors + warnings == 0)
		out_printf("%s: ok\n", path);
	else
		out_printf("%s: %zu error%s, %zu warning%s\n", path, errors, errors == 1 ? "" : "s", warnings,
			   warnings == 1 ? "" : "s");
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct validate_opts *o = inv->options;
	auto_free char *workspace = NULL;
	auto_workflow w = {0};
	auto_strv warnings = {0};

	int r = place_workspace(o->workspace, &workspace, e);
	if (r == 0)
		r = workflow_read(inv->args[0], workspace, &w, e);
	if (r < 0)
		return r;
	if (workflow_errors(&w) == 0)
		sandbox_check_devcontainer(w.file, workspace, o->devcontainer, &w.sandbox, &warnings);
	for (size_t i = 0; i < warnings.n; i++)
		show_warning("%s", strchr(warnings.v[i], '=') + 1);
	if (o->json) {
		auto_json doc = workflow_findings_json(&w);
		out_json(doc);
	} else {
		show(inv->args[0], &w);
	}
	return workflow_errors(&w) ? 2 : 0;
}

static const struct option_row options[] = {
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct validate_opts, json),
	 .help = "print one JSON document: file, ok and diagnostics with code, severity, line, column, message and "
		 "hint"},
	{.name = "workspace",
	 .kind = OPTION_STRING,
	 .value = "DIR",
	 .offset = offsetof(struct validate_opts, workspace),
	 .help = "what ${PROJECT_DIR} means in the file (default: the current folder)"},
	DEVCONTAINER_ROW(struct validate_opts, devcontainer),
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion validate main.bot", "Shows every error and warning with its line."},
	{"iterion validate --json main.bot", "The same for an editor or a script."},
	{NULL, NULL},
};

static const struct help_row exits[] = {
	{"0", "the file is right; warnings do not matter"},
	{"2", "the file has errors, or cannot be read, or the command line is wrong"},
	{NULL, NULL},
};

const struct command command_validate = {
	.name = "validate",
	.operands = "FILE",
	.summary = "check a workflow file",
	.about = "Parses FILE and checks it as a whole: unknown names, edges and loops, templates and expressions, "
		 "schemas, the sandbox block with its network rules, and in mode auto the devcontainer.json of the "
		 "workspace. Each finding has a code, its place with the source "
		 "line, and where possible what to write instead. Nothing is run and nothing is created.",
	.examples = examples,
	.exits = exits,
	.options = options,
	.options_size = sizeof(struct validate_opts),
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
