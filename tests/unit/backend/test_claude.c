/* claude's arguments and its stream. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/ast.h>

#include <claude_code/claude_code.h>
#include <claude_code/stream.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char *joined(const struct strv *v)
{
	auto_buf b = BUF_INIT(1 << 20);

	for (size_t i = 0; i < v->n; i++)
		assert_int_equal(buf_printf(&b, "%s%s", i ? "|" : "", v->v[i]), 0);
	return buf_steal(&b);
}

#define ALWAYS "-p|--output-format|stream-json|--input-format|stream-json|--verbose|"

static struct dsl_list list(struct dsl_str *v, size_t n)
{
	return (struct dsl_list){.v = v, .n = n, .pos = {.line = 1}};
}

static void arguments(void **state)
{
	(void)state;
	struct dsl_str tools[] = {{.s = "Read"}, {.s = "Bash"}, {.s = "mcp.srv.do_it"}};
	struct dsl_str allow[] = {{.s = "Bash(git *)"}, {.s = "!Bash(git push *)"}};
	const struct dsl_node plain = {0}, readonly = {.readonly = {.v = true}};
	const struct dsl_node some = {.tools = list(tools, ARRAY_LEN(tools))}, none = {.tools = list(NULL, 0)};
	const struct dsl_node ruled = {.tools = list(tools, 2), .tool_policy = list(allow, ARRAY_LEN(allow))};
	const struct dsl_node rest = {.tool_max_steps = {.v = 7}, .reasoning_effort = {.s = "high"}};
	const struct dsl_workflow wide = {.tool_policy = list(allow + 1, 1)};
	auto_json schema = json_pack("{s:s}", "type", "object");
	const struct {
		struct claude_wish w;
		const char *want;
	} rows[] = {
		{{.node = &plain}, ALWAYS "--strict-mcp-config"},
		{{.node = &plain, .isolated = true}, ALWAYS "--dangerously-skip-permissions|--strict-mcp-config"},
		{{.node = &plain, .model = "anthropic/claude-x", .resume = "ID", .fork = true},
		 ALWAYS "--model|claude-x|--strict-mcp-config|--resume|ID|--fork-session"},
		{{.node = &plain, .fork = true}, ALWAYS "--strict-mcp-config"},
		{{.node = &readonly, .workflow = &wide},
		 ALWAYS
		 "--disallowedTools|Bash(git push *),Write,Edit,MultiEdit,NotebookEdit,Bash|--strict-mcp-config"},
		{{.node = &some},
		 ALWAYS "--tools|Read,Bash|--allowedTools|Read,Bash,mcp__srv__do_it|--strict-mcp-config"},
		{{.node = &none}, ALWAYS "--tools||--strict-mcp-config"},
		{{.node = &ruled, .isolated = true},
		 ALWAYS
		 "--permission-mode|dontAsk|--tools|Read,Bash|--allowedTools|Read,Bash(git *),Glob,Grep,LS,TodoWrite,"
		 "StructuredOutput|--disallowedTools|Bash(git push *)|--strict-mcp-config"},
		{{.node = &rest, .schema = schema, .system_file = "/s", .mcp_file = "/m"},
		 ALWAYS
		 "--effort|high|--append-system-prompt-file|/s|--max-turns|7|--json-schema|{\"type\":\"object\"}|"
		 "--mcp-config|/m|--strict-mcp-config"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_strv argv = {0};
		claude_arguments(&rows[i].w, &argv);
		auto_free char *got = joined(&argv);
		assert_string_equal(got, rows[i].want);
	}
}

static void note(void *arg, const char *type, json_t *data)
{
	struct buf *b = arg;
	auto_free char *text = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS | JSON_REALS);

	assert_int_equal(buf_printf(b, "%s %s\n", type, text), 0);
	json_decref(data);
}

static void feed(struct agent_turn *t, struct buf *events, const char *line)
{
	const struct agent_sink sink = {.emit = note, .arg = events};
	auto_json j = json_loads(line, 0, NULL);

	assert_non_null(j);
	claude_line(t, &sink, j);
}

/* What becomes an argument of the next start cannot be an option. */
static void names_of_conversations(void **state)
{
	static const char *const names[] = {"--settings=/x", "-c", "", "a b", "../x", "a\\nb"};
	auto_buf events = BUF_INIT(1 << 20);
	struct agent_turn t;

	(void)state;
	turn_init(&t);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *begins =
			xasprintf("{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"%s\"}", names[i]);
		auto_free char *ends = xasprintf("{\"type\":\"result\",\"session_id\":\"%s\"}", names[i]);
		feed(&t, &events, begins);
		feed(&t, &events, ends);
		if (t.session)
			fail_msg("row %zu: %s", i, t.session);
	}
	turn_done(&t);
}

