/* Whole runs: the order of things, the way between nodes, values that travel, what is on disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_session.h"
#include "flow.h"
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Texts are written with real line ends; a case says what the nodes started are, and how the run ends. */
struct run_case {
	const char *what;
	const char *text;
	const char *nodes; /* node_started, in order */
	enum run_status status;
	const char *error; /* part of it; NULL: none */
};

static void test_flows(void **state)
{
	(void)state;
	static const struct run_case cases[] = {
		{"one node", "tool a:\n  command: \"true\"\nworkflow w:\n  entry: a\n  a -> done\n", "a", RUN_FINISHED,
		 NULL},
		{"two in a row",
		 "tool a:\n  command: \"true\"\ntool b:\n  command: \"true\"\nworkflow w:\n  entry: a\n  a -> b\n  b "
		 "-> "
		 "done\n",
		 "a b", RUN_FINISHED, NULL},
		{"a condition that holds",
		 "schema s:\n  ok: bool\ntool a:\n  command: `echo '{\"ok\":true}'`\n  output: s\n"
		 "tool b:\n  command: \"true\"\ntool c:\n  command: \"true\"\n"
		 "workflow w:\n  entry: a\n  a -> b when ok\n  a -> c\n  b -> done\n  c -> done\n",
		 "a b", RUN_FINISHED, NULL},
		{"a condition that does not",
		 "schema s:\n  ok: bool\ntool a:\n  command: `echo '{\"ok\":false}'`\n  output: s\n"
		 "tool b:\n  command: \"true\"\ntool c:\n  command: \"true\"\n"
		 "workflow w:\n  entry: a\n  a -> b when ok\n  a -> c\n  b -> done\n  c -> done\n",
		 "a c", RUN_FINISHED, NULL},
		{"when not",
		 "schema s:\n  ok: bool\ntool a:\n  command: `echo '{\"ok\":false}'`\n  output: s\n"
		 "tool b:\n  command: \"true\"\n"
		 "workflow w:\n  entry: a\n  a -> b when not ok\n  a -> fail\n  b -> done\n",
		 "a b", RUN_FINISHED, NULL},
		{"an expression",
		 "schema s:\n  n: int\ntool a:\n  command: `echo '{\"n\":7}'`\n  output: s\n"
		 "tool b:\n  command: \"true\"\n"
		 "workflow w:\n  entry: a\n  a -> b when \"n > 5 && outputs.a.n < 10\"\n  a -> fail\n  b -> done\n",
		 "a b", RUN_FINISHED, NULL},
		{"fail is a failure", "tool a:\n  command: \"true\"\nworkflow w:\n  entry: a\n  a -> fail\n", "a",
		 RUN_FAILED, "node a: the workflow went on to fail"},
		{"a failed tool ends the run",
		 "tool a:\n  command: \"echo why >&2; exit 3\"\ntool b:\n  command: \"true\"\n"
		 "workflow w:\n  entry: a\n  a -> b\n  b -> done\n",
		 "a", RUN_FAILED, "node a: exit code 3: why"},
		{"a failure after a checkpoint can be resumed",
		 "tool a:\n  command: \"true\"\ntool b:\n  command: \"exit 2\"\n"
		 "workflow w:\n  entry: a\n  a -> b\n  b -> done\n",
		 "a b", RUN_FAILED_RESUMABLE, "node b: exit code 2"},
		{"a loop ends with its condition",
		 "schema s:\n  n: int\n"
		 "compute a:\n  output: s\n  expr:\n    n: \"loop.l.iteration\"\n"
		 "workflow w:\n  entry: a\n  a -> done when \"n >= 2\"\n  a -> a as l(10)\n",
		 "a a a", RUN_FINISHED, NULL},
		{"a loop stops at its limit and the other edge is taken",
		 "tool b:\n  command: \"true\"\nschema s:\n  n: int\n"
		 "compute c:\n  output: s\n  expr:\n    n: \"1\"\n"
		 "workflow w:\n  entry: c\n  c -> c when \"n == 1\" as l(2)\n  c -> b\n  b -> done\n",
		 "c c c b", RUN_FINISHED, NULL},
		{"an exhausted loop without a way out",
		 "schema s:\n  again: bool\ncompute a:\n  output: s\n  expr:\n    again: \"true\"\n"
		 "workflow w:\n  entry: a\n  a -> a when again as l(2)\n  a -> done when not again\n",
		 "a a a", RUN_FAILED_RESUMABLE, "loop l is exhausted after 2 iterations"},
		{"round robin",
		 "schema s:\n  n: int\n"
		 "compute c:\n  output: s\n  expr:\n    n: \"loop.l.iteration\"\n"
		 "router r:\n  mode: round_robin\n"
		 "tool a:\n  command: \"true\"\ntool b:\n  command: \"true\"\n"
		 "workflow w:\n  entry: c\n  c -> done when \"n >= 3\"\n  c -> r\n  r -> a\n  r -> b\n  a -> c as "
		 "l(9)\n  b -> "
		 "c as l(9)\n",
		 "c r a c r b c r a c", RUN_FINISHED, NULL},
		{"a value that is too long for a command",
		 "tool a:\n  command: `head -c 200000 /dev/zero | tr '\\000' x`\n"
		 "tool b:\n  command: \"echo {{outputs.a.output}}\"\n"
		 "workflow w:\n  entry: a\n  a -> b\n  b -> done\n",
		 "a b", RUN_FAILED_RESUMABLE, "node b: its command has 200007 bytes"},
		{"an output that breaks its schema",
		 "schema s:\n  n: int\n  t: string [enum: \"x\", \"y\"]\n"
		 "tool a:\n  command: `echo '{\"n\":\"1\",\"t\":\"z\"}'`\n  output: s\n"
		 "workflow w:\n  entry: a\n  a -> done\n",
		 "a", RUN_FAILED,
		 "node a: the output does not keep to schema s: field n is a string, not int; field t is \"z\""},
		{"an output that is no JSON, and says so by one key",
		 "schema s:\n  n: int\ntool a:\n  command: `echo '{\"n\":1,\"n\":2}'`\n  output: s\n"
		 "workflow w:\n  entry: a\n  a -> done\n",
		 "a", RUN_FAILED,
		 "node a: what it printed is no JSON object (JSON, line 1 column 10: duplicate object key near "
		 "'\"n\"'): "
		 "the output does not keep to schema s: field n is missing"},
		{"an output that is JSON, but no object",
		 "schema s:\n  n: int\ntool a:\n  command: `echo '[1]'`\n  output: s\n"
		 "workflow w:\n  entry: a\n  a -> done\n",
		 "a", RUN_FAILED, "node a: what it printed is no JSON object (it is another value): the output"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		fake_session_reset();
		flow_run(&f, cases[i].text, &(struct flow_opts){0});
		char *nodes = flow_nodes(&f, "node_started");
		bool good = cases[i].status == RUN_FINISHED;
		print_message("# %s\n", cases[i].what);
		if (f.new_result < 0)
			fail_msg("%s", f.new_err.msg);
		assert_string_equal(nodes, cases[i].nodes);
		assert_int_equal(f.ends, 1);
		assert_int_equal(f.result.status, cases[i].status);
		assert_int_equal(f.result.exit_code, good ? 0 : 1);
		assert_string_equal(json_get_str(f.record, "status"), run_status_name(cases[i].status));
		if (cases[i].error) {
			if (!strstr(f.result.err.msg, cases[i].error))
				fail_msg("%s", f.result.err.msg);
			assert_true(f.result.err.hint[0]);
			assert_string_equal(json_get_str(f.record, "error"), f.result.err.msg);
			assert_int_equal(flow_count(&f, "run_failed"), 1);
		} else {
			assert_int_equal(f.result.err.kind, ERR_NONE);
			assert_int_equal(flow_count(&f, "run_finished"), 1);
		}
		assert_int_equal(fake_session.stopped, fake_session.made);
		assert_int_equal(fake_session.freed, fake_session.made);
		free(nodes);
		flow_done(&f);
	}
}

static void test_order_of_events(void **state)
{
	(void)state;
	struct flow f;

	fake_session_reset();
	fake_session.early_event = true;
	flow_run(&f, "tool a:\n  command: \"echo hi\"\nworkflow w:\n  entry: a\n  a -> done\n",
		 &(struct flow_opts){.mode = SANDBOX_AUTO, .run_id = "my-run"});
	char *trace = flow_trace(&f);
	assert_string_equal(trace, "run_started sandbox_warning sandbox_started node_started:a node_finished:a "
				   "edge_selected:a sandbox_stopped run_finished");
	size_t i;
	json_t *ev;
	json_array_foreach(f.events, i, ev)
	{
		assert_int_equal(json_integer_value(json_object_get(ev, "seq")), i);
		assert_string_equal(json_get_str(ev, "run_id"), "my-run");
	}
	json_t *d = json_object_get(flow_event(&f, "edge_selected", "a"), "data");
	assert_string_equal(json_get_str(d, "to"), "done");
	assert_string_equal(json_get_str(json_object_get(flow_event(&f, "node_started", "a"), "data"), "kind"), "tool");
	assert_string_equal(json_get_str(flow_output(&f, "a"), "output"), "hi\n");
	json_t *cp = json_object_get(f.record, "checkpoint");
	assert_string_equal(json_get_str(cp, "node_id"), "a");
	assert_string_equal(json_get_str(json_object_get(json_object_get(cp, "outputs"), "a"), "output"), "hi\n");
	free(trace);
	flow_done(&f);
}

static void test_values(void **state)
{
	(void)state;
	static const char text[] =
		"vars:\n  who: string = \"you\"\n  list: string[] = [\"a b\", \"c\"]\n  n: int = 4\n"
		"schema s:\n  n: int\n  t: string\n"
		"tool a:\n  command: \"printf '%s|' {{vars.who}} {{vars.list}} {{input.n}}\"\n"
		"tool b:\n  command: \"printf '%s|' {{input.whole.exit_code}} {{input.text}} {{input.n}}\"\n"
		"compute c:\n  output: s\n  expr:\n    n: \"input.exit_code + vars.n\"\n    t: \"run.id\"\n"
		"workflow w:\n  entry: a\n"
		"  a -> b with { whole: \"{{outputs.a}}\", text: \"<{{outputs.a.output}}>\", n: \"{{vars.n}}\" }\n"
		"  b -> c\n  c -> done\n";
	const char *const vars[] = {"who=it's me; $(id)", NULL};
	struct flow f;

	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){.vars = vars, .run_id = "r1"});
	assert_int_equal(f.result.exit_code, 0);
	assert_string_equal(json_get_str(flow_output(&f, "a"), "output"), "it's me; $(id)|a b|c|4|");
	assert_string_equal(json_get_str(flow_output(&f, "b"), "output"), "0|<it's me; $(id)|a b|c|4|>|4|");
	assert_int_equal(json_integer_value(json_object_get(flow_output(&f, "c"), "n")), 4);
	assert_string_equal(json_get_str(flow_output(&f, "c"), "t"), "r1");
	assert_string_equal(json_get_str(json_object_get(f.record, "inputs"), "who"), "it's me; $(id)");
	flow_done(&f);
}

