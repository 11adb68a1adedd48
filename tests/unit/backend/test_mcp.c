/* The MCP client against a real server, in Python, that behaves and misbehaves on request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../engine/fake_session.h"
#include "../store/tmp.h"
#include <backend/run.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/spawn.h>
#include <base/str.h>
#include <driver/session.h>
#include <dsl/parse.h>
#include <errno.h>
#include <mcp/mcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOOLS = 19 }; /* that the server has */

struct fixture {
	uv_loop_t loop;
	char *top;
	struct session *session;
	struct dsl_file *file;
	struct backend_run *shared;
	struct strv host_env;
	struct agent_task agent;
	struct node_task task;
	json_t *events; /* [{"type",…}] */
	/* The latest answer. */
	unsigned answers;
	json_t *tools;
	char *text;
	json_t *content, *structured;
	bool is_error;
	struct err err;
};

static const char *const node_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "INSIDE=yes", "ITERION_NODE_ID=a", NULL};

static void on_event(void *arg, const char *type, json_t *data)
{
	const struct fixture *f = arg;

	json_put_str(data, "type", type);
	(void)json_array_append_new(f->events, data);
}

/* servers: the text of mcp_server declarations; block: lines of the workflow. */
static void setup(struct fixture *f, const char *block, const char *servers)
{
	*f = (struct fixture){.top = tmp_dir(), .events = json_array()};
	(void)signal(SIGPIPE, SIG_IGN);
	assert_int_equal(uv_loop_init(&f->loop), 0);
	f->session = fake_session_open(&f->loop, f->top);
	auto_free char *text = xasprintf("%s\nagent a:\n  model: \"m\"\n  user: p\nprompt p:\n  hello\nworkflow w:\n"
					 "  entry: a\n%s  a -> done\n",
					 servers, block);
	if (dsl_parse("t", text, strlen(text), NULL, &f->file) < 0)
		fail_msg("%s", text);
	strv_add(&f->host_env, "PATH=/usr/local/bin:/usr/bin:/bin");
	strv_add(&f->host_env, "HOME=/nowhere");
	strv_add(&f->host_env, "ANTHROPIC_API_KEY=sk-secret");
	f->agent = (struct agent_task){.file = f->file, .node = f->file->nodes[0]};
	f->task = (struct node_task){.loop = &f->loop, .session = f->session, .node_id = "a", .env = node_env};
	f->task.agent = &f->agent;
}

/* After what a test has to say about the environment. */
static void begin(struct fixture *f, bool sandboxed)
{
	const struct backend_run_params bp = {
		.loop = &f->loop,
		.file = f->file,
		.host_env = (const char *const *)f->host_env.v,
		.workspace = f->top,
		.sandboxed = sandboxed,
		.on_event = on_event,
		.arg = f,
	};
	f->task.shared = f->shared = backend_run_new(&bp);
}

static void on_stopped(void *arg)
{
	struct fixture *f = arg;

	f->shared = NULL;
}

static void stop(struct fixture *f)
{
	if (!f->shared)
		return;
	backend_run_stop(f->shared, on_stopped, f);
	while (f->shared && uv_run(&f->loop, UV_RUN_ONCE))
		;
	assert_null(f->shared);
}

static void forget(struct fixture *f)
{
	json_decref(TAKE_PTR(f->tools));
	json_decref(TAKE_PTR(f->content));
	json_decref(TAKE_PTR(f->structured));
	free(TAKE_PTR(f->text));
	f->err = ERR_INIT;
	f->answers = 0;
}

static void teardown(struct fixture *f)
{
	stop(f);
	forget(f);
	fake_session_close(f->session, &f->loop);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	dsl_file_free(f->file);
	strv_done(&f->host_env);
	json_decref(f->events);
	tmp_remove(f->top);
}

static void on_list(void *arg, json_t *tools, const struct err *e)
{
	struct fixture *f = arg;

	f->answers++;
	f->tools = json_incref(tools);
	if (e)
		f->err = *e;
}

