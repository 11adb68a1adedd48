/* `run`: one run of a workflow, from its file to the exit code.
 *
 * Everything that can be wrong with what the user gave is found before the engine makes anything: file, workspace,
 * store, sandbox. Then the engine works on this loop, its events are shown as they come, and signals are handed to it.
 * What fails in the run itself is the run's result and not an error of this command, but it is told in the same form.
 */
#include "commands.h"
#include "event_view.h"
#include "network_flags.h"
#include "output.h"
#include "place.h"
#include "run_choice.h"
#include "run_signals.h"
#include "sandbox_flags.h"
#include "view.h"
#include "workflow.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <engine/engine.h>

#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <uv.h>

struct run_opts {
	struct strv vars;
	const char *preset;
	const char *run_id;
	const char *name;
	const char *store_dir;
	const char *workspace;
	unsigned long long timeout_ms;
	const char *log_level;
	bool no_interactive;
	bool json;
	bool quiet;
	struct strv resolve;
	struct sandbox_flags sandbox;
};

struct runner {
	const struct run_opts *o;
	struct engine *engine;
	struct signal_watch signals;
	struct event_view view;
	struct live_view *live; /* NULL: plain lines, or none */
	struct engine_result result;
};

static void on_event(void *arg, const struct store_event *ev)
{
	struct runner *r = arg;

	if (r->o->json) {
		out_raw(ev->line, ev->len);
		out_raw("\n", 1);
		out_flush();
	} else if (r->live) {
		live_view_event(r->live, ev->json);
	} else if (!r->o->quiet) {
		event_view_show(&r->view, ev->json);
	}
}

static void on_signal(void *arg, int sig)
{
	const struct runner *r = arg;

	if (r->live)
		live_view_doing(r->live, "stopping (again: kill)");
	/* A terminal that goes away asks for the same as SIGTERM. */
	engine_interrupt(r->engine, sig == SIGHUP ? SIGTERM : sig);
}

static void on_done(void *arg, const struct engine_result *result)
{
	struct runner *r = arg;

	r->result = *result;
	signal_watch_stop(&r->signals);
	live_view_end(r->live);
}

static void tell_result(const struct runner *r)
{
	struct err e = r->result.err;

	if (r->result.exit_code == 0)
		return;
	if (e.kind == ERR_NONE)
		(void)err_set(&e, ERR_NODE, 0, "the run ended as %s", run_status_name(r->result.status));
	err_hint(&e, "`iterion inspect %s` shows what ran; `iterion logs %s` every event.", engine_run_id(r->engine),
		 engine_run_id(r->engine));
	show_error(&e);
}

/* Who asked for more of the log than warnings reads lines that come one after the other. */
static bool wants_live_view(const struct run_opts *o)
{
	bool chatty = str_eq(o->log_level, "info") || str_eq(o->log_level, "debug");

	return !o->json && !o->quiet && !chatty && live_view_possible();
}

static int run_engine(struct runner *r, const struct engine_params *p, struct err *e)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, 0};

	int n = engine_new(p, &r->engine, e);
	if (n < 0)
		return n;
	signal_watch_start(&r->signals, p->loop, numbers, on_signal, r);
	if (wants_live_view(r->o))
		r->live = live_view_new(p->loop);
	n = engine_run(r->engine, on_done, r, e);
	if (n == 0)
		(void)uv_run(p->loop, UV_RUN_DEFAULT);
	signal_watch_stop(&r->signals);
	live_view_end(r->live);
	(void)uv_run(p->loop, UV_RUN_DEFAULT);
	live_view_free(r->live);
	if (n == 0) {
		tell_result(r);
		n = r->result.exit_code;
	}
	engine_free(r->engine);
	return n;
}

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
	struct runner runner = {.o = o};
	auto_free char *workspace = NULL, *store = NULL;
	auto_workflow w = {0};
	auto_sandbox_choice sandbox = {0};

	int r = network_flags_check_resolve(&o->resolve, e);
	if (r == 0)
		r = place_workspace(o->workspace, &workspace, e);
	if (r == 0)
		r = workflow_load(inv->args[0], workspace, &w, e);
	if (r == 0)
		r = place_store(o->store_dir, workspace, &store, e);
	if (r == 0)
		r = sandbox_flags_resolve(&o->sandbox, NULL, w.file, workspace, &sandbox, e);
	if (r < 0)
		return r;
	const struct engine_params p = {
		.loop = loop,
		.file = w.file,
		.file_path = inv->args[0],
		.source = w.source,
		.source_len = w.len,
		.sandbox = &sandbox.resolved.spec,
		.driver = sandbox.driver,
		.workspace = workspace,
		.store_dir = store,
		.run_id = o->run_id,
		.run_name = o->name,
		.vars = (const char *const *)o->vars.v,
		.preset = o->preset,
		.host_env = (const char *const *)environ,
		.resolve = (const char *const *)o->resolve.v,
		.timeout_ms = o->timeout_ms,
		.on_event = on_event,
		.arg = &runner,
	};
	r = run_engine(&runner, &p, e);
	event_view_done(&runner.view);
	return r;
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

static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

static const struct option_row options[] = {
	{.name = "var",
	 .letter = 'v',
	 .kind = OPTION_LIST,
	 .value = "NAME=VALUE",
	 .offset = offsetof(struct run_opts, vars),
	 .help = "the value of a variable of the workflow; read by its declared type"},
	{.name = "preset",
	 .kind = OPTION_STRING,
	 .value = "NAME",
	 .offset = offsetof(struct run_opts, preset),
	 .help = "one of the workflow's presets; --var comes over it"},
	{.name = "name",
	 .kind = OPTION_STRING,
	 .value = "NAME",
	 .offset = offsetof(struct run_opts, name),
	 .help = "a name for the run, by which other commands find it"},
	{.name = "run-id",
	 .kind = OPTION_STRING,
	 .value = "ID",
	 .offset = offsetof(struct run_opts, run_id),
	 .help = "the run's id (default: a new one)"},
	{.name = "workspace",
	 .kind = OPTION_STRING,
	 .value = "DIR",
	 .offset = offsetof(struct run_opts, workspace),
	 .help = "the folder that the workflow works in (default: the current one)"},
	STORE_DIR_ROW(struct run_opts, store_dir),
	{.name = "timeout",
	 .kind = OPTION_DURATION,
	 .value = "TIME",
	 .offset = offsetof(struct run_opts, timeout_ms),
	 .help = "the run fails when it takes longer, such as 90s, 30m or 1h30m"},
	SANDBOX_FLAG_ROWS(struct run_opts, sandbox),
	RESOLVE_ROW(struct run_opts, resolve),
	{.name = "log-level",
	 .kind = OPTION_WORD,
	 .value = "LEVEL",
	 .words = log_levels,
	 .offset = offsetof(struct run_opts, log_level),
	 .help = "what is logged on standard error (default: warn)"},
	{.name = "no-interactive",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct run_opts, no_interactive),
	 .help = "never ask on the terminal"},
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
	{"130, 143", "the run was cancelled by SIGINT or SIGTERM"},
	{NULL, NULL},
};

const struct command command_run = {
	.name = "run",
	.operands = "FILE",
	.summary = "run a workflow",
	.about = "Checks FILE, starts its sandbox and runs its nodes from the entry to the end. A line is printed when "
		 "a node "
		 "starts and ends, and for each host that the network policy refused. What happened is kept in the "
		 "store "
		 "(`iterion inspect`). The first SIGINT or SIGTERM stops the nodes in order, a second one kills them.",
	.examples = examples,
	.exits = exits,
	.options = options,
	.options_size = sizeof(struct run_opts),
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
