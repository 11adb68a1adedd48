/* `run`: one run of a workflow, from its file to the exit code.
 *
 * Everything that can be wrong with what the user gave is found before the engine makes anything: file, workspace,
 * store, sandbox. Then the engine runs it (run_engine.c). */
#include "commands.h"
#include "node_sandboxes.h"
#include "output.h"
#include "place.h"
#include "run_engine.h"
#include "run_note.h"
#include "run_opts.h"
#include "sandbox_doctor.h"
#include "workflow.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/id.h>
#include <base/json.h>
#include <engine/engine.h>

#include <errno.h>
#include <unistd.h>
#include <uv.h>

static void set_log_level(const char *word)
{
	static const struct {
		const char *word;
		enum log_level level;
	} rows[] = {{"error", LOG_ERROR}, {"warn", LOG_WARN}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}};
	enum log_level level = LOG_WARN;

	for (size_t i = 0; word && i < sizeof rows / sizeof rows[0]; i++)
		if (str_eq(rows[i].word, word))
			level = rows[i].level;
	output_log(level);
}

static int run_on_loop(const struct invocation *inv, uv_loop_t *loop, struct err *e)
{
	const struct run_opts *o = inv->options;
	/* Who asked for more of the log than warnings reads lines that come one after the other. */
	const struct run_show show = {
		.json = o->json,
		.quiet = o->quiet,
		.lines = str_eq(o->log_level, "info") || str_eq(o->log_level, "debug"),
		.no_ask = o->no_interactive,
	};
	auto_free char *workspace = NULL, *store = NULL;
	char uuid[UUID_SIZE];
	const char *run_id = o->run_id ? o->run_id : uuid;
	auto_workflow w = {0};
	auto_sandbox_choice sandbox = {0};
	auto_node_sandboxes nodes = {0};

	id_uuid7(uuid, clock_wall_ms());
	int r = network_flags_check_resolve(&o->resolve, e);
	if (r == 0)
		r = place_workspace(o->workspace, &workspace, e);
	if (r == 0)
		r = place_store(o->store_dir, workspace, &store, e);
	if (r == 0)
		r = workflow_load_run(inv->args[0], workspace, store, run_id, &w, e);
	struct sandbox_flags flags = o->sandbox;
	flags.project = w.project;
	if (r == 0)
		r = sandbox_flags_resolve(&flags, NULL, w.file, workspace, &sandbox, e);
	if (r == 0)
		r = node_sandboxes_resolve(&flags, w.file, NULL, workspace, &nodes, e);
	const struct preflight_request checks = {
		.flags = &flags, .file = w.file, .choice = &sandbox, .workspace = workspace, .store_dir = store};
	if (r == 0)
		r = sandbox_preflight(&checks, e);
	if (r < 0)
		return r;
	auto_json note = run_note(o);
	const struct engine_params p = {
		.loop = loop,
		.file = w.file,
		.file_path = inv->args[0],
		.source = w.source,
		.source_len = w.len,
		.sandbox = &sandbox.resolved.spec,
		.driver = sandbox.driver,
		.node_sandboxes = nodes.v,
		.workspace = workspace,
		.store_dir = store,
		.run_id = run_id,
		.run_name = o->name,
		.vars = (const char *const *)o->vars.v,
		.preset = o->preset,
		.attachments = (const char *const *)o->attachments.v,
		.host_env = (const char *const *)environ,
		.resolve = (const char *const *)o->resolve.v,
		.timeout_ms = o->timeout_ms,
		.options = note,
		.branch_name = o->branch_name,
		.merge_into = o->merge_into,
		.merge_strategy = o->merge_strategy,
		.auto_merge = o->auto_merge,
	};
	return run_engine(&p, &show, e);
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct run_opts *o = inv->options;
	uv_loop_t loop;

	set_log_level(o->log_level);
	int r = uv_loop_init(&loop);
	if (r < 0)
		return err_sys(e, -r, "prepare the event loop");
	r = run_on_loop(inv, &loop, e);
	(void)uv_loop_close(&loop);
	return r;
}

const char *const run_log_levels[] = {"error", "warn", "info", "debug", NULL};

static const struct option_row options[] = {
	RUN_ROWS,
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct run_opts, json),
	 .help = "print the run's events, one JSON object a line"},
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct run_opts, quiet),
	 .help = "print errors only"},
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion run main.bot", "Runs the workflow in the current folder, as its sandbox block says."},
	{"iterion run main.bot --var topic=tests --sandbox auto",
	 "With a variable, and in a sandbox whatever the file says."},
	{"iterion run main.bot --json | jq -c 'select(.type==\"network_blocked\")'", "The hosts that were refused."},
	{NULL, NULL},
};

static const struct help_row exits[] = {
	{"0", "the run finished"},
	{"1", "the run failed"},
	{"2", "the file, a value or the command line is wrong, or a check before the start failed; nothing was run"},
	{"3", "the run waits for a person"},
	{"130, 143", "the run was cancelled by SIGINT or SIGTERM"},
	{NULL, NULL},
};

const struct command command_run = {
	.name = "run",
	.operands = "FILE",
	.summary = "run a workflow",
	.about =
		"Checks FILE, starts its sandbox and runs its nodes from the entry to the end. On a "
		"terminal a line a node shows its state, time and output while it goes on, and stays; elsewhere a line "
		"is printed when a node starts and ends, and for each host that the network policy refused. What "
		"happened is kept in the store (`iterion inspect`, `iterion report`). The first SIGINT or "
		"SIGTERM stops the nodes in order, a second one kills them.",
	.examples = examples,
	.exits = exits,
	.options = options,
	.options_size = sizeof(struct run_opts),
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