static void on_call(void *arg, const struct mcp_result *r, const struct err *e)
{
	struct fixture *f = arg;

	f->answers++;
	assert_true(!r == !!e);
	if (e) {
		f->err = *e;
		return;
	}
	f->text = xstrdup(r->text);
	f->content = json_incref(r->content);
	f->structured = json_incref(r->structured);
	f->is_error = r->is_error;
}

static void wait_for(struct fixture *f, unsigned answers)
{
	while (f->answers < answers && uv_run(&f->loop, UV_RUN_ONCE))
		;
	assert_int_equal(f->answers, answers);
}

static size_t list(struct fixture *f)
{
	struct mcp_op *op;

	forget(f);
	assert_int_equal(mcp_list(&f->task, on_list, f, &op, &f->err), 0);
	assert_int_equal(f->answers, 0);
	wait_for(f, 1);
	return json_array_size(f->tools);
}

static void call_for(struct fixture *f, unsigned timeout_ms, const char *name, const char *input)
{
	struct mcp_op *op;
	auto_json in = json_loads(input, 0, NULL);

	forget(f);
	if (mcp_call(&f->task, name, in, timeout_ms, on_call, f, &op, &f->err) < 0)
		return;
	assert_int_equal(f->answers, 0);
	wait_for(f, 1);
}

static void call(struct fixture *f, const char *name, const char *input)
{
	call_for(f, 0, name, input);
}

static bool has_tool(const struct fixture *f, const char *name)
{
	size_t i;
	json_t *t;

	json_array_foreach(f->tools, i, t) if (str_eq(json_get_str(t, "name"), name)) return true;
	return false;
}

static unsigned count_events(const struct fixture *f, const char *type)
{
	unsigned n = 0;
	size_t i;
	json_t *e;

	json_array_foreach(f->events, i, e) n += str_eq(json_get_str(e, "type"), type);
	return n;
}

static void assert_error(const struct fixture *f, const char *says)
{
	if (f->err.kind == ERR_NONE || !strstr(f->err.msg, says) || !f->err.hint[0])
		fail_msg("%s: %s (%s)", says, f->err.msg, f->err.hint);
}

/* An mcp_server that is the script with these arguments (each quoted, with commas). */
#define STDIO(name, args)                                                                                              \
	"mcp_server " name ":\n  transport: stdio\n  command: \"" MCP_SERVER "\"\n  args: [" args "]\n"

/* --- stdio --- */

static void test_handshake(void **state)
{
	struct fixture f;
	char where[400];

	(void)state;
	setup(&f, "", STDIO("one", "") STDIO("two", "\"--name\", \"zwei\", \"--noise\""));
	begin(&f, false);
	assert_int_equal(list(&f), 2 * TOOLS);
	assert_true(has_tool(&f, "mcp.one.echo"));
	assert_true(has_tool(&f, "mcp.two.echo"));
	const json_t *first = json_array_get(f.tools, 0);
	assert_string_equal(json_get_str(first, "description"), "Says what it is told.");
	assert_string_equal(json_get_str(json_object_get(first, "input_schema"), "type"), "object");
	assert_int_equal(json_object_size(first), 3);
	call(&f, "mcp.two.echo", "{\"text\": \"hall\\u00f6chen\"}");
	assert_string_equal(f.text, "hall\xc3\xb6"
				    "chen");
	assert_false(f.is_error);
	call(&f, "mcp.one.add", "{\"a\": 1, \"b\": 2.5}");
	assert_string_equal(f.text, "{\"sum\":3.5}");
	assert_non_null(f.structured);
	call(&f, "mcp.one.image", "{}");
	assert_string_equal(f.text,
			    "look\n[image: image/png, 3 bytes]\n[content of a kind that is not known: hologram]");
	assert_int_equal(json_array_size(f.content), 2);
	call(&f, "mcp.one.fail", "{}");
	assert_true(f.is_error);
	assert_string_equal(f.text, "it cannot be done");
	call(&f, "mcp.one.refuse", "{}");
	assert_true(f.is_error);
	assert_non_null(strstr(f.text, "-32602"));
	assert_null(strchr(f.text, '\x1b'));
	call(&f, "mcp.one.where", "{\"text\": \"/\"}");
	(void)snprintf(where, sizeof where, "{\"cwd\": \"%s\"", f.top);
	assert_true(str_starts(f.text, where));
	/* Each was started once, on the host. */
	assert_int_equal(count_events(&f, "mcp_server_started"), 2);
	assert_string_equal(json_get_str(json_array_get(f.events, 0), "where"), "host");
	assert_int_equal(fake_session.execs, 0);
	teardown(&f);
}

