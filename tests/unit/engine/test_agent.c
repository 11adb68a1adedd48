/* Agents, judges, llm routers and humans that a model answers for, through a backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_session.h"
#include "flow.h"
#include "stub_backend.h"
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA "schema s:\n  ok: bool\n  note: string\n"
#define PROMPTS "vars:\n  who: string = \"me\"\nprompt sys:\n  be brief\nprompt ask:\n  hello {{vars.who}}\n"
#define AGENT "agent a:\n  backend: \"claw\"\n  model: \"m-1\"\n  system: sys\n  user: ask\n  output: s\n"
#define TOOL(name) "tool " name ":\n  command: \"echo " name "\"\n"

static void test_agent(void **state)
{
	(void)state;
	static const struct stub_answer answers[] = {{"a", "{\"ok\":true,\"note\":\"fine\"}", NULL}};
	struct flow f;

	fake_session_reset();
	stub_backend_begin(answers, 1);
	flow_run(&f,
		 SCHEMA PROMPTS AGENT TOOL("t") "workflow w:\n  entry: a\n  a -> t when ok\n  a -> fail\n  t -> done\n",
		 &(struct flow_opts){0});
	assert_int_equal(f.result.status, RUN_FINISHED);
	assert_string_equal(stub_backend.seen, "m-1|be brief|hello me|");
	json_t *d = json_object_get(flow_event(&f, "node_finished", "a"), "data");
	assert_int_equal(json_integer_value(json_object_get(d, "_tokens")), 100);
	assert_string_equal(json_get_str(json_object_get(d, "output"), "note"), "fine");
	flow_done(&f);
	stub_backend_end();
}

static void test_outputs(void **state)
{
	(void)state;
	static const struct {
		struct stub_answer answer;
		enum run_status status;
		unsigned repairs;
		const char *error;
	} cases[] = {
		{{"a", "{\"ok\":true,\"note\":\"x\"}", "{}"}, RUN_FINISHED, 0, NULL},
		{{"a", "{\"ok\":1}", "{\"ok\":true,\"note\":\"x\"}"}, RUN_FINISHED, 1, NULL},
		{{"a", "{\"ok\":1}", "{\"ok\":2}"}, RUN_FAILED, 1, "field ok is an integer, not bool"},
		{{"a", "{\"ok\":true}", NULL}, RUN_FAILED, 0, "field note is missing"},
		{{"a", NULL, NULL}, RUN_FAILED, 0, "the model does not answer"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		fake_session_reset();
		stub_backend_begin(&cases[i].answer, 1);
		flow_run(&f, SCHEMA PROMPTS AGENT "workflow w:\n  entry: a\n  a -> done\n", &(struct flow_opts){0});
		assert_int_equal(f.result.status, cases[i].status);
		assert_int_equal(stub_backend.repairs, cases[i].repairs);
		if (cases[i].error && !strstr(f.result.err.msg, cases[i].error))
			fail_msg("%s", f.result.err.msg);
		flow_done(&f);
		stub_backend_end();
	}
}

#define NODE(name, more) "agent " name ":\n  backend: \"claw\"\n  model: \"m\"\n  user: ask\n" more

static void test_conversations(void **state)
{
	(void)state;
	static const struct stub_answer answers[] = {
		{"a", "{}", NULL, "A"}, {"b", "{}", NULL, "B"}, {"c", "{}", NULL, "C"}, {"d", "{}", NULL, NULL}};
	static const struct {
		const char *nodes, *heard;
	} cases[] = {
		{NODE("b", "  session: inherit\n") NODE("c", "") NODE("d", "  session: artifacts_only\n"),
		 "a= b=A c= d= "},
		{NODE("b", "  session: inherit\n") NODE("c", "  session: fork\n")
			 NODE("d", "  session: inherit_if_available\n"),
		 "a= b=A c=B* d=C? "},
		/* A node that leaves none changes nothing, nor does a tool. */
		{TOOL("b") NODE("c", "  session: inherit\n") NODE("d", "  session: inherit\n"), "a= c=A d=C "},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		fake_session_reset();
		stub_backend_begin(answers, ARRAY_LEN(answers));
		char *text = xasprintf(PROMPTS NODE("a", "") "%s"
							     "workflow w:\n  entry: a\n  a -> b\n  b -> c\n"
							     "  c -> d\n  d -> done\n",
				       cases[i].nodes);
		flow_run(&f, text, &(struct flow_opts){0});
		assert_int_equal(f.result.status, RUN_FINISHED);
		assert_string_equal(stub_backend.heard, cases[i].heard);
		free(text);
		flow_done(&f);
		stub_backend_end();
	}
}