static void test_history(void **state)
{
	(void)state;
	static const char text[] =
		"schema s:\n  n: int\n"
		"compute a:\n  output: s\n  expr:\n    n: \"loop.l.iteration * 10\"\n"
		"compute b:\n  expr:\n    count: \"length(outputs.a.history)\"\n    before: "
		"\"loop.l.previous_output.n\"\n"
		"workflow w:\n  entry: a\n  a -> b\n  b -> a when \"count < 2\" as l(5)\n  b -> done\n";
	struct flow f;

	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){0});
	assert_int_equal(f.result.exit_code, 0);
	assert_int_equal(json_integer_value(json_object_get(flow_output(&f, "a"), "n")), 20);
	assert_int_equal(json_integer_value(json_object_get(flow_output(&f, "b"), "count")), 2);
	flow_done(&f);
}

static void test_environment(void **state)
{
	(void)state;
	static const char text[] = "tool a:\n  command: \"true\"\nworkflow w:\n  entry: a\n  a -> done\n";
	struct flow f;

	setenv("ITERION_TEST_LEAK", "1", 1);
	for (int sandboxed = 0; sandboxed < 2; sandboxed++) {
		fake_session_reset();
		flow_run(&f, text,
			 &(struct flow_opts){.run_id = "r1", .mode = sandboxed ? SANDBOX_AUTO : SANDBOX_NONE});
		const char *env = fake_session.env;
		assert_non_null(strstr(env, "ITERION_RUN_ID=r1\n"));
		assert_non_null(strstr(env, "ITERION_NODE_ID=a\n"));
		assert_non_null(strstr(env, "PATH=/usr/local/bin:/usr/bin:/bin\n"));
		assert_non_null(strstr(env, "TZ=Europe/Paris\n"));
		assert_non_null(strstr(env, "HOME=/home/u\n"));
		assert_non_null(strstr(env, "/runs/r1/artifact-files\n"));
		assert_null(strstr(env, "SECRET"));
		assert_null(strstr(env, "LEAK"));
		assert_int_equal(strstr(env, "FROM_SPEC=yes\n") != NULL, sandboxed);
		flow_done(&f);
	}
	unsetenv("ITERION_TEST_LEAK");
}