static void test_environment(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "", STDIO("one", "") "  env:\n    MINE: \"a=b\"\n" STDIO("in", "") "  sandboxed: true\n");
	begin(&f, true);
	call(&f, "mcp.one.environment", "{}");
	auto_json env = json_loads(f.text, 0, NULL);
	assert_string_equal(json_get_str(env, "MINE"), "a=b");
	assert_string_equal(json_get_str(env, "HOME"), "/nowhere");
	assert_null(json_get_str(env, "ANTHROPIC_API_KEY"));
	assert_null(json_get_str(env, "INSIDE"));
	/* Inside it has what the node has, but for whose it is. */
	call(&f, "mcp.in.environment", "{}");
	auto_json inside = json_loads(f.text, 0, NULL);
	assert_string_equal(json_get_str(inside, "INSIDE"), "yes");
	assert_null(json_get_str(inside, "ITERION_NODE_ID"));
	assert_null(json_get_str(inside, "HOME"));
	assert_int_equal(fake_session.execs, 1);
	teardown(&f);
}

static void test_paging(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "",
	      STDIO("one", "\"--page\", \"7\", \"--more\", \"30\"") STDIO("two", "\"--page\", \"5\", \"--endless\""));
	begin(&f, false);
	assert_int_equal(list(&f), 0);
	assert_error(&f, "MCP server two: its list of tools does not end");
	teardown(&f);
	setup(&f, "", STDIO("one", "\"--page\", \"7\", \"--more\", \"30\""));
	begin(&f, false);
	assert_int_equal(list(&f), TOOLS + 30);
	assert_true(has_tool(&f, "mcp.one.more_29"));
	teardown(&f);
}

static void test_too_many(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "", STDIO("one", "\"--more\", \"2000\""));
	begin(&f, false);
	(void)list(&f);
	assert_error(&f, "too many tools");
	teardown(&f);
	/* 16 KiB of each description are kept, and 1 MiB of all: the others are left out. */
	setup(&f, "", STDIO("one", "\"--more\", \"100\", \"--wordy\", \"20000\""));
	begin(&f, false);
	assert_int_equal(list(&f), TOOLS + 63);
	const json_t *wordy = json_array_get(f.tools, TOOLS);
	assert_int_equal(strlen(json_get_str(wordy, "description")), 16 * 1024);
	teardown(&f);
}

static void test_versions(void **state)
{
	static const struct {
		const char *version;
		bool ok;
	} cases[] = {{"2024-11-05", true},
		     {"2025-03-26", true},
		     {"2025-06-18", true},
		     {"2025-11-25", true},
		     {"1999-01-01", false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		auto_free char *args = xasprintf("mcp_server one:\n  transport: stdio\n  command: \"" MCP_SERVER
						 "\"\n  args: [\"--version\", \"%s\"]\n",
						 cases[i].version);
		setup(&f, "", args);
		begin(&f, false);
		assert_int_equal(list(&f) > 0, cases[i].ok);
		if (cases[i].ok)
			assert_string_equal(json_get_str(json_array_get(f.events, 0), "protocol"), cases[i].version);
		else
			assert_error(&f, "it speaks version 1999-01-01");
		teardown(&f);
	}
}

/* It dies under a call: the agent is told, with its last words but not its secrets; the next call starts it again. */
static void test_crash(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "", STDIO("one", "") "  env:\n    SECRET: \"hunter2hunter2\"\n");
	begin(&f, false);
	call(&f, "mcp.one.crash", "{}");
	assert_error(&f, "call crash: MCP server one: it ended with exit code 3; it said: fatal: the disk is on fire");
	assert_null(strstr(f.err.msg, "hunter2"));
	assert_non_null(strstr(f.err.msg, "secret ****"));
	assert_int_equal(count_events(&f, "mcp_server_failed"), 1);
	call(&f, "mcp.one.echo", "{\"text\": \"again\"}");
	assert_string_equal(f.text, "again");
	assert_int_equal(count_events(&f, "mcp_server_started"), 2);
	teardown(&f);
}

