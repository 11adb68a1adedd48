/* The backend codex: OpenAI's `codex exec`, run once a node (docs/backends.md).
 *
 * It has a sandbox of its own and runs on the host, whatever sandbox the run has, unless ITERION_CODEX_SANDBOXED says
 * that the sandbox's image has it, or the node has a sandbox of its own; then it does without its own. Its counts are
 * those of the whole conversation, so the node has what it added to them. */
#include "../agent/delegate.h"

#include "../agent/schema.h"
#include "arguments.h"
#include "stream.h"

#include <backend/backend.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <driver/agent.h>
#include <dsl/ast.h>

#include <errno.h>

enum { FILE_SCHEMA };

static struct codex_wish wish_of(const struct node_exec *x)
{
	const struct agent_task *a = x->task.agent;

	return (struct codex_wish){
		.node = a->node,
		.model = a->model,
		.schema_file = x->files[FILE_SCHEMA],
		.base_url = agent_env(x->task.host_env, "OPENAI_BASE_URL"),
		.resume = x->resume,
		.fork = x->fork,
		.isolated = x->isolated,
	};
}

/* Its key has a name of its own; OPENAI_API_KEY alone is not looked at by it. */
static void set_environment(struct node_exec *x)
{
	static const struct agent_key own[] = {{"CODEX_API_KEY", true}};
	static const struct agent_key home[] = {{"CODEX_HOME", false}};
	const char *placeholder = session_secret(x->task.session, "OPENAI_API_KEY");
	const char *key = placeholder ? placeholder : agent_env(x->task.host_env, "OPENAI_API_KEY");

	delegate_pass(x, own, ARRAY_LEN(own));
	if (!strv_get_env(&x->env, "CODEX_API_KEY") && key) {
		strv_set_env(&x->env, "CODEX_API_KEY", key);
		if (!placeholder)
			strv_add(&x->secrets, key);
	}
	if (!x->isolated)
		delegate_pass(x, home, ARRAY_LEN(home));
}

static void load_seen(struct node_exec *x)
{
	const json_t *s = x->task.agent->session_state;

	x->seen = (struct agent_usage){
		.input = turn_tokens(json_object_get(s, "input")),
		.output = turn_tokens(json_object_get(s, "output")),
		.cache_read = turn_tokens(json_object_get(s, "cache_read")),
	};
}

static int prepare(struct node_exec *x, struct err *e)
{
	const struct codex_wish w = wish_of(x);

	(void)e;
	x->permission_mode = xstrdup(codex_permission_mode(&w));
	set_environment(x);
	load_seen(x);
	if (x->schema && agent_schema_is_closed(x->schema)) {
		x->file_text = json_compact(x->schema);
		x->files[FILE_SCHEMA] = room_add(&x->room, "schema.json", x->file_text);
	}
	return 0;
}

/* It has no argument for a system prompt: that stands before the first words. */
static int write_words(struct node_exec *x)
{
	const char *system = x->task.agent->system;
	int r = 0;

	if (system && !x->resume)
		r = buf_printf(&x->input, "%s\n\n", system);
	if (r == 0)
		r = buf_puts(&x->input, x->say);
	if (r == 0 && x->schema && !x->files[FILE_SCHEMA])
		r = agent_schema_instruct(x->schema, &x->input);
	return r;
}

static int arguments(struct node_exec *x, struct err *e)
{
	const struct codex_wish w = wish_of(x);

	codex_arguments(&w, &x->argv);
	if (write_words(x) == 0)
		return 0;
	(void)err_set(e, ERR_NODE, E2BIG, "the prompt is longer than %d bytes", DELEGATE_INPUT_MAX);
	err_hint(e, "pass large values by files in $ITERION_ARTIFACT_FILES_DIR");
	return -E2BIG;
}

static void on_line(struct node_exec *x, const json_t *line)
{
	struct agent_usage total = {.input = -1};

	/* Which model answers is not told. */
	if (!x->turn.model)
		turn_set(&x->turn.model, x->task.agent->model);
	codex_line(&x->turn, &x->sink, line, &total);
	if (total.input < 0)
		return;
	x->turn.usage = (struct agent_usage){
		.input = MAX(0, total.input - x->seen.input),
		.output = MAX(0, total.output - x->seen.output),
		.cache_read = MAX(0, total.cache_read - x->seen.cache_read),
	};
	x->seen = total;
	x->turn.cost_usd = price_usd(x->task.agent->model, &x->turn.usage);
}

static void on_end(struct node_exec *x, const char *stderr_text)
{
	codex_end(&x->turn, stderr_text);
	/* A conversation that is not there counts from nothing. */
	if (x->turn.lost_session)
		x->seen = (struct agent_usage){0};
}

static void add_details(const struct node_exec *x, json_t *details)
{
	json_t *s = json_object();

	json_put_int(s, "input", x->seen.input);
	json_put_int(s, "output", x->seen.output);
	json_put_int(s, "cache_read", x->seen.cache_read);
	json_put(details, "_session_state", s);
}

static const struct backend_program program = {.name = "codex"};

static const struct delegate_ops ops = {
	.backend = "codex",
	.program = &program,
	.ignores = IGNORES_INTERACTION | IGNORES_COMPACTION | IGNORES_MEMORY | IGNORES_TOOLS,
	.words = "codex",
	.get_hint =
		"install Codex on this machine (it runs there, beside the run's sandbox), or in the sandbox's image "
		"with ITERION_CODEX_SANDBOXED=1 (docs/backends.md)",
	.auth_hint = "set CODEX_API_KEY or OPENAI_API_KEY, or log in with `codex login`",
	.prepare = prepare,
	.arguments = arguments,
	.on_line = on_line,
	.on_end = on_end,
	.add_details = add_details,
};

static int start(const struct node_task *t, const struct node_callbacks *cb, struct node_exec **ret, struct err *e)
{
	return delegate_start(&ops, t, cb, ret, e);
}

static bool on_host(const char *const *host_env)
{
	const char *v = agent_env(host_env, "ITERION_CODEX_SANDBOXED");

	return !v || str_eq(v, "0");
}

const struct backend_ops backend_codex = {
	.name = "codex", .start = start, .cancel = delegate_cancel, .on_host = on_host, .program = &program};
