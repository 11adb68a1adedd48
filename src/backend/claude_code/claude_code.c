/* The backend claude_code: Anthropic's `claude`, run once a node (docs/backends.md).
 *
 * It runs in the node's sandbox, or on the host when there is none, finds its login in the HOME that it has there, or
 * gets the keys of the user's environment in its own. Its tools inherit that environment, which is why a key may be
 * seen by the agent; tool nodes never get it. What it needs to know goes in as one JSON line on its input. */
#include "../agent/delegate.h"
#include "../mcp/mcp.h"

#include "claude_code.h"
#include "stream.h"

#include <backend/backend.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <dsl/ast.h>

#include <errno.h>
#include <string.h>

/* CLAUDE_CODE_MAX_RETRIES: its own retries, which know the provider's retry-after; delegate.c has more behind them. */
static const char own_retries[] = "2";

static const struct agent_key keys[] = {
	{"ANTHROPIC_API_KEY", true},
	{"ANTHROPIC_AUTH_TOKEN", true},
	{"CLAUDE_CODE_OAUTH_TOKEN", true},
	{"ANTHROPIC_BASE_URL", false},
	{"ANTHROPIC_MODEL", false},
	{"ANTHROPIC_CUSTOM_HEADERS", true},
	{"ANTHROPIC_SMALL_FAST_MODEL", false},
	{"ANTHROPIC_DEFAULT_HAIKU_MODEL", false},
};

enum { FILE_SYSTEM, FILE_MCP };

static struct claude_wish wish_of(const struct node_exec *x)
{
	const struct agent_task *a = x->task.agent;

	return (struct claude_wish){
		.node = a->node,
		.workflow = a->file ? a->file->workflow : NULL,
		.model = a->model,
		.schema = x->schema,
		.system_file = x->files[FILE_SYSTEM],
		.mcp_file = x->files[FILE_MCP],
		.mcp_tools = &x->mcp_tools,
		.resume = x->resume,
		.fork = x->fork,
		.isolated = x->isolated,
	};
}

static void set_environment(struct node_exec *x)
{
	const struct agent_task *a = x->task.agent;

	delegate_pass(x, keys, ARRAY_LEN(keys));
	strv_set_env(&x->env, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
	strv_set_env(&x->env, "DISABLE_AUTOUPDATER", "1");
	strv_set_env(&x->env, "CLAUDE_CODE_MAX_RETRIES", own_retries);
	if (a->node->max_tokens.v > 0) {
		auto_free char *n = xasprintf("%lld", (long long)a->node->max_tokens.v);
		strv_set_env(&x->env, "CLAUDE_CODE_MAX_OUTPUT_TOKENS", n);
	}
	/* Its login; inside a sandbox that stands in HOME. */
	const char *config = agent_env(x->task.host_env, "CLAUDE_CONFIG_DIR");
	if (x->isolated)
		strv_set_env(&x->env, "IS_SANDBOX", "1");
	else if (config)
		strv_set_env(&x->env, "CLAUDE_CONFIG_DIR", config);
}

/* Its servers' tools are allowed without asking: the workflow named the servers. */
static int add_mcp(struct node_exec *x, struct err *e)
{
	auto_json config = NULL;
	const char *name;
	json_t *server;
	int r = mcp_claude_config(&x->task, &config, e);

	if (r < 0 || !config)
		return r;
	json_object_foreach(json_object_get(config, "mcpServers"), name, server)
		strv_take(&x->mcp_tools, xasprintf("mcp__%s", name));
	x->file_text = json_compact(config);
	x->files[FILE_MCP] = room_add(&x->room, "mcp.json", x->file_text);
	return 0;
}

static int prepare(struct node_exec *x, struct err *e)
{
	const struct claude_wish w = wish_of(x);
	const char *mode = claude_permission_mode(&w);

	x->permission_mode = xstrdup(mode ? mode : "default");
	set_environment(x);
	if (x->task.agent->system)
		x->files[FILE_SYSTEM] = room_add(&x->room, "system.md", x->task.agent->system);
	return add_mcp(x, e);
}

static int arguments(struct node_exec *x, struct err *e)
{
	const struct claude_wish w = wish_of(x);
	auto_json line = json_object();
	json_t *message = json_object();

	claude_arguments(&w, &x->argv);
	json_put_str(message, "role", "user");
	json_put(message, "content", json_text(x->say, strlen(x->say)));
	json_put_str(line, "type", "user");
	json_put(line, "message", message);
	auto_free char *text = json_compact(line);
	if (buf_puts(&x->input, text) == 0 && buf_putc(&x->input, '\n') == 0)
		return 0;
	(void)err_set(e, ERR_NODE, E2BIG, "the prompt is longer than %d bytes", DELEGATE_INPUT_MAX);
	err_hint(e, "pass large values by files in $ITERION_ARTIFACT_FILES_DIR");
	return -E2BIG;
}

static void on_line(struct node_exec *x, const json_t *line)
{
	claude_line(&x->turn, &x->sink, line);
}

static void on_end(struct node_exec *x, const char *stderr_text)
{
	claude_end(&x->turn, stderr_text);
}

static const struct backend_program program = {.name = "claude", .below_home = ".claude/local/claude"};

static const struct delegate_ops ops = {
	.backend = "claude_code",
	.program = &program,
	.ignores = IGNORES_INTERACTION | IGNORES_COMPACTION | IGNORES_MEMORY,
	.words = "claude",
	.get_hint = "install Claude Code where the node runs: in its sandbox's image, or on this machine on "
		    "the PATH or in ~/.claude/local (docs/backends.md)",
	.auth_hint = "set ANTHROPIC_API_KEY, or log in with `claude` and let the sandbox have ~/.claude "
		     "(host_state: auto)",
	.prepare = prepare,
	.arguments = arguments,
	.on_line = on_line,
	.on_end = on_end,
};

static int start(const struct node_task *t, const struct node_callbacks *cb, struct node_exec **ret, struct err *e)
{
	return delegate_start(&ops, t, cb, ret, e);
}

const struct backend_ops backend_claude_code = {
	.name = "claude_code", .start = start, .cancel = delegate_cancel, .program = &program};