/* A tool that says of itself that it is harmless is called again, once. */
static void test_repeat(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "", STDIO("one", ""));
	begin(&f, false);
	auto_free char *input = xasprintf("{\"text\": \"%s/mark\"}", f.top);
	call(&f, "mcp.one.crash_once", input);
	assert_string_equal(f.text, "alive");
	assert_int_equal(count_events(&f, "mcp_server_started"), 2);
	teardown(&f);
}

static void test_timeouts(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "", STDIO("one", ""));
	begin(&f, false);
	assert_true(list(&f) > 0);
	call_for(&f, 100, "mcp.one.hang", "{}");
	assert_error(&f, "MCP server one: hang did not answer within 0.1 s");
	assert_int_equal(f.err.errnum, ETIMEDOUT);
	/* It goes on, and progress buys time. */
	call_for(&f, 1500, "mcp.one.slow", "{\"n\": 6, \"pause\": 0.3}");
	assert_string_equal(f.text, "at last");
	assert_int_equal(count_events(&f, "mcp_server_started"), 1);
	teardown(&f);
}

static void test_mute(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "", STDIO("one", "\"--mute\""));
	strv_add(&f.host_env, "ITERION_MCP_START_TIMEOUT=1s");
	begin(&f, false);
	(void)list(&f);
	assert_error(&f, "MCP server one: it did not get ready within 1 s");
	call(&f, "mcp.one.echo", "{\"text\": \"x\"}");
	assert_error(&f, "did not get ready");
	assert_int_equal(count_events(&f, "mcp_server_failed"), 2);
	teardown(&f);
}

static void test_bad_timeout(void **state)
{
	struct fixture f;
	struct mcp_op *op;

	(void)state;
	setup(&f, "", STDIO("one", ""));
	strv_add(&f.host_env, "ITERION_MCP_CALL_TIMEOUT=soon");
	begin(&f, false);
	assert_int_equal(mcp_list(&f.task, on_list, &f, &op, &f.err), -EINVAL);
	assert_error(&f, "ITERION_MCP_CALL_TIMEOUT");
	teardown(&f);
}

static void test_not_started(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "", STDIO("one", "\"--exit\", \"7\""));
	begin(&f, false);
	(void)list(&f);
	assert_error(&f, "MCP server one: it ended with exit code 7");
	teardown(&f);
	setup(&f, "", "mcp_server one:\n  transport: stdio\n  command: \"no-such-program-here\"\n");
	begin(&f, false);
	(void)list(&f);
	assert_error(&f, "MCP server one: start no-such-program-here: No such file");
	teardown(&f);
}

static void test_hostile(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "", STDIO("one", ""));
	begin(&f, false);
	call(&f, "mcp.one.huge", "{\"n\": 2000000}");
	assert_true(str_ends(f.text, "too long]"));
	call(&f, "mcp.one.huge", "{\"n\": 6000000}");
	assert_error(&f, "it wrote a line of more than 4 MiB");
	call(&f, "mcp.one.malformed", "{}");
	assert_error(&f, "not a JSON-RPC message");
	call(&f, "mcp.one.wrong", "{}");
	assert_error(&f, "its answer is no result of a tool");
	call(&f, "mcp.one.echo", "{\"text\": \"fine\"}");
	assert_string_equal(f.text, "fine");
	teardown(&f);
}

