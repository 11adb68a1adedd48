/* codex's arguments and its events. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/ast.h>

#include <codex/arguments.h>
#include <codex/stream.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ALWAYS                                                                                                         \
	"exec|--json|--skip-git-repo-check|--disable|plugins|-c|analytics.enabled=false|-c|"                           \
	"check_for_update_on_startup=false|-c|shell_environment_policy.exclude=[\"CODEX_API_KEY\"]|"

static void arguments(void **state)
{
	(void)state;
	const struct dsl_node plain = {0}, careful = {.readonly = {.v = true}, .reasoning_effort = {.s = "max"}};
	const struct {
		struct codex_wish w;
		const char *mode, *want;
	} rows[] = {
		{{.node = &plain}, "workspace-write", ALWAYS "--sandbox|workspace-write|-"},
		{{.node = &plain, .isolated = true},
		 "danger-full-access",
		 ALWAYS "--dangerously-bypass-approvals-and-sandbox|-"},
		{{.node = &careful, .isolated = true},
		 "read-only",
		 ALWAYS "-c|model_reasoning_effort=\"xhigh\"|--sandbox|read-only|-"},
		{{.node = &plain, .model = "openai/gpt-x", .schema_file = "/s", .resume = "ID"},
		 "workspace-write",
		 ALWAYS "--sandbox|workspace-write|--model|gpt-x|--output-schema|/s|resume|ID|-"},
		{{.node = &plain, .resume = "ID", .fork = true},
		 "workspace-write",
		 ALWAYS "--sandbox|workspace-write|fork|ID|-"},
		{{.node = &plain, .base_url = "http://x/\"\\\n"},
		 "workspace-write",
		 ALWAYS "-c|model_providers.iterion={name=\"iterion\",base_url=\"http://x/\\\"\\\\\\u000A\",env_key="
			"\"CODEX_API_KEY\",wire_api=\"responses\",request_max_retries=2,stream_max_retries=2}|-c|"
			"model_provider=\"iterion\"|--sandbox|workspace-write|-"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_strv argv = {0};
		auto_buf b = BUF_INIT(1 << 16);
		codex_arguments(&rows[i].w, &argv);
		for (size_t k = 0; k < argv.n; k++)
			assert_int_equal(buf_printf(&b, "%s%s", k ? "|" : "", argv.v[k]), 0);
		assert_string_equal(buf_str(&b), rows[i].want);
		assert_string_equal(codex_permission_mode(&rows[i].w), rows[i].mode);
	}
}

static void note(void *arg, const char *type, json_t *data)
{
	struct buf *b = arg;
	auto_free char *text = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);

	assert_int_equal(buf_printf(b, "%s %s\n", type, text), 0);
	json_decref(data);
}

static void feed(struct agent_turn *t, struct buf *events, const char *line, struct agent_usage *total)
{
	const struct agent_sink sink = {.emit = note, .arg = events};
	auto_json j = json_loads(line, 0, NULL);

	assert_non_null(j);
	codex_line(t, &sink, j, total);
}

/* What becomes an argument of the next start cannot be an option. */
static void names_of_conversations(void **state)
{
	auto_buf events = BUF_INIT(1 << 20);
	struct agent_usage total = {0};
	struct agent_turn t;

	(void)state;
	turn_init(&t);
	feed(&t, &events, "{\"type\":\"thread.started\",\"thread_id\":\"--last\"}", &total);
	assert_null(t.session);
	turn_done(&t);
}

#define REQUEST "llm_request {\"backend\":\"codex\",\"purpose\":\"step\"}\n"