/* A node of a sandboxed run that says `sandbox: none` runs on the host. */
static void test_node_on_host(void **state)
{
	(void)state;
	static const char text[] =
		"tool a:\n  command: \"true\"\n  sandbox: none\nworkflow w:\n  entry: a\n  a -> done\n";
	struct flow f;

	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){.mode = SANDBOX_AUTO});
	assert_int_equal(f.result.exit_code, 0);
	assert_int_equal(fake_session.made, 2);
	assert_int_equal(fake_session.freed, 2);
	assert_null(strstr(fake_session.env, "FROM_SPEC"));
	flow_done(&f);
	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){0});
	assert_int_equal(fake_session.made, 1);
	flow_done(&f);
}

/* A large output is written once; event and checkpoint refer to it, and the next node still has all of it. */
static void test_large_output(void **state)
{
	(void)state;
	static const char text[] = "tool a:\n  command: \"head -c 100000 /dev/zero | tr '\\\\0' x\"\n"
				   "compute b:\n  expr:\n    n: \"length(outputs.a.output)\"\n"
				   "workflow w:\n  entry: a\n  a -> b\n  b -> done\n";
	struct flow f;
	struct stat st;

	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){.run_id = "r1"});
	assert_int_equal(f.result.exit_code, 0);
	assert_int_equal(json_integer_value(json_object_get(flow_output(&f, "b"), "n")), 100000);
	json_t *d = json_object_get(flow_event(&f, "node_finished", "a"), "data");
	const char *ref = json_get_str(d, "output_ref");
	assert_non_null(ref);
	assert_null(json_object_get(d, "output"));
	assert_int_equal(strlen(json_get_str(d, "preview")), 2048);
	json_t *refs = json_object_get(json_object_get(f.record, "checkpoint"), "output_refs");
	assert_string_equal(json_get_str(refs, "a"), ref);
	char *path = xasprintf("%s/runs/r1/%s", f.top, ref);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, json_integer_value(json_object_get(d, "output_bytes")));
	assert_true(st.st_size > 100000);
	free(path);
	flow_done(&f);
}

/* The next node already finds the checkpoint of the one before, when that took its time. */
static void test_checkpoint_comes_first(void **state)
{
	(void)state;
	static const char text[] = "tool a:\n  command: \"sleep 0.05\"\n"
				   "tool b:\n  command: `sleep 0.05; grep -c '\"node_id\": \"a\"' runs/*/run.json`\n"
				   "tool c:\n  command: `grep -c '\"node_id\": \"b\"' runs/*/run.json`\n"
				   "workflow w:\n  entry: a\n  a -> b\n  b -> c\n  c -> done\n";
	struct flow f;

	fake_session_reset();
	flow_run(&f, text, &(struct flow_opts){0});
	assert_int_equal(f.result.status, RUN_FINISHED);
	assert_string_equal(json_get_str(flow_output(&f, "b"), "output"), "1\n");
	assert_string_equal(json_get_str(flow_output(&f, "c"), "output"), "1\n");
	flow_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flows),	     cmocka_unit_test(test_order_of_events),
		cmocka_unit_test(test_values),	     cmocka_unit_test(test_history),
		cmocka_unit_test(test_environment),  cmocka_unit_test(test_node_on_host),
		cmocka_unit_test(test_large_output), cmocka_unit_test(test_checkpoint_comes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
