/* How runs end: refused before anything is created, failed starts, lost sandboxes, interrupts, time, budgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_session.h"
#include "flow.h"
#include <backend/backend.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ONE(body) "tool a:\n  command: \"" body "\"\nworkflow w:\n  entry: a\n  a -> done\n"

static bool store_is_empty(const struct flow *f)
{
	char *runs = xasprintf("%s/runs", f->top);
	bool empty = access(runs, F_OK) < 0;

	free(runs);
	return empty;
}

/* What is refused leaves nothing in the store and exits 2. */
static void test_refused(void **state)
{
	(void)state;
	static const char *const unknown[] = {"nmae=x", NULL};
	static const char *const not_int[] = {"n=x", NULL};
	static const char *const no_eq[] = {"n", NULL};
	static const char *const no_choice[] = {"n=1", "c=blue", NULL};
	static const struct {
		const char *text;
		struct flow_opts o;
		const char *error;
		const char *hint;
	} cases[] = {
		{"tool a:\n  command: \"true\"\nworkflow w:\n  entry: a\n  worktree: auto\n  a -> done\n",
		 {0},
		 "worktree: auto",
		 "worktree: none"},
		{ONE("true"), {.workspace = "/no/such/folder"}, "workspace /no/such/folder", "--workspace"},
		{ONE("true"), {.run_id = "../x"}, "run id", "letters"},
		{ONE("true"), {.preset = "p"}, "preset p", "--preset"},
		{"vars:\n  name: string = \"\"\n" ONE("true"),
		 {.vars = unknown},
		 "variable nmae",
		 "did you mean name?"},
		{"vars:\n  n: int\n" ONE("true"), {.vars = not_int}, "\"x\" is no int", "number"},
		{"vars:\n  n: int\n" ONE("true"), {.vars = no_eq}, "no name=value", "--var"},
		{"vars:\n  n: int\n" ONE("true"), {0}, "variable n: it has no default", "--var n="},
		{"vars:\n  n: int\n  c: string [enum: \"red\"] = \"red\"\n" ONE("true"),
		 {.vars = no_choice},
		 "none of its choices",
		 "red"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		fake_session_reset();
		flow_run(&f, cases[i].text, &cases[i].o);
		if (f.new_result >= 0)
			fail_msg("%s: not refused", cases[i].error);
		if (!strstr(f.new_err.msg, cases[i].error))
			fail_msg("%s", f.new_err.msg);
		if (!strstr(f.new_err.hint, cases[i].hint))
			fail_msg("%s", f.new_err.hint);
		assert_int_equal(err_exit_code(f.new_err.kind), 2);
		assert_true(store_is_empty(&f));
		assert_int_equal(fake_session.made, 0);
		flow_done(&f);
	}
}

static void test_presets(void **state)
{
	(void)state;
	static const char text[] =
		"vars:\n  x: string = \"default\"\n  y: string = \"default\"\n  z: string = \"default\"\n"
		"presets:\n  p:\n    x: \"preset\"\n    y: \"preset\"\n"
		"tool a:\n  command: \"echo {{vars.x}} {{vars.y}} {{vars.z}}\"\n"
		"workflow w:\n  entry: a\n  a -> done\n";
	static const char *const vars[] = {"y=flag", NULL};
	struct flow f;

	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){.preset = "p", .vars = vars});
	assert_string_equal(json_get_str(flow_output(&f, "a"), "output"), "preset flag default\n");
	flow_done(&f);
}

static void test_session_refused(void **state)
{
	(void)state;
	struct flow f;

	fake_session_reset();
	(void)err_set(&fake_session.new_error, ERR_SANDBOX, ENOTSUP, "no driver can serve it");
	flow_run(&f, ONE("true"), &(struct flow_opts){.mode = SANDBOX_AUTO});
	assert_int_equal(f.new_result, 0);
	assert_int_equal(f.result.exit_code, 1);
	char *trace = flow_trace(&f);
	assert_string_equal(trace, "run_started run_failed");
	assert_string_equal(json_get_str(f.record, "status"), "failed");
	assert_string_equal(json_get_str(f.record, "error"), "no driver can serve it");
	free(trace);
	flow_done(&f);
}

static void test_start_fails(void **state)
{
	(void)state;
	struct flow f;

	fake_session_reset();
	(void)err_set(&fake_session.start_error, ERR_SANDBOX, EIO, "the image is not there");
	err_hint(&fake_session.start_error, "pull it");
	flow_run(&f, ONE("true"), &(struct flow_opts){.mode = SANDBOX_AUTO});
	assert_int_equal(f.result.exit_code, 1);
	assert_int_equal(f.result.status, RUN_FAILED);
	char *trace = flow_trace(&f);
	assert_string_equal(trace, "run_started sandbox_stopped run_failed");
	assert_string_equal(json_get_str(f.record, "error"), "the image is not there");
	assert_true(json_is_null(json_object_get(f.record, "checkpoint")));
	assert_int_equal(fake_session.stopped, 1);
	free(trace);
	flow_done(&f);
}

static void test_lost(void **state)
{
	(void)state;
	struct flow f;

	fake_session_reset();
	fake_session.lose_at = 1;
	flow_run(&f, ONE("sleep 1000"), &(struct flow_opts){.mode = SANDBOX_AUTO});
	assert_int_equal(f.result.exit_code, 1);
	assert_int_equal(f.result.status, RUN_FAILED_RESUMABLE);
	json_t *d = json_object_get(flow_event(&f, "run_failed", NULL), "data");
	assert_true(json_is_true(json_object_get(d, "resumable")));
	assert_string_equal(json_get_str(d, "code"), "sandbox");
	flow_done(&f);
}

