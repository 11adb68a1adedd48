/* `resume`: goes on with a run of the store.
 *
 * What the run was started with comes from its record: file, workspace, variables, and where its nodes ran. A run that
 * was sandboxed by a flag must not go on without one because the flag was not given again, so the flags and variables
 * of then stand in for flags that are missing (run_note.c); what the workflow's own blocks said is simply read again.
 */
#include "commands.h"
#include "network_flags.h"
#include "node_sandboxes.h"
#include "output.h"
#include "place.h"
#include "run_choice.h"
#include "run_engine.h"
#include "run_note.h"
#include "sandbox_flags.h"
#include "workflow.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <engine/engine.h>
#include <store/read.h>

#include <errno.h>
#include <unistd.h>
#include <uv.h>

struct resume_opts {
	const char *run_id;
	bool last;
	bool force;
	struct strv answers;
	const char *store_dir;
	unsigned long long timeout_ms;
	bool no_interactive;
	bool json;
	bool quiet;
	struct strv resolve;
	struct sandbox_flags sandbox;
};

static int choose_run(const struct resume_opts *o, const char *store, char **ret_id, struct err *e)
{
	if ((o->run_id != NULL) != o->last)
		return run_choose(store, o->run_id, ret_id, e);
	int r = err_set(e, ERR_USAGE, EINVAL, "resume: %s",
			o->last ? "--run-id and --last exclude each other" : "which run is missing");
	err_hint(e, "Name it with --run-id, or write --last for the newest; `iterion inspect` lists the runs.");
	return r;
}

/* The run's sandboxes, as its command line said and as this one does. */
static int resolve_sandboxes(const struct sandbox_flags *given, const struct run_noted *was, const struct workflow *w,
			     const char *workspace, struct sandbox_choice *ret, struct node_sandboxes *ret_nodes,
			     struct err *e)
{
	struct sandbox_flags flags = *given;

	if (!flags.driver)
		flags.driver = was->main_driver;
	int r = sandbox_flags_resolve(&flags, NULL, w->file, workspace, ret, e);
	return r < 0 ? r : node_sandboxes_resolve(given, w->file, was->drivers, workspace, ret_nodes, e);
}

static int find_record(const struct resume_opts *o, char **ret_store, char **ret_id, json_t **ret, struct err *e)
{
	int r = network_flags_check_resolve(&o->resolve, e);

	if (r == 0)
		r = place_store_here(o->store_dir, ret_store, e);
	if (r == 0)
		r = choose_run(o, *ret_store, ret_id, e);
	if (r < 0)
		return r;
	*ret = store_read_run(*ret_store, *ret_id, e);
	return *ret ? 0 : -EPROTO;
}

static int resume_on_loop(const struct invocation *inv, uv_loop_t *loop, struct err *e)
{
	const struct resume_opts *o = inv->options;
	const struct run_show show = {.json = o->json, .quiet = o->quiet, .no_ask = o->no_interactive};
	auto_free char *store = NULL, *id = NULL, *workspace = NULL;
	auto_json record = NULL;
	auto_workflow w = {0};
	auto_run_noted was = {.opts = {.timeout_ms = o->timeout_ms, .sandbox = o->sandbox}};
	auto_sandbox_choice sandbox = {0};
	auto_node_sandboxes nodes = {0};

	int r = find_record(o, &store, &id, &record, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < o->resolve.n; i++)
		strv_add(&was.opts.resolve, o->resolve.v[i]);
	run_noted_fill(&was, record);
	run_noted_enforce(record);
	const char *path = json_get_str(record, "file_path");
	if (!path)
		path = json_get_str(record, "file");
	r = place_workspace(json_get_str(record, "workspace"), &workspace, e);
	if (r == 0)
		r = workflow_load_run(path ? path : "", workspace, store, id, &w, e);
	was.opts.sandbox.project = w.project;
	if (r == 0)
		r = resolve_sandboxes(&was.opts.sandbox, &was, &w, workspace, &sandbox, &nodes, e);
	if (r < 0)
		return r;
	const struct engine_params p = {
		.loop = loop,
		.file = w.file,
		.file_path = path,
		.source = w.source,
		.source_len = w.len,
		.sandbox = &sandbox.resolved.spec,
		.driver = sandbox.driver,
		.node_sandboxes = nodes.v,
		.workspace = workspace,
		.store_dir = store,
		.run_id = id,
		.resume = true,
		.force = o->force,
		.answers = (const char *const *)o->answers.v,
		.host_env = (const char *const *)environ,
		.resolve = (const char *const *)was.opts.resolve.v,
		.timeout_ms = was.opts.timeout_ms,
		.branch_name = was.opts.branch_name,
		.merge_into = was.opts.merge_into,
		.merge_strategy = was.opts.merge_strategy,
		.auto_merge = was.opts.auto_merge,
	};
	return run_engine(&p, &show, e);
}