/* What it does not read waits within bounds, also our answers to what it asks. */
static void test_deaf(void **state)
{
	struct fixture f;
	struct mcp_op *op;
	auto_buf text = BUF_INIT(4 * 1024 * 1024);

	(void)state;
	for (size_t i = 0; i < 3 * 1024 * 1024; i++)
		(void)buf_putc(&text, 'x');
	auto_json large = json_pack("{s:s}", "text", buf_str(&text));
	auto_json nothing = json_object();
	setup(&f, "", STDIO("one", ""));
	begin(&f, false);
	assert_true(list(&f) > 0);
	forget(&f);
	assert_int_equal(mcp_call(&f.task, "mcp.one.deaf", nothing, 0, on_call, &f, &op, &f.err), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(mcp_call(&f.task, "mcp.one.add", large, 0, on_call, &f, &op, &f.err), 0);
	wait_for(&f, 5);
	assert_error(&f, "it does not read what it is sent");
	call(&f, "mcp.one.flood", "{}");
	assert_error(&f, "it does not read what it is sent");
	call(&f, "mcp.one.echo", "{\"text\": \"fine\"}");
	assert_string_equal(f.text, "fine");
	teardown(&f);
}

static void test_unasked(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "", STDIO("one", ""));
	begin(&f, false);
	call(&f, "mcp.one.ask", "{}");
	assert_string_equal(f.text, "{\"sample\": -32601, \"ping\": {}}");
	assert_int_equal(list(&f), TOOLS);
	call(&f, "mcp.one.change", "{}");
	assert_int_equal(list(&f), TOOLS + 1);
	assert_true(has_tool(&f, "mcp.one.new"));
	teardown(&f);
}

static void test_refused(void **state)
{
	static const char *const names[] = {"mcp.one.fail", "mcp.two.echo", "echo", "mcp.one", "", "mcp.one.a b"};
	struct fixture f;

	(void)state;
	setup(&f, "  mcp:\n    disable: [mcp.one.fail]\n", STDIO("one", ""));
	begin(&f, false);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		call(&f, names[i], "{}");
		assert_error(&f, "the node has no such tool");
	}
	call(&f, "mcp.one.echo", "[]");
	assert_error(&f, "its input is no object");
	/* Nothing was started for it. */
	assert_int_equal(count_events(&f, "mcp_server_started"), 0);
	call(&f, "mcp.one.nosuch", "{}");
	assert_error(&f, "it has no tool nosuch");
	assert_int_equal(list(&f), TOOLS - 1);
	teardown(&f);
}

static void test_cancel(void **state)
{
	struct fixture f;
	struct mcp_op *ops[3];
	auto_json nothing = json_object();

	(void)state;
	setup(&f, "", STDIO("one", ""));
	begin(&f, false);
	/* While it starts, both ways; and under way. */
	assert_int_equal(mcp_list(&f.task, on_list, &f, &ops[0], &f.err), 0);
	assert_int_equal(mcp_call(&f.task, "mcp.one.hang", nothing, 0, on_call, &f, &ops[1], &f.err), 0);
	mcp_cancel(ops[0]);
	mcp_cancel(ops[1]);
	call(&f, "mcp.one.echo", "{\"text\": \"x\"}");
	assert_string_equal(f.text, "x");
	forget(&f);
	assert_int_equal(mcp_call(&f.task, "mcp.one.hang", nothing, 0, on_call, &f, &ops[2], &f.err), 0);
	for (int i = 0; i < 3; i++)
		uv_run(&f.loop, UV_RUN_NOWAIT);
	mcp_cancel(ops[2]);
	assert_int_equal(f.answers, 0);
	call(&f, "mcp.one.echo", "{\"text\": \"y\"}");
	assert_string_equal(f.text, "y");
	teardown(&f);
}

/* What the tests below look for in a file that the server wrote. */
static bool file_says(const struct fixture *f, const char *name, const char *what)
{
	auto_free char *text = tmp_read(f->top, name);

	return text && strstr(text, what);
}

static void test_stop(void **state)
{
	struct fixture f;

	(void)state;
	for (int stubborn = 0; stubborn < 2; stubborn++) {
		char *top = tmp_dir();
		auto_free char *server = xasprintf("mcp_server one:\n  transport: stdio\n  command: \"" MCP_SERVER
						   "\"\n  args: [\"--pid\", \"%s/pid\", \"--log\", \"%s/log\"%s]\n",
						   top, top, stubborn ? ", \"--stubborn\"" : "");
		setup(&f, "", server);
		begin(&f, false);
		assert_true(list(&f) > 0);
		auto_free char *pid = tmp_read(top, "pid");
		assert_int_equal(kill((pid_t)strtol(pid, NULL, 10), 0), 0);
		stop(&f);
		assert_int_equal(kill((pid_t)strtol(pid, NULL, 10), 0), -1);
		teardown(&f);
		f.top = top;
		/* It was asked before it was made to. */
		assert_true(file_says(&f, "log", "end of input"));
		tmp_remove(top);
	}
}