static void a_turn(void **state)
{
	(void)state;
	struct agent_turn t;
	auto_buf events = BUF_INIT(1 << 20);

	turn_init(&t);
	feed(&t, &events, "{\"session_id\":\"S\",\"subtype\":\"init\",\"model\":\"m\",\"type\":\"system\"}");
	feed(&t, &events,
	     "{\"type\":\"system\",\"subtype\":\"api_retry\",\"attempt\":1,\"retry_delay_ms\":526.8,\"error_status\":"
	     "429}");
	feed(&t, &events,
	     "{\"type\":\"assistant\",\"message\":{\"id\":\"1\",\"model\":\"m\",\"usage\":{\"input_tokens\":7,"
	     "\"output_tokens\":1,\"cache_read_input_tokens\":2,\"cache_creation_input_tokens\":3},"
	     "\"content\":[{\"type\":\"text\","
	     "\"text\":"
	     "\"hm\"}]}}");
	feed(&t, &events,
	     "{\"type\":\"assistant\",\"message\":{\"id\":\"1\",\"content\":[{\"type\":\"tool_use\",\"id\":\"T\","
	     "\"name\":"
	     "\"Bash\",\"input\":{\"command\":\"ls\"}}]}}");
	feed(&t, &events,
	     "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"T\",\"content\":"
	     "[{"
	     "\"type\":\"text\",\"text\":\"four\"}],\"is_error\":true},{\"type\":\"tool_result\",\"tool_use_id\":\"U\"}"
	     "]}}");
	feed(&t, &events,
	     "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"fin\",\"session_id\":\"S2\","
	     "\"total_cost_usd\":0.5,\"usage\":{\"input_tokens\":1},\"modelUsage\":{\"a\":{\"inputTokens\":2,"
	     "\"outputTokens\":3},\"b\":{\"inputTokens\":4,\"cacheReadInputTokens\":5}},\"permission_denials\":[1,2],"
	     "\"structured_output\":{\"x\":1}}");
	claude_end(&t, "");
	assert_string_equal(
		buf_str(&events),
		"llm_request {\"backend\":\"claude_code\",\"model\":\"m\",\"purpose\":\"step\"}\n"
		"delegate_retry {\"attempt\":1,\"backend\":\"claude_code\",\"by\":\"claude\",\"delay_ms\":526,"
		"\"status\":429}\n"
		"llm_step_finished "
		"{\"cache_read_tokens\":2,\"cache_write_tokens\":3,\"input_tokens\":7,\"model\":\"m\","
		"\"output_tokens\":1,\"step\":1}\n"
		"tool_started {\"preview\":\"ls\",\"tool\":\"Bash\",\"tool_use_id\":\"T\"}\n"
		"tool_called {\"is_error\":true,\"output_len\":4,\"preview\":\"ls\",\"tool\":\"Bash\","
		"\"tool_use_id\":\"T\"}\n"
		"llm_request {\"backend\":\"claude_code\",\"model\":\"m\",\"purpose\":\"step\"}\n");
	assert_true(t.ended && !t.failed && !t.lost_session);
	assert_string_equal(t.session, "S2");
	assert_string_equal(t.text, "fin");
	assert_int_equal(t.usage.input, 6);
	assert_int_equal(t.usage.output, 3);
	assert_int_equal(t.usage.cache_read, 5);
	assert_float_equal(t.cost_usd, 0.5, 1e-9);
	assert_int_equal(t.denied, 2);
	assert_int_equal(json_object_size(t.structured), 1);
	turn_done(&t);
}

