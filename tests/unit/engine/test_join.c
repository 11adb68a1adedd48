/* Fan-outs, joins, failures of branches, and how many run at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_session.h"
#include "flow.h"
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <stdlib.h>
#include <string.h>

#define TOOL(name, command) "tool " name ":\n  command: `" command "`\n"
#define FAN "router r:\n  mode: fan_out_all\n"

/* How often a node ran, and whether one ran before another. */
static unsigned runs_of(const struct flow *f, const char *node)
{
	unsigned n = 0;
	size_t i;
	json_t *ev;

	json_array_foreach(f->events, i, ev) n +=
		str_eq(json_get_str(ev, "type"), "node_started") && str_eq(json_get_str(ev, "node_id"), node);
	return n;
}

static json_int_t seq_of(const struct flow *f, const char *type, const char *node)
{
	const json_t *ev = flow_event(f, type, node);

	assert_non_null(ev);
	return json_integer_value(json_object_get(ev, "seq"));
}

static void test_wait_all(void **state)
{
	(void)state;
	static const char text[] = FAN TOOL("a", "sleep 0.1; echo A") TOOL("b", "echo B")
		TOOL("j", "printf '%s-' {{outputs.a.output}} {{outputs.b.output}} {{input.x}} "
			  "{{input.y}}") "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  a -> j with { "
					 "x: \"1\" }\n  b -> j with { y: \"2\" }\n  j -> done\n";
	struct flow f;

	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){0});
	assert_int_equal(f.result.exit_code, 0);
	assert_int_equal(runs_of(&f, "j"), 1);
	assert_string_equal(json_get_str(flow_output(&f, "j"), "output"), "A\n-B\n-1-2-");
	/* Both were under way at once. */
	assert_true(seq_of(&f, "node_started", "b") < seq_of(&f, "node_finished", "a"));
	assert_true(seq_of(&f, "join_ready", "j") < seq_of(&f, "node_started", "j"));
	assert_int_equal(flow_count(&f, "branch_started"), 2);
	assert_int_equal(flow_count(&f, "branch_finished"), 2);
	assert_int_equal(flow_count(&f, "join_ready"), 1);
	assert_string_equal(json_get_str(flow_event(&f, "node_started", "a"), "branch_id"), "r.a");
	assert_null(json_get_str(flow_event(&f, "node_started", "j"), "branch_id"));
	json_t *d = json_object_get(flow_event(&f, "join_ready", "j"), "data");
	assert_string_equal(json_get_str(d, "strategy"), "wait_all");
	assert_null(json_object_get(d, "failed_branches"));
	assert_string_equal(json_get_str(json_object_get(flow_event(&f, "branch_finished", NULL), "data"), "join_node"),
			    "j");
	flow_done(&f);
}

/* Texts whose nodes each run once, or not at all; order does not matter. */
static void test_shapes(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		const char *text;
		const char *once[8];
		const char *never;
		enum run_status status;
		unsigned joins;
	} cases[] = {
		{"branches that never meet",
		 FAN TOOL("a", "true")
			 TOOL("b", "true") "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  a -> done\n  b -> done\n",
		 {"a", "b"},
		 NULL,
		 RUN_FINISHED,
		 0},
		{"two meet, then all",
		 FAN TOOL("a", "true") TOOL("b", "true") TOOL("c", "sleep 0.1") TOOL("j", "true")
			 TOOL("k", "true") "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  r -> c\n  a -> j\n  b -> "
					   "j\n  j -> k\n  c -> k\n  k -> done\n",
		 {"a", "b", "c", "j", "k"},
		 NULL,
		 RUN_FINISHED,
		 2},
		{"one ends elsewhere",
		 FAN "schema s:\n  ok: bool\ncompute a:\n  output: s\n  expr:\n    ok: \"false\"\n" TOOL(
			 "b", "sleep 0.1") TOOL("j", "true") "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  a -> j "
							     "when ok\n  a -> done\n  b -> j\n  j -> done\n",
		 {"a", "b", "j"},
		 NULL,
		 RUN_FINISHED,
		 1},
		{"a fan-out in a fan-out",
		 FAN "router q:\n  mode: fan_out_all\n" TOOL("a", "true") TOOL("b", "true") TOOL("c", "sleep 0.1") TOOL(
			 "i", "true") TOOL("j", "true") "workflow w:\n  entry: r\n  r -> q\n  r -> c\n  q -> a\n  q -> "
							"b\n  a -> i\n  b -> i\n  i -> j\n  c -> j\n  j -> done\n",
		 {"a", "b", "c", "i", "j"},
		 NULL,
		 RUN_FINISHED,
		 2},
		{"inner branches straight to the outer join",
		 FAN "router q:\n  mode: fan_out_all\n" TOOL("a", "true") TOOL("b", "true") TOOL("c", "sleep 0.1")
			 TOOL("j", "true") "workflow w:\n  entry: r\n  r -> q\n  r -> c\n  q -> a\n  q -> b\n  a -> "
					   "j\n  b -> j\n  c -> j\n  j -> done\n",
		 {"a", "b", "c", "j"},
		 NULL,
		 RUN_FINISHED,
		 2},
		{"edges with conditions",
		 "schema s:\n  ok: bool\ncompute z:\n  output: s\n  expr:\n    ok: \"true\"\n" FAN TOOL(
			 "a", "true") TOOL("b", "true") TOOL("c", "true")
			 TOOL("j",
			      "true") "workflow w:\n  entry: z\n  z -> r\n  r -> a when \"input.ok\"\n  r "
				      "-> b when \"!input.ok\"\n  r -> c\n  c -> j\n  a -> j\n  b -> j\n  j -> done\n",
		 {"a", "c", "j"},
		 "b",
		 RUN_FINISHED,
		 1},
		{"a failed branch ends the run",
		 FAN TOOL("a", "exit 3") TOOL("b", "sleep 1000") TOOL(
			 "j", "true") "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  a -> j\n  b -> j\n  j -> done\n",
		 {"a", "b"},
		 "j",
		 RUN_FAILED_RESUMABLE,
		 0},
		{"a best_effort join goes on without it",
		 FAN TOOL("a", "exit 3") TOOL("b", "sleep 0.1") TOOL(
			 "j", "true") "  await: best_effort\n"
				      "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  a -> j\n  b -> j\n  j -> done\n",
		 {"a", "b", "j"},
		 NULL,
		 RUN_FINISHED,
		 1},
		{"but not when all failed",
		 FAN TOOL("a", "exit 3") TOOL("b", "exit 4") TOOL(
			 "j", "true") "  await: best_effort\n"
				      "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  a -> j\n  b -> j\n  j -> done\n",
		 {"a", "b"},
		 "j",
		 RUN_FAILED_RESUMABLE,
		 0},
		{"fail in a branch fails the run",
		 FAN TOOL("a", "true") TOOL("b", "sleep 1000") TOOL(
			 "j",
			 "true") "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  a -> fail\n  b -> j\n  j -> done\n",
		 {"a", "b"},
		 "j",
		 RUN_FAILED,
		 0},
		{"both edges to one node",
		 FAN TOOL("j",
			  "printf '%s' {{input.x}}{{input.y}}") "workflow w:\n  entry: r\n  r -> j with { x: \"1\" }\n "
								" r -> j with { y: \"2\" }\n  j -> done\n",
		 {"j"},
		 NULL,
		 RUN_FINISHED,
		 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		fake_session_reset();
		print_message("# %s\n", cases[i].what);
		flow_run(&f, cases[i].text, &(struct flow_opts){0});
		if (f.new_result < 0)
			fail_msg("%s", f.new_err.msg);
		if (f.result.status != cases[i].status)
			fail_msg("%s: %s", run_status_name(f.result.status), f.result.err.msg);
		for (size_t k = 0; cases[i].once[k]; k++)
			if (runs_of(&f, cases[i].once[k]) != 1)
				fail_msg("%s ran %u times", cases[i].once[k], runs_of(&f, cases[i].once[k]));
		if (cases[i].never)
			assert_int_equal(runs_of(&f, cases[i].never), 0);
		assert_int_equal(flow_count(&f, "join_ready"), cases[i].joins);
		flow_done(&f);
	}
}

