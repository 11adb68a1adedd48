/* Reading events for people: times, durations, and data of any shape without a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "event_view.h"

#include <base/json.h>
#include <base/mem.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void times(void **state)
{
	static const struct {
		const char *json;
		uint64_t ms;
	} cases[] = {
		{"{\"timestamp\":\"1970-01-01T00:00:00.000Z\"}", 0},
		{"{\"timestamp\":\"1970-01-01T00:00:01.500Z\"}", 1500},
		{"{\"timestamp\":\"2026-01-02T03:04:05.678Z\"}", 1767323045678},
		{"{\"timestamp\":\"nonsense\"}", 0},
		{"{\"timestamp\":12}", 0},
		{"{}", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_json j = json_parse(cases[i].json, strlen(cases[i].json), NULL);
		assert_non_null(j);
		assert_int_equal(event_time_ms(j), cases[i].ms);
	}
}

static void durations(void **state)
{
	static const struct {
		uint64_t ms;
		const char *text;
	} cases[] = {{0, "0 ms"}, {999, "999 ms"}, {1250, "1.25 s"}, {59999, "60.00 s"}, {200000, "3 min 20 s"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[DURATION_TEXT_SIZE];
		duration_text(text, cases[i].ms);
		assert_string_equal(text, cases[i].text);
	}
}

static void last_events(void **state)
{
	(void)state;
	assert_true(event_ends_run("run_finished") && event_ends_run("run_failed"));
	assert_true(event_ends_run("run_cancelled") && event_ends_run("run_paused"));
	assert_false(event_ends_run("run_started") || event_ends_run("node_finished") || event_ends_run(""));
}

static void failures_of_nodes(void **state)
{
	static const struct {
		const char *text;
		bool want;
	} rows[] = {
		{"{\"type\":\"node_error\"}", true},
		{"{\"type\":\"tool_error\",\"data\":{\"error\":\"e\"}}", true},
		{"{\"type\":\"tool_error\",\"data\":{\"error\":\"e\",\"tool\":\"Bash\"}}", false},
		{"{\"type\":\"delegate_error\"}", false},
		{"{}", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_json j = json_loads(rows[i].text, 0, NULL);
		assert_int_equal(event_fails_node(j), rows[i].want);
	}
}

/* Every type with data that is missing or of the wrong kind: the file may be damaged or another version's. */
static void odd_shapes(void **state)
{
	static const char *const types[] = {
		"run_started",	   "run_failed",       "sandbox_started",  "sandbox_skipped",
		"sandbox_warning", "node_started",     "node_finished",	   "network_blocked",
		"network_summary", "budget_warning",   "edge_selected",	   "tool_error",
		"delegate_retry",  "something_new",    "run_resumed",	   "human_input_requested",
		"node_error",	   "sandbox_stopped",  "worktree_created", "worktree_merged",
		"worktree_kept",   "worktree_warning", "sandbox_starting", ""};
	static const char *const data[] = {
		"",
		",\"data\":null",
		",\"data\":[]",
		",\"data\":\"x\"",
		",\"data\":{}",
		",\"data\":{\"output\":7,\"network\":3,\"hosts\":\"x\",\"count\":\"y\",\"_tokens\":\"z\",\"start_ms\":["
		"]}",
		",\"data\":{\"output\":{\"output\":\"\\n\\n\"},\"network\":{\"mode\":\"learn\"},\"hosts\":[1,{}],"
		"\"host\":{}}",
		",\"node_id\":\"n\",\"data\":{\"output\":{\"a\":[1,2]},\"count\":-5}",
		",\"node_id\":\"n\",\"data\":{\"nodes\":[1,\"n\",{},\"m\"],\"branch\":[],\"path\":{}}",
	};

	(void)state;
	/* What it prints is not what this program reports. */
	int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_true(saved >= 0 && null >= 0 && fflush(stdout) == 0 && dup2(null, STDOUT_FILENO) >= 0);
	for (int detailed = 0; detailed < 2; detailed++) {
		struct event_view v = {.detailed = detailed};
		for (size_t i = 0; i < ARRAY_LEN(types); i++) {
			for (size_t k = 0; k < ARRAY_LEN(data); k++) {
				char text[512];
				int n = snprintf(text, sizeof text, "{\"type\":\"%s\"%s}", types[i], data[k]);
				auto_json j = json_parse(text, (size_t)n, NULL);
				assert_non_null(j);
				event_view_show(&v, j);
			}
		}
		event_view_done(&v);
	}
	assert_true(fflush(stdout) == 0 && dup2(saved, STDOUT_FILENO) >= 0);
	close(saved);
	close(null);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times),       cmocka_unit_test(durations),
		cmocka_unit_test(last_events), cmocka_unit_test(failures_of_nodes),
		cmocka_unit_test(odd_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