static int run(const struct invocation *inv, struct err *e)
{
	uv_loop_t loop;

	output_log(LOG_WARN);
	int r = uv_loop_init(&loop);
	if (r < 0)
		return err_sys(e, -r, "prepare the event loop");
	r = resume_on_loop(inv, &loop, e);
	(void)uv_loop_close(&loop);
	return r;
}

static const struct option_row options[] = {
	{.name = "run-id",
	 .kind = OPTION_STRING,
	 .value = "RUN",
	 .offset = offsetof(struct resume_opts, run_id),
	 .help = "the run: its id, the beginning of it, or its name"},
	{.name = "last",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct resume_opts, last),
	 .help = "the newest run of the store"},
	{.name = "force",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct resume_opts, force),
	 .help = "go on although the workflow's file has changed"},
	{.name = "answer",
	 .kind = OPTION_LIST,
	 .value = "FIELD=VALUE",
	 .offset = offsetof(struct resume_opts, answers),
	 .help = "an answer that the run waits for; NODE.FIELD=VALUE when several nodes wait"},
	STORE_DIR_ROW(struct resume_opts, store_dir),
	{.name = "timeout",
	 .kind = OPTION_DURATION,
	 .value = "TIME",
	 .offset = offsetof(struct resume_opts, timeout_ms),
	 .help = "the run fails when it takes longer from here, such as 90s, 30m or 1h30m"},
	SANDBOX_FLAG_ROWS(struct resume_opts, sandbox),
	RESOLVE_ROW(struct resume_opts, resolve),
	{.name = "no-interactive",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct resume_opts, no_interactive),
	 .help = "never ask on the terminal"},
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct resume_opts, json),
	 .help = "print the events, one JSON object a line"},
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct resume_opts, quiet),
	 .help = "print errors only"},
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion resume --last", "Goes on with the newest run, from the node where it stopped."},
	{"iterion resume --last --answer approved=true", "Answers what a human node of it asks."},
	{"iterion resume --run-id nightly --force", "The newest run of that name, although its file was mended since."},
	{NULL, NULL},
};

static const struct help_row exits[] = {
	{"0", "the run finished"},
	{"1", "the run failed"},
	{"2", "the run cannot go on (it has finished, another process runs it, its file changed, …); nothing was run"},
	{"3", "the run waits for a person"},
	{"130, 143", "the run was cancelled by SIGINT or SIGTERM"},
	{NULL, NULL},
};

const struct command command_resume = {
	.name = "resume",
	.operands = "",
	.summary = "go on with a run",
	.about = "A run that failed, was cancelled, or whose process was killed goes on at the nodes that were under "
		 "way; "
		 "nodes that have finished are not run again. It runs in the workspace and with the variables of "
		 "before, and with the flags of `run` for the sandbox and the merge, --resolve and --timeout (counted "
		 "anew), as they were given then, where they are not given again.",
	.examples = examples,
	.exits = exits,
	.options = options,
	.options_size = sizeof(struct resume_opts),
	.run = run,
};