/* The same fan-out again and again in a loop: its branches have names of their own each time. */
static void test_fan_out_in_a_loop(void **state)
{
	(void)state;
	static const char text[] = FAN "schema s:\n  n: int\n" TOOL("a", "true")
		TOOL("b", "true") "compute j:\n  output: s\n  expr:\n    n: \"loop.l.iteration\"\n"
				  "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  a -> j\n  b -> j\n  j -> r when \"n "
				  "< 3\" as l(5)\n  j -> done\n";
	struct flow f;

	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){0});
	assert_int_equal(f.result.exit_code, 0);
	assert_int_equal(runs_of(&f, "a"), 4);
	assert_int_equal(runs_of(&f, "j"), 4);
	auto_json seen = json_object();
	size_t i;
	json_t *ev;
	json_array_foreach(f.events, i, ev)
	{
		if (!str_eq(json_get_str(ev, "type"), "branch_started"))
			continue;
		assert_null(json_object_get(seen, json_get_str(ev, "branch_id")));
		json_put_bool(seen, json_get_str(ev, "branch_id"), true);
	}
	assert_int_equal(json_object_size(seen), 8);
	flow_done(&f);
}

/* Never more at once than the budget allows, and as many as it allows. */
static void test_parallel(void **state)
{
	(void)state;
	static const struct {
		const char *budget;
		unsigned most;
	} cases[] = {
		{"", 4},
		{"  budget:\n    max_parallel_branches: 1\n", 1},
		{"  budget:\n    max_parallel_branches: 2\n", 2},
		{"  budget:\n    max_parallel_branches: 10\n", 6},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text = xasprintf(
			"%s%s%s%s%s%s%s%s  entry: r\n%s  r -> a\n  r -> b\n  r -> c\n  r -> d\n  r -> e\n  r -> f\n"
			"  a -> done\n  b -> done\n  c -> done\n  d -> done\n  e -> done\n  f -> done\n",
			FAN, TOOL("a", "sleep 0.1"), TOOL("b", "sleep 0.1"), TOOL("c", "sleep 0.1"),
			TOOL("d", "sleep 0.1"), TOOL("e", "sleep 0.1"), TOOL("f", "sleep 0.1"), "workflow w:\n",
			cases[i].budget);
		struct flow f;
		unsigned now = 0, most = 0;
		size_t k;
		json_t *ev;
		fake_session_reset();
		flow_run(&f, text, &(struct flow_opts){0});
		assert_int_equal(f.result.exit_code, 0);
		json_array_foreach(f.events, k, ev)
		{
			const char *node = json_get_str(ev, "node_id");
			if (str_eq(node, "r"))
				continue;
			now += str_eq(json_get_str(ev, "type"), "node_started");
			now -= str_eq(json_get_str(ev, "type"), "node_finished");
			most = MAX(most, now);
		}
		assert_int_equal(most, cases[i].most);
		flow_done(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wait_all),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_fan_out_in_a_loop),
		cmocka_unit_test(test_parallel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