/* Each branch of a fan-out begins with what its router had, and goes on by itself. */
static void test_conversations_of_branches(void **state)
{
	(void)state;
	static const struct stub_answer answers[] = {
		{"a", "{}", NULL, "A"}, {"b", "{}", NULL, "B"}, {"c", "{}", NULL, "C"}, {"d", "{}", NULL, "D"}};
	struct flow f;

	fake_session_reset();
	stub_backend_begin(answers, ARRAY_LEN(answers));
	flow_run(&f,
		 PROMPTS NODE("a", "") "router r:\n  mode: fan_out_all\n" NODE("b",
									       "  session: inherit\n  readonly: true\n")
			 NODE("c", "  session: fork\n  readonly: true\n") NODE("d", "  session: inherit\n")
				 TOOL("j") "workflow w:\n  entry: a\n  a -> r\n  r -> b\n  r -> c\n  b -> d\n"
					   "  d -> j\n  c -> j\n  j -> done\n",
		 &(struct flow_opts){0});
	assert_int_equal(f.result.status, RUN_FINISHED);
	assert_non_null(strstr(stub_backend.heard, "b=A "));
	assert_non_null(strstr(stub_backend.heard, "c=A* "));
	assert_non_null(strstr(stub_backend.heard, "d=B "));
	flow_done(&f);
	stub_backend_end();
}

static void test_no_conversation(void **state)
{
	(void)state;
	static const struct stub_answer answers[] = {{"a", "{}", NULL, NULL}};
	struct flow f;

	fake_session_reset();
	stub_backend_begin(answers, 1);
	flow_run(&f, PROMPTS NODE("a", "  session: inherit\n") "workflow w:\n  entry: a\n  a -> done\n",
		 &(struct flow_opts){0});
	assert_int_equal(f.result.status, RUN_FAILED);
	assert_int_equal(stub_backend.starts, 0);
	assert_non_null(strstr(f.result.err.msg, "no agent before it left a conversation"));
	assert_non_null(strstr(f.result.err.hint, "inherit_if_available"));
	flow_done(&f);
	stub_backend_end();
}

#define ROUTER(more) "router r:\n  mode: llm\n  backend: \"claw\"\n  model: \"m\"\n  user: ask\n" more