static void ends(void **state)
{
	(void)state;
	static const struct {
		const char *line, *stderr_text, *error;
		int status;
		bool failed, retryable, at_limit, lost;
	} rows[] = {
		{"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":529,\"result\":"
		 "\"API\"}",
		 "", "API", 529, true, true, false, false},
		{"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":401,\"result\":"
		 "\"no\"}",
		 "", "no", 401, true, false, false, false},
		{"{\"type\":\"result\",\"subtype\":\"error_max_turns\",\"is_error\":true,\"errors\":[\"Reached\"]}", "",
		 "Reached", 0, true, false, true, false},
		{"{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"errors\":[\"No "
		 "conversation "
		 "found with session ID: x\"]}",
		 "", "No conversation found with session ID: x", 0, true, false, false, true},
		{"{\"type\":\"result\"}", "No conversation found with session ID: y\n", "an error without a name", 0,
		 true, false, false, true},
		{"{\"type\":\"result\",\"is_error\":\"false\"}", "", "an error without a name", 0, true, false, false,
		 false},
		{"{\"type\":\"result\",\"is_error\":true,\"api_error_status\":1e9,\"subtype\":7}", "",
		 "an error without a name", 0, true, false, false, false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct agent_turn t;
		auto_buf events = BUF_INIT(1 << 20);
		turn_init(&t);
		feed(&t, &events, rows[i].line);
		claude_end(&t, rows[i].stderr_text);
		assert_string_equal(t.error ? t.error : "", rows[i].error);
		assert_int_equal(t.status, rows[i].status);
		assert_true(t.ended);
		assert_int_equal(t.failed, rows[i].failed);
		assert_int_equal(t.retryable, rows[i].retryable);
		assert_int_equal(t.at_limit, rows[i].at_limit);
		assert_int_equal(t.lost_session, rows[i].lost);
		turn_done(&t);
	}
}

/* Counts on the way: those of one answer come with each of its pieces, also when pieces of two answers mix. */
static void counts_on_the_way(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"{\"type\":\"assistant\",\"message\":{\"id\":\"1\",\"model\":\"claude-sonnet-4-5\","
		"\"usage\":{\"input_tokens\":1000000,\"output_tokens\":1}}}",
		"{\"type\":\"assistant\",\"message\":{\"id\":\"2\",\"usage\":{\"input_tokens\":10}}}",
		"{\"type\":\"assistant\",\"message\":{\"id\":\"1\","
		"\"usage\":{\"input_tokens\":1000000,\"output_tokens\":6}}}",
		"{\"type\":\"assistant\",\"message\":{\"id\":\"2\",\"usage\":{\"input_tokens\":-10}}}",
	};
	struct agent_turn t;
	auto_buf events = BUF_INIT(1 << 20);

	turn_init(&t);
	assert_true(turn_cost(&t, "claude-sonnet-4-5") < 0);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		feed(&t, &events, lines[i]);
	assert_int_equal(t.steps, 2);
	assert_int_equal(turn_usage(&t)->input, 1000010);
	assert_int_equal(turn_usage(&t)->output, 6);
	assert_float_equal(turn_cost(&t, NULL), 3.0001, 0.001);
	/* The end knows better. */
	feed(&t, &events,
	     "{\"type\":\"result\",\"is_error\":false,\"usage\":{\"input_tokens\":5},\"total_cost_usd\":0.25}");
	assert_int_equal(usage_total(turn_usage(&t)), 5);
	assert_float_equal(turn_cost(&t, NULL), 0.25, 1e-9);
	turn_done(&t);
}

/* Whatever shape a known line has, it is taken for what it is worth. */
static void odd_lines(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"{}",
		"{\"type\":5}",
		"{\"type\":\"assistant\"}",
		"{\"type\":\"assistant\",\"message\":[]}",
		"{\"type\":\"assistant\",\"message\":{\"content\":\"x\"}}",
		"{\"type\":\"assistant\",\"message\":{\"content\":[null,1,[],{\"type\":\"tool_use\",\"input\":3}]}}",
		"{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":{}}]}}",
		"{\"type\":\"system\",\"subtype\":\"api_retry\",\"attempt\":\"x\",\"retry_delay_ms\":-1e300}",
		"{\"type\":\"result\",\"usage\":7,\"modelUsage\":{\"a\":1},\"total_cost_usd\":-1,\"is_error\":false,"
		"\"structured_output\":[],\"permission_denials\":{}}",
		"{\"type\":\"result\",\"usage\":{\"input_tokens\":-5,\"output_tokens\":9223372036854775807},\"is_"
		"error\":false}",
	};
	struct agent_turn t;
	auto_buf events = BUF_INIT(1 << 20);

	turn_init(&t);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		feed(&t, &events, lines[i]);
	assert_int_equal(t.usage.input, 0);
	assert_true(t.usage.output > 0 && usage_total(&t.usage) > 0);
	assert_null(t.structured);
	turn_done(&t);
}

static void a_flood_of_events(void **state)
{
	(void)state;
	struct agent_turn t;
	auto_buf events = BUF_INIT(64 << 20);

	turn_init(&t);
	for (int i = 0; i < 30000; i++)
		feed(&t, &events,
		     "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\",\"id\":\"T\",\"name\":"
		     "\"N\"}]}}");
	size_t lines = 0;
	for (const char *p = buf_str(&events); (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, 20000);
	turn_done(&t);
}

static void previews(void **state)
{
	(void)state;
	struct agent_turn t;
	auto_buf events = BUF_INIT(1 << 20), line = BUF_INIT(1 << 20);

	turn_init(&t);
	assert_int_equal(buf_puts(&line,
				  "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\",\"id\":"
				  "\"T\",\"name\":\"Write\",\"input\":{\"file_path\":\""),
			 0);
	for (int i = 0; i < 250; i++)
		assert_int_equal(buf_puts(&line, "\u00e4"), 0);
	assert_int_equal(buf_puts(&line, "\"}}]}}"), 0);
	feed(&t, &events, buf_str(&line));
	const char *preview = json_get_str(json_object_get(t.calls, "T"), "preview");
	assert_non_null(preview);
	assert_int_equal(strlen(preview), 2 * PREVIEW_MAX);
	turn_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments),
		cmocka_unit_test(names_of_conversations),
		cmocka_unit_test(a_turn),
		cmocka_unit_test(ends),
		cmocka_unit_test(counts_on_the_way),
		cmocka_unit_test(odd_lines),
		cmocka_unit_test(a_flood_of_events),
		cmocka_unit_test(previews),
	};

	return cmocka_run_group_tests_name("backend claude", tests, NULL, NULL);
}