/* --- .mcp.json --- */

static void write_project(const struct fixture *f, const char *text)
{
	auto_free char *path = xasprintf("%s/.mcp.json", f->top);

	assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0644, FILE_NO_SYNC, NULL), 0);
}

#define AUTOLOAD "  mcp:\n    autoload_project: true\n"

/* In a run with a sandbox its servers run inside, and it may not make us speak to anybody. */
static void test_project_sandboxed(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, AUTOLOAD, "");
	write_project(&f, "{\"mcpServers\": {\"pj\": {\"command\": \"" MCP_SERVER "\"},"
			  " \"key\": {\"command\": \"" MCP_SERVER "\", \"env\": {\"K\": \"${ANTHROPIC_API_KEY}\"}},"
			  " \"web\": {\"url\": \"http://127.0.0.1:1/${INSIDE}\"}, \"bad\": 3}}");
	begin(&f, true);
	assert_int_equal(list(&f), TOOLS);
	assert_true(has_tool(&f, "mcp.pj.echo"));
	assert_int_equal(fake_session.execs, 1);
	assert_int_equal(count_events(&f, "mcp_server_failed"), 3);
	auto_free char *events = json_compact(f.events);
	assert_non_null(strstr(events, "past its network rules"));
	assert_non_null(strstr(events, "${ANTHROPIC_API_KEY} is not set for it"));
	assert_null(strstr(events, "sk-secret"));
	call(&f, "mcp.web.x", "{}");
	assert_error(&f, "past its network rules");
	teardown(&f);
}

static void test_project_host(void **state)
{
	struct fixture f;
	struct mcp_op *op;

	(void)state;
	setup(&f, AUTOLOAD, STDIO("one", ""));
	write_project(
		&f,
		"{\"mcpServers\": {\"one\": {\"command\": \"/bin/false\"}, \"no\": {\"command\": \"/bin/false\"}}}");
	begin(&f, false);
	/* The declared one wins; the one that fails is left out. */
	assert_int_equal(list(&f), TOOLS);
	teardown(&f);
	setup(&f, AUTOLOAD, "");
	write_project(&f, "{");
	begin(&f, false);
	assert_int_equal(mcp_list(&f.task, on_list, &f, &op, &f.err), -EINVAL);
	assert_error(&f, "read .mcp.json of the workspace");
	teardown(&f);
}

static void test_claude(void **state)
{
	struct fixture f;
	json_t *config;

	(void)state;
	setup(&f, AUTOLOAD,
	      "mcp_server one:\n  transport: stdio\n  command: \"run\"\n  args: [\"x\"]\n  env:\n    A: \"b\"\n"
	      "mcp_server two:\n  transport: http\n  url: \"https://h/mcp\"\n  auth:\n    type: bearer\n    token: "
	      "\"t0k\"\n");
	write_project(&f, "{\"mcpServers\": {\"pj\": {\"url\": \"http://h/${INSIDE}\"}}}");
	begin(&f, true);
	assert_int_equal(mcp_claude_config(&f.task, &config, &f.err), 0);
	auto_free char *shown = json_compact(config);
	assert_string_equal(
		shown, "{\"mcpServers\":{\"one\":{\"type\":\"stdio\",\"command\":\"run\",\"args\":[\"x\"],\"env\":"
		       "{\"A\":\"b\"}},\"two\":{\"type\":\"http\",\"url\":\"https://h/mcp\",\"headers\":"
		       "{\"Authorization\":\"Bearer t0k\"}},\"pj\":{\"type\":\"http\",\"url\":\"http://h/yes\"}}}");
	json_decref(config);
	teardown(&f);
	setup(&f, "", "");
	begin(&f, false);
	assert_int_equal(mcp_claude_config(&f.task, &config, &f.err), 0);
	assert_null(config);
	assert_int_equal(list(&f), 0);
	teardown(&f);
}

/* --- HTTP --- */

