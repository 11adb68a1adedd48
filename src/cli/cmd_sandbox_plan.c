/* `sandbox plan`: what a run would use, without starting anything. */
#include "commands.h"
#include "output.h"
#include "place.h"
#include "run_opts.h"
#include "sandbox_plan.h"
#include "workflow.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/id.h>
#include <base/json.h>

static int run(const struct invocation *inv, struct err *e)
{
	const struct run_opts *o = inv->options;
	auto_free char *workspace = NULL, *store = NULL;
	auto_workflow w = {0};
	auto_json doc = NULL;
	char uuid[UUID_SIZE];
	const char *run_id = o->run_id ? o->run_id : uuid;

	id_uuid7(uuid, clock_wall_ms());
	int r = network_flags_check_resolve(&o->resolve, e);
	if (r == 0)
		r = place_workspace(o->workspace, &workspace, e);
	if (r == 0)
		r = place_store(o->store_dir, workspace, &store, e);
	if (r == 0 && inv->n_args)
		r = workflow_load_run(inv->args[0], workspace, store, run_id, &w, e);
	if (r < 0)
		return r;
	const struct plan_request q = {
		.opts = o,
		.file = w.file,
		.workspace = workspace,
		.store_dir = store,
		.run_id = run_id,
		.project = w.project,
	};
	r = sandbox_plan_make(&q, &doc, e);
	if (r < 0)
		return r;
	if (o->json)
		out_json(doc);
	else
		sandbox_plan_show(doc);
	return 0;
}

static const struct option_row options[] = {
	RUN_ROWS,
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct run_opts, json),
	 .help = "print one JSON document: driver, driver_reason, mode, source, spec, mounts, skipped, env, network, "
		 "warnings, and devcontainer and nodes where there are any"},
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion sandbox plan main.bot", "What `iterion run main.bot` would run in."},
	{"iterion sandbox plan --json main.bot | jq '.mounts[] | select(.origin != \"driver\")'",
	 "The mounts that somebody asked for."},
	{NULL, NULL},
};

static const struct help_row exits[] = {
	{"0", "a run would get this sandbox"},
	{"1", "a run would fail to make it, for the reason that is shown"},
	{"2", "the file, devcontainer.json, a value or the command line is wrong"},
	{NULL, NULL},
};

const struct command command_sandbox_plan = {
	.name = "sandbox plan",
	.operands = "[FILE]",
	.summary = "show what a run would use, without starting anything",
	.about = "Resolves the sandbox of the workflow FILE as `run` does, from its blocks, devcontainer.json, flags "
		 "and environment, and shows the driver, every value with where it came from, the mounts, the "
		 "environment's names, the network's rules and the warnings; nodes with a block of their own follow. "
		 "Without FILE it is the sandbox that `sandbox exec` makes. It takes every option of `run`. Values of "
		 "the host's variables that are named like secrets are replaced by their names.",
	.examples = examples,
	.exits = exits,
	.options = options,
	.options_size = sizeof(struct run_opts),
	.max_args = 1,
	.run = run,
};
