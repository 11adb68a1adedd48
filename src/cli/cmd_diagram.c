/* `diagram`: a workflow's graph as Mermaid text. */
#include "commands.h"
#include "output.h"
#include "place.h"
#include "workflow.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <dsl/diagram.h>

#include <errno.h>

enum { MAX_DIAGRAM = 64 * 1024 * 1024 };

struct diagram_opts {
	bool detailed;
	bool full;
};

static int run(const struct invocation *inv, struct err *e)
{
	const struct diagram_opts *o = inv->options;
	auto_free char *workspace = NULL;
	auto_workflow w = {0};
	auto_buf text = BUF_INIT(MAX_DIAGRAM);

	int r = place_workspace(NULL, &workspace, e);
	if (r == 0)
		r = workflow_load(inv->args[0], workspace, &w, e);
	if (r < 0)
		return r;
	enum dsl_diagram_level level = o->full	     ? DSL_DIAGRAM_FULL
				       : o->detailed ? DSL_DIAGRAM_DETAILED
						     : DSL_DIAGRAM_PLAIN;
	r = dsl_diagram(w.file, level, &text);
	if (r < 0) {
		r = err_set(e, ERR_INPUT, EFBIG, "draw %s: the diagram has more than %d bytes", inv->args[0],
			    MAX_DIAGRAM);
		err_hint(e, "Draw it without --full, or split the workflow.");
		return r;
	}
	out_printf("%s", buf_str(&text));
	return 0;
}

static const struct option_row options[] = {
	{.name = "detailed",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct diagram_opts, detailed),
	 .help = "with conditions, loops and what each node is"},
	{.name = "full",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct diagram_opts, full),
	 .help = "with models, backends, schemas and what the edges hand over, too"},
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion diagram main.bot", "Prints Mermaid text, which many Markdown viewers draw."},
	{"iterion diagram --detailed main.bot >graph.mmd", "A file for Mermaid's own tools."},
	{NULL, NULL},
};

const struct command command_diagram = {
	.name = "diagram",
	.operands = "FILE",
	.summary = "print a workflow's graph as Mermaid text",
	.about = "Reads and checks FILE and prints its nodes and edges as a Mermaid flowchart.",
	.examples = examples,
	.options = options,
	.options_size = sizeof(struct diagram_opts),
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