struct web {
	pid_t pid;
	unsigned port;
};

static struct web web_start(const char *const *args)
{
	char *argv[16] = {NULL};
	char *envp[] = {strdup("PATH=/usr/local/bin:/usr/bin:/bin"), NULL};
	int fds[2];
	char line[16] = "";
	size_t n = 0;
	struct web w = {0};

	argv[n++] = xstrdup(MCP_SERVER);
	for (; *args; args++)
		argv[n++] = xstrdup(*args);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	const struct spawn_opts o = {
		.file = MCP_SERVER, .argv = argv, .envp = envp, .stdio = {-1, fds[1], 2}, .death_signal = SIGKILL};
	assert_int_equal(spawn_start(&o, &w.pid, NULL, NULL), 0);
	close(fds[1]);
	assert_true(read(fds[0], line, sizeof line - 1) > 0);
	close(fds[0]);
	w.port = (unsigned)strtoul(line, NULL, 10);
	while (n > 0)
		free(argv[--n]);
	free(envp[0]);
	return w;
}

static void web_stop(const struct web *w)
{
	assert_int_equal(kill(w->pid, SIGKILL), 0);
	assert_int_equal(waitpid(w->pid, NULL, 0), w->pid);
}

static char *web_declared(const struct web *w, const char *transport, const char *path, const char *more)
{
	return xasprintf("mcp_server web:\n  transport: %s\n  url: \"http://127.0.0.1:%u%s\"\n%s", transport, w->port,
			 path, more);
}

static void test_http(void **state)
{
	static const char *const modes[] = {"--http", "--events"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		char *top = tmp_dir();
		auto_free char *log = xasprintf("%s/log", top);
		const char *const args[] = {"--http", modes[i], "--page", "6", "--token", "t0k", "--log", log, NULL};
		struct web w = web_start(args);
		auto_free char *server =
			web_declared(&w, "http", "/mcp", "  auth:\n    type: bearer\n    token: \"t0k\"\n");
		struct fixture f;
		setup(&f, "", server);
		begin(&f, false);
		assert_int_equal(list(&f), TOOLS);
		call(&f, "mcp.web.echo", "{\"text\": \"over http\"}");
		assert_string_equal(f.text, "over http");
		call(&f, "mcp.web.huge", "{\"n\": 6000000}");
		assert_error(&f, "it answered with more than 4 MiB");
		call(&f, "mcp.web.malformed", "{}");
		assert_error(&f, "");
		call_for(&f, 100, "mcp.web.slow", "{\"n\": 1, \"pause\": 30}");
		assert_error(&f, "did not answer within");
		call(&f, "mcp.web.echo", "{\"text\": \"still\"}");
		assert_string_equal(f.text, "still");
		/* Nobody waits for the word that a call was given up; other calls give it its time. */
		struct fixture logged = {.top = top};
		for (int k = 0; k < 1000 && !file_says(&logged, "log", "notifications/cancelled"); k++)
			call(&f, "mcp.web.echo", "{\"text\": \"still\"}");
		teardown(&f);
		f.top = top;
		assert_true(file_says(&f, "log", "\"version\": \"2025-11-25\""));
		assert_true(file_says(&f, "log", "notifications/cancelled"));
		assert_true(file_says(&f, "log", "{\"deleted\": true}"));
		web_stop(&w);
		tmp_remove(top);
	}
}

/* A stream that ends before its answer is asked for the rest, by the id of its latest event. */
static void test_http_poll(void **state)
{
	static const char *const args[] = {"--http", "--poll", NULL};
	struct web w = web_start(args);
	auto_free char *server = web_declared(&w, "http", "/mcp", "");
	struct fixture f;
	struct mcp_op *op;
	auto_json input = json_pack("{s:s}", "text", "later");

	(void)state;
	setup(&f, "", server);
	begin(&f, false);
	assert_int_equal(list(&f), TOOLS);
	call(&f, "mcp.web.echo", "{\"text\": \"later\"}");
	assert_string_equal(f.text, "later");
	/* The rest of one that never comes: given up, and cancelled. */
	call(&f, "mcp.web.hang", "{}");
	assert_error(&f, "it ended its answer without a result");
	forget(&f);
	assert_int_equal(mcp_call(&f.task, "mcp.web.echo", input, 0, on_call, &f, &op, &f.err), 0);
	for (int i = 0; i < 20; i++)
		uv_run(&f.loop, UV_RUN_ONCE);
	if (f.answers == 0)
		mcp_cancel(op);
	teardown(&f);
	web_stop(&w);
}