static void a_turn(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"{\"type\":\"thread.started\",\"thread_id\":\"T\"}",
		"{\"type\":\"item.completed\",\"item\":{\"id\":\"0\",\"type\":\"error\",\"message\":\"odd\"}}",
		"{\"type\":\"turn.started\"}",
		"{\"type\":\"item.started\",\"item\":{\"id\":\"1\",\"type\":\"command_execution\",\"command\":\"ls\"}}",
		"{\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"command_execution\",\"command\":\"ls\","
		"\"aggregated_output\":\"abc\",\"exit_code\":2,\"status\":\"failed\"}}",
		"{\"type\":\"item.completed\",\"item\":{\"id\":\"2\",\"type\":\"mcp_tool_call\",\"server\":\"s\","
		"\"tool\":\"t\","
		"\"arguments\":{\"a\":1},\"status\":\"completed\"}}",
		"{\"type\":\"error\",\"message\":\"Reconnecting... 1/1\"}",
		"{\"type\":\"item.completed\",\"item\":{\"id\":\"3\",\"type\":\"agent_message\",\"text\":\"{\\\"n\\\":"
		"1}\"}}",
		"{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":20,\"cached_input_tokens\":5,\"output_"
		"tokens\":7}}",
	};
	struct agent_turn t;
	struct agent_usage total = {.input = -1};
	auto_buf events = BUF_INIT(1 << 20);

	turn_init(&t);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		feed(&t, &events, lines[i], &total);
	codex_end(&t, "");
	assert_string_equal(
		buf_str(&events), REQUEST
		"tool_started {\"preview\":\"ls\",\"tool\":\"command_execution\",\"tool_use_id\":\"1\"}\n"
		"tool_called {\"is_error\":true,\"output_len\":3,\"preview\":\"ls\",\"tool\":"
		"\"command_execution\",\"tool_use_id\":\"1\"}\n" REQUEST
		"tool_started {\"preview\":\"{\\\"arguments\\\":{\\\"a\\\":1}}\",\"tool\":\"mcp.s.t\",\"tool_use_id\":"
		"\"2\"}\n"
		"tool_called {\"output_len\":0,\"preview\":\"{\\\"arguments\\\":{\\\"a\\\":1}}\",\"tool\":\"mcp.s.t\","
		"\"tool_use_id\":\"2\"}\n" REQUEST "llm_step_finished {\"step\":1}\n");
	assert_true(t.ended && !t.failed);
	assert_string_equal(t.session, "T");
	assert_int_equal(json_object_size(t.structured), 1);
	assert_int_equal(total.input, 15);
	assert_int_equal(total.cache_read, 5);
	assert_int_equal(total.output, 7);
	turn_done(&t);
}

static void failures(void **state)
{
	(void)state;
	static const struct {
		const char *line, *error;
		int status;
		bool retryable;
	} rows[] = {
		{"{\"type\":\"turn.failed\",\"error\":{\"message\":\"exceeded retry limit, last status: 429 Too "
		 "Many\"}}",
		 "exceeded retry limit, last status: 429 Too Many", 429, true},
		{"{\"type\":\"turn.failed\",\"error\":{\"message\":\"unexpected status 401 Unauthorized: status x\"}}",
		 "unexpected status 401 Unauthorized: status x", 401, false},
		{"{\"type\":\"turn.failed\",\"error\":{\"message\":\"{\\\"error\\\":{\\\"message\\\":\\\"too "
		 "odd\\\"}}\"}}",
		 "too odd", 0, false},
		{"{\"type\":\"turn.failed\",\"error\":{\"message\":\"stream disconnected before completion\"}}",
		 "stream disconnected before completion", 0, true},
		{"{\"type\":\"turn.failed\"}", "the turn failed, and codex did not say why", 0, false},
		{"{\"type\":\"turn.failed\",\"error\":{\"message\":\"status: 99999999999999999999\"}}",
		 "status: 99999999999999999999", 0, false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct agent_turn t;
		struct agent_usage total;
		auto_buf events = BUF_INIT(4096);
		turn_init(&t);
		feed(&t, &events, rows[i].line, &total);
		codex_end(&t, i ? "" : "Error: thread/resume failed: no rollout found for thread id x");
		assert_string_equal(t.error, rows[i].error);
		assert_int_equal(t.status, rows[i].status);
		assert_int_equal(t.retryable, rows[i].retryable);
		assert_true(t.ended && t.failed);
		assert_int_equal(t.lost_session, i == 0);
		turn_done(&t);
	}
}

static void odd_lines(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"{}",
		"{\"type\":\"thread.started\",\"thread_id\":7}",
		"{\"type\":\"item.completed\"}",
		"{\"type\":\"item.completed\",\"item\":{\"type\":\"command_execution\"}}",
		"{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":[]}}",
		"{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":3,\"cached_input_tokens\":9,\"output_"
		"tokens\":-1}}",
	};
	struct agent_turn t;
	struct agent_usage total = {0};
	auto_buf events = BUF_INIT(1 << 16);

	turn_init(&t);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		feed(&t, &events, lines[i], &total);
	codex_end(&t, "");
	assert_null(t.session);
	assert_null(t.text);
	assert_int_equal(usage_total(&total), 3);
	turn_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments), cmocka_unit_test(names_of_conversations),
		cmocka_unit_test(a_turn),    cmocka_unit_test(failures),
		cmocka_unit_test(odd_lines),
	};

	return cmocka_run_group_tests_name("backend codex", tests, NULL, NULL);
}