struct interrupt_case {
	const char *text;
	struct flow_opts o;
	int exit_code;
	bool kills; /* without waiting for what TERM does */
};

static void test_interrupts(void **state)
{
	(void)state;
	static const struct interrupt_case cases[] = {
		{ONE("sleep 1000"), {.interrupt_at = "node_started", .interrupts = 1, .signal = SIGINT}, 130},
		{ONE("sleep 1000"), {.interrupt_at = "node_started", .interrupts = 1, .signal = SIGTERM}, 143},
		/* before any node */
		{ONE("sleep 1000"), {.interrupt_at = "run_started", .interrupts = 1, .signal = SIGINT}, 130},
		{ONE("sleep 1000"),
		 {.interrupt_at = "sandbox_started", .interrupts = 1, .signal = SIGINT, .mode = SANDBOX_AUTO},
		 130},
		/* between nodes */
		{"tool a:\n  command: \"true\"\ntool b:\n  command: \"sleep 1000\"\nworkflow w:\n  entry: a\n  a -> "
		 "b\n  "
		 "b -> done\n",
		 {.interrupt_at = "node_finished", .interrupts = 1, .signal = SIGINT},
		 130},
		/* a second one does not wait for a node that ignores TERM */
		{ONE("trap '' TERM; while :; do sleep 0.1; done"),
		 {.interrupt_at = "node_started", .interrupts = 2, .between_ms = 300, .signal = SIGINT},
		 130,
		 true},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		fake_session_reset();
		flow_run(&f, cases[i].text, &cases[i].o);
		assert_int_equal(f.ends, 1);
		assert_int_equal(f.result.status, RUN_CANCELLED);
		assert_int_equal(f.result.exit_code, cases[i].exit_code);
		if (cases[i].kills)
			assert_true(f.took_ms < NODE_KILL_AFTER_MS);
		assert_int_equal(flow_count(&f, "run_cancelled"), 1);
		assert_int_equal(flow_count(&f, "run_finished") + flow_count(&f, "run_failed"), 0);
		assert_string_equal(json_get_str(f.record, "status"), "cancelled");
		json_t *last = json_array_get(f.events, json_array_size(f.events) - 1);
		assert_string_equal(json_get_str(last, "type"), "run_cancelled");
		assert_int_equal(fake_session.freed, fake_session.made);
		flow_done(&f);
	}
}

static void test_timeout(void **state)
{
	(void)state;
	struct flow f;

	fake_session_reset();
	flow_run(&f, ONE("sleep 1000"), &(struct flow_opts){.timeout_ms = 300});
	assert_int_equal(f.result.exit_code, 1);
	assert_int_equal(f.result.err.kind, ERR_BUDGET);
	assert_true(f.took_ms >= 300);
	json_t *d = json_object_get(flow_event(&f, "budget_exceeded", NULL), "data");
	assert_string_equal(json_get_str(d, "dimension"), "timeout");
	assert_int_equal(json_integer_value(json_object_get(d, "limit")), 300);
	assert_int_equal(flow_count(&f, "budget_warning"), 1);
	flow_done(&f);
}

static void test_budgets(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *nodes;
		bool good;
		unsigned warnings;
		const char *dimension;
	} cases[] = {
		{"schema s:\n  n: int\ncompute a:\n  output: s\n  expr:\n    n: \"1\"\n"
		 "workflow w:\n  entry: a\n  budget:\n    max_iterations: 5\n  a -> a when \"n > 0\" as l(100)\n  a -> "
		 "done\n",
		 "a a a a a", false, 1, "max_iterations"},
		{"schema s:\n  n: int\ncompute a:\n  output: s\n  expr:\n    n: \"1\"\n"
		 "workflow w:\n  entry: a\n  budget:\n    max_iterations: 5\n  a -> a when \"n > 0\" as l(4)\n  a -> "
		 "done\n",
		 "a a a a a", true, 1, NULL},
		{"tool a:\n  command: \"sleep 1000\"\nworkflow w:\n  entry: a\n  budget:\n    max_duration: "
		 "\"200ms\"\n  "
		 "a -> done\n",
		 "a", false, 1, "max_duration"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		fake_session_reset();
		flow_run(&f, cases[i].text, &(struct flow_opts){0});
		char *nodes = flow_nodes(&f, "node_started");
		assert_string_equal(nodes, cases[i].nodes);
		assert_int_equal(f.result.status, cases[i].good ? RUN_FINISHED : RUN_FAILED_RESUMABLE);
		assert_int_equal(flow_count(&f, "budget_warning"), cases[i].warnings);
		json_t *d = json_object_get(flow_event(&f, "budget_exceeded", NULL), "data");
		if (cases[i].dimension) {
			assert_string_equal(json_get_str(d, "dimension"), cases[i].dimension);
			assert_int_equal(f.result.err.kind, ERR_BUDGET);
		} else {
			assert_null(d);
		}
		free(nodes);
		flow_done(&f);
	}
}

/* A long chain of instant nodes does not keep signals from being heard. */
static void test_compute_storm(void **state)
{
	(void)state;
	static const char text[] = "schema s:\n  n: int\ncompute a:\n  output: s\n  expr:\n    n: \"1\"\n"
				   "workflow w:\n  entry: a\n  a -> a when \"n > 0\" as l(100000000)\n  a -> done\n";
	struct flow f;

	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){.timeout_ms = 200});
	assert_int_equal(f.result.err.kind, ERR_BUDGET);
	assert_true(flow_count(&f, "node_finished") > 10);
	flow_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_presets),
		cmocka_unit_test(test_session_refused),
		cmocka_unit_test(test_start_fails),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_budgets),
		cmocka_unit_test(test_compute_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