/* The server forgets the session: a new one begins, and what is harmless is called again. */
static void test_http_session(void **state)
{
	static const char *const args[] = {"--http", NULL};
	struct web w = web_start(args);
	auto_free char *server = web_declared(&w, "http", "/mcp", "");
	struct fixture f;

	(void)state;
	setup(&f, "", server);
	begin(&f, false);
	auto_free char *input = xasprintf("{\"text\": \"%s/mark\"}", f.top);
	call(&f, "mcp.web.forget", input);
	assert_string_equal(f.text, "remembered");
	assert_int_equal(count_events(&f, "mcp_server_started"), 2);
	teardown(&f);
	web_stop(&w);
}

static void test_http_refused(void **state)
{
	static const char *const args[] = {"--http", "--token", "other", NULL};
	struct web w = web_start(args);
	auto_free char *server = web_declared(&w, "http", "/mcp", "  auth:\n    type: bearer\n    token: \"t0ken\"\n");
	struct fixture f;

	(void)state;
	setup(&f, "", server);
	begin(&f, false);
	(void)list(&f);
	assert_error(&f, "MCP server web: it answered with status 401: who are you?");
	assert_null(strstr(f.err.msg, "t0ken"));
	teardown(&f);
	web_stop(&w);
	/* Nobody is there any more. */
	setup(&f, "", server);
	begin(&f, false);
	(void)list(&f);
	assert_error(&f, "MCP server web");
	teardown(&f);
}

static void test_sse_transport(void **state)
{
	static const char *const args[] = {"--sse", "--page", "4", "--token", "t0k", NULL};
	struct web w = web_start(args);
	auto_free char *server = web_declared(&w, "sse", "/sse", "  auth:\n    type: bearer\n    token: \"t0k\"\n");
	struct fixture f;

	(void)state;
	setup(&f, "", server);
	begin(&f, false);
	assert_int_equal(list(&f), TOOLS);
	call(&f, "mcp.web.echo", "{\"text\": \"the old way\"}");
	assert_string_equal(f.text, "the old way");
	call(&f, "mcp.web.ask", "{}");
	assert_string_equal(f.text, "{\"sample\": -32601, \"ping\": {}}");
	/* The server goes away under a call. */
	web_stop(&w);
	call(&f, "mcp.web.echo", "{\"text\": \"x\"}");
	assert_error(&f, "MCP server web");
	teardown(&f);
}

/* The token does not go to another host than the user named. */
static void test_sse_elsewhere(void **state)
{
	static const char *const args[] = {"--sse", "--endpoint", "http://127.0.0.2:9/messages", NULL};
	struct web w = web_start(args);
	auto_free char *server = web_declared(&w, "sse", "/sse", "");
	struct fixture f;

	(void)state;
	setup(&f, "", server);
	begin(&f, false);
	(void)list(&f);
	assert_error(&f, "another place than its url names");
	teardown(&f);
	web_stop(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handshake),     cmocka_unit_test(test_environment),
		cmocka_unit_test(test_paging),	      cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_versions),      cmocka_unit_test(test_crash),
		cmocka_unit_test(test_repeat),	      cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_mute),	      cmocka_unit_test(test_bad_timeout),
		cmocka_unit_test(test_not_started),   cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_deaf),	      cmocka_unit_test(test_unasked),
		cmocka_unit_test(test_refused),	      cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_stop),	      cmocka_unit_test(test_project_sandboxed),
		cmocka_unit_test(test_project_host),  cmocka_unit_test(test_claude),
		cmocka_unit_test(test_http),	      cmocka_unit_test(test_http_poll),
		cmocka_unit_test(test_http_session),  cmocka_unit_test(test_http_refused),
		cmocka_unit_test(test_sse_transport), cmocka_unit_test(test_sse_elsewhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