static void test_router(void **state)
{
	(void)state;
	static const struct {
		const char *more;
		struct stub_answer answer;
		const char *nodes; /* started, in any order */
		enum run_status status;
		const char *error;
	} cases[] = {
		{"", {"r", "{\"target\":\"y\"}", NULL}, "r y j", RUN_FINISHED, NULL},
		{"", {"r", "{\"target\":\"nowhere\"}", NULL}, "r", RUN_FAILED, "\"nowhere\" is none of its targets"},
		{"", {"r", "{\"target\":\"nowhere\"}", "{\"target\":\"x\"}"}, "r x j", RUN_FINISHED, NULL},
		{"  multi: true\n", {"r", "{\"targets\":[\"z\",\"x\"]}", NULL}, "r x z j", RUN_FINISHED, NULL},
		{"  multi: true\n", {"r", "{\"targets\":[\"y\"]}", NULL}, "r y j", RUN_FINISHED, NULL},
		{"  multi: true\n", {"r", "{\"targets\":[]}", NULL}, "r", RUN_FAILED, "names no targets"},
		{"  multi: true\n", {"r", "{\"target\":\"x\"}", NULL}, "r", RUN_FAILED, "names no targets"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		fake_session_reset();
		stub_backend_begin(&cases[i].answer, 1);
		char *text = xasprintf("%s" ROUTER("%s") "%s", PROMPTS, cases[i].more,
				       TOOL("x") TOOL("y") TOOL("z")
					       TOOL("j") "workflow w:\n  entry: r\n  r -> x\n  r -> y\n"
							 "  r -> z\n  x -> j\n  y -> j\n  z -> j\n"
							 "  j -> done\n");
		flow_run(&f, text, &(struct flow_opts){0});
		assert_int_equal(f.result.status, cases[i].status);
		char *nodes = flow_nodes(&f, "node_started");
		assert_string_equal(nodes, cases[i].nodes);
		assert_string_equal(stub_backend.seen, "m||hello me|x y z ");
		if (cases[i].error && !strstr(f.result.err.msg, cases[i].error))
			fail_msg("%s", f.result.err.msg);
		free(nodes);
		free(text);
		flow_done(&f);
		stub_backend_end();
	}
}

/* What the router got goes on, not what the model said. */
static void test_router_passes_on(void **state)
{
	(void)state;
	static const struct stub_answer answers[] = {{"r", "{\"target\":\"x\"}", NULL}};
	static const char text[] = PROMPTS ROUTER("") "tool x:\n  command: \"echo {{input.who}}\"\n" TOOL(
		"y") "workflow w:\n  entry: r\n  r -> x\n  r -> y\n  x -> done\n  y -> done\n";
	struct flow f;

	fake_session_reset();
	stub_backend_begin(answers, 1);
	flow_run(&f, text, &(struct flow_opts){0});
	assert_string_equal(json_get_str(flow_output(&f, "x"), "output"), "me\n");
	flow_done(&f);
	stub_backend_end();
}

static void test_human_by_model(void **state)
{
	(void)state;
	static const struct stub_answer answers[] = {{"h", "{\"ok\":true,\"note\":\"n\"}", NULL}};
	static const char text[] =
		SCHEMA PROMPTS "human h:\n  interaction: llm\n  model: \"m\"\n  instructions: ask\n  output: s\n"
			       "workflow w:\n  entry: h\n  default_backend: \"claw\"\n  h -> done\n";
	struct flow f;

	fake_session_reset();
	stub_backend_begin(answers, 1);
	flow_run(&f, text, &(struct flow_opts){0});
	assert_int_equal(f.result.status, RUN_FINISHED);
	assert_string_equal(stub_backend.seen, "m||hello me|");
	assert_int_equal(flow_count(&f, "human_input_requested"), 0);
	flow_done(&f);
	stub_backend_end();
}

#define PAIR(more)                                                                                                     \
	SCHEMA PROMPTS "router r:\n  mode: fan_out_all\n" AGENT more                                                   \
		       "agent b:\n  backend: \"claw\"\n  model: \"m\"\n  system: sys\n  user: ask\n  output: s\n" more \
		       "workflow w:\n  entry: r\n  r -> a\n  r -> b\n  a -> done\n  b -> done\n"

/* Two that may write take turns; two that only read do not. */
static void test_one_writer(void **state)
{
	(void)state;
	static const struct stub_answer answers[] = {{"a", "{\"ok\":true,\"note\":\"\"}", NULL},
						     {"b", "{\"ok\":true,\"note\":\"\"}", NULL}};
	static const struct {
		const char *text;
		bool together;
	} cases[] = {{PAIR(""), false}, {PAIR("  readonly: true\n"), true}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		fake_session_reset();
		stub_backend_begin(answers, 2);
		flow_run(&f, cases[i].text, &(struct flow_opts){0});
		assert_int_equal(f.result.status, RUN_FINISHED);
		json_int_t ended = json_integer_value(json_object_get(flow_event(&f, "node_finished", "a"), "seq"));
		json_int_t begun = json_integer_value(json_object_get(flow_event(&f, "node_started", "b"), "seq"));
		assert_int_equal(begun < ended, cases[i].together);
		flow_done(&f);
		stub_backend_end();
	}
}

static void test_publish(void **state)
{
	(void)state;
	static const struct stub_answer answers[] = {{"a", "{\"ok\":true,\"note\":\"n\"}", NULL}};
	static const char text[] = SCHEMA PROMPTS AGENT
		"  publish: report\n"
		"tool t:\n  command: \"echo {{artifacts.report.note}}; ls -d runs; ls runs/*/artifacts/a; exit 3\"\n"
		"workflow w:\n  entry: a\n  a -> a when \"loop.l.iteration < 1\" as l(5)\n  a -> t\n  t -> done\n";
	struct flow f;

	fake_session_reset();
	stub_backend_begin(answers, 1);
	flow_run(&f, text, &(struct flow_opts){0});
	const char *out = json_get_str(
		json_object_get(json_object_get(flow_event(&f, "tool_error", "t"), "data"), "output"), "output");
	assert_non_null(out);
	assert_non_null(strstr(out, "n\nruns\n"));
	assert_non_null(strstr(out, "1.json\n2.json\n"));
	assert_int_equal(flow_count(&f, "artifact_written"), 2);
	json_t *d = json_object_get(flow_event(&f, "artifact_written", "a"), "data");
	assert_string_equal(json_get_str(d, "publish"), "report");
	assert_int_equal(json_integer_value(json_object_get(d, "version")), 1);
	json_t *entry = json_object_get(json_object_get(f.record, "artifact_index"), "report");
	assert_string_equal(json_get_str(entry, "node"), "a");
	assert_int_equal(json_integer_value(json_object_get(entry, "version")), 2);
	json_t *versions = json_object_get(json_object_get(f.record, "checkpoint"), "artifact_versions");
	assert_int_equal(json_integer_value(json_object_get(versions, "a")), 2);
	flow_done(&f);
	stub_backend_end();
}

static void test_budget(void **state)
{
	(void)state;
	static const struct stub_answer answers[] = {{"a", "{\"ok\":true,\"note\":\"\"}", NULL}};
	struct flow f;

	fake_session_reset();
	stub_backend_begin(answers, 1);
	flow_run(&f,
		 SCHEMA PROMPTS AGENT
		 "workflow w:\n  entry: a\n  budget:\n    max_tokens: 250\n  a -> a when ok as l(9)\n  a "
		 "-> done\n",
		 &(struct flow_opts){0});
	assert_int_equal(f.result.err.kind, ERR_BUDGET);
	assert_int_equal(stub_backend.starts, 3);
	flow_done(&f);
	stub_backend_end();
}

/* What an agent uses counts while it goes on; the run ends with the budget of before, and what counts in the end is
 * what the node says then. */
static void test_budget_on_the_way(void **state)
{
	(void)state;
	static const struct {
		unsigned steps, limit, warnings;
		bool stopped;
		long long used; /* tokens in the end, as the checkpoint has them */
	} cases[] = {
		{100, 55, 1, true, 60},
		{100, 60, 1, true, 60},
		/* The last step is over the limit, and its answer is there. */
		{5, 45, 1, false, 50},
		{5, 1000, 0, false, 50},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct stub_answer answers[] = {
			{"a", "{\"ok\":true,\"note\":\"\"}", NULL, .steps = cases[i].steps}};
		struct flow f;
		auto_free char *text = xasprintf(SCHEMA PROMPTS AGENT "workflow w:\n  entry: a\n  budget:\n    "
								      "max_tokens: %u\n  a -> done\n",
						 cases[i].limit);
		fake_session_reset();
		stub_backend_begin(answers, 1);
		flow_run(&f, text, &(struct flow_opts){0});
		assert_int_equal(f.result.status, cases[i].stopped ? RUN_FAILED_RESUMABLE : RUN_FINISHED);
		assert_int_equal(f.result.err.kind, cases[i].stopped ? ERR_BUDGET : ERR_NONE);
		assert_int_equal(flow_count(&f, "budget_exceeded"), cases[i].stopped);
		assert_int_equal(flow_count(&f, "budget_warning"), cases[i].warnings);
		const json_t *used = json_object_get(json_object_get(f.record, "checkpoint"), "used");
		assert_int_equal(json_integer_value(json_object_get(used, "tokens")), cases[i].used);
		flow_done(&f);
		stub_backend_end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agent),
		cmocka_unit_test(test_outputs),
		cmocka_unit_test(test_conversations),
		cmocka_unit_test(test_conversations_of_branches),
		cmocka_unit_test(test_no_conversation),
		cmocka_unit_test(test_router),
		cmocka_unit_test(test_router_passes_on),
		cmocka_unit_test(test_human_by_model),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_budget_on_the_way),
		cmocka_unit_test(test_one_writer),
		cmocka_unit_test(test_publish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
