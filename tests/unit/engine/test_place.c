/* Where nodes run: which share a sandbox, when it is started, what happens when it is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_session.h"
#include "flow.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#define TOOL(name) "tool " name ":\n  command: \"true\"\n"
#define THREE                                                                                                          \
	TOOL("a")                                                                                                      \
	TOOL("b") TOOL("c") "workflow w:\n  entry: a\n  a -> b\n  b -> c\n  c -> done\n"
#define ENDS TOOL("a") TOOL("b") "workflow w:\n  entry: a\n  a -> done when \"true\"\n  a -> b\n  b -> done\n"

static void test_shared_and_late(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *own[4];
		unsigned made, late, started, stopped;
		const char *trace; /* of sandbox_started and node_started */
	} cases[] = {
		{THREE, {NULL}, 1, 0, 1, 1, "s:- n:a n:b n:c"},
		{THREE, {"b=x", NULL}, 2, 1, 2, 2, "s:- n:a s:b n:b n:c"},
		{THREE, {"b=x", "c=x", NULL}, 2, 1, 2, 2, "s:- n:a s:b n:b n:c"},
		{THREE, {"b=x", "c=y", NULL}, 3, 2, 3, 3, "s:- n:a s:b n:b s:c n:c"},
		{THREE, {"a=x", "b=y", "c=x", NULL}, 3, 2, 3, 3, "s:- s:a n:a s:b n:b n:c"},
		{ENDS, {"b=x", NULL}, 2, 1, 1, 1, "s:- n:a"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct flow f;
		auto_buf trace = BUF_INIT(4096);
		size_t k;
		json_t *ev;
		fake_session_reset();
		flow_run(&f, cases[i].text, &(struct flow_opts){.mode = SANDBOX_INLINE, .own = cases[i].own});
		assert_int_equal(f.result.status, RUN_FINISHED);
		json_array_foreach(f.events, k, ev)
		{
			const char *type = json_get_str(ev, "type"), *node = json_get_str(ev, "node_id");
			if (str_eq(type, "sandbox_started") || str_eq(type, "node_started"))
				(void)!buf_printf(&trace, "%s%c:%s", trace.len ? " " : "", *type, node ? node : "-");
		}
		assert_string_equal(buf_str(&trace), cases[i].trace);
		assert_int_equal(fake_session.made, cases[i].made);
		assert_int_equal(fake_session.late, cases[i].late);
		assert_int_equal(fake_session.started, cases[i].started);
		assert_int_equal(fake_session.stopped, cases[i].stopped);
		assert_int_equal(fake_session.freed, cases[i].made);
		flow_done(&f);
	}
}

static void test_names_those_that_share(void **state)
{
	(void)state;
	static const char *const own[] = {"b=x", "c=x", NULL};
	struct flow f;

	fake_session_reset();
	flow_run(&f, THREE, &(struct flow_opts){.mode = SANDBOX_INLINE, .own = own});
	const json_t *nodes = json_object_get(json_object_get(flow_event(&f, "sandbox_started", "b"), "data"), "nodes");
	assert_int_equal(json_array_size(nodes), 2);
	assert_string_equal(json_string_value(json_array_get(nodes, 1)), "c");
	flow_done(&f);
}

static void cannot_start(void)
{
	fake_session_reset();
	fake_session.only_late = true;
	(void)err_set(&fake_session.start_error, ERR_SANDBOX, EIO, "make it: the disk is on fire");
	err_hint(&fake_session.start_error, "put it out");
}

static void test_fails_its_node(void **state)
{
	(void)state;
	static const char *const own[] = {"b=x", NULL};
	struct flow f;

	cannot_start();
	flow_run(&f, THREE, &(struct flow_opts){.mode = SANDBOX_INLINE, .own = own});
	assert_int_equal(f.result.status, RUN_FAILED_RESUMABLE);
	assert_non_null(strstr(f.result.err.msg, "node b: its sandbox: make it: the disk is on fire"));
	assert_string_equal(f.result.err.hint, "put it out");
	const json_t *data = json_object_get(flow_event(&f, "tool_error", "b"), "data");
	assert_non_null(strstr(json_get_str(data, "error"), "the disk is on fire"));
	assert_int_equal(flow_count(&f, "run_failed"), 1);
	assert_int_equal(fake_session.stopped, 2);
	flow_done(&f);
}

/* Every node that needs it fails; a join that can do without goes on. */
static void test_best_effort_does_without(void **state)
{
	(void)state;
	static const char *const own[] = {"a=x", "b=x", NULL};
	struct flow f;

	cannot_start();
	flow_run(&f,
		 "router r:\n  mode: fan_out_all\n" TOOL("a") TOOL("b")
			 TOOL("c") "tool j:\n  command: \"true\"\n  await: best_effort\nworkflow w:\n  entry: r\n  r "
				   "-> a\n  r -> b\n  r -> c\n"
				   "  a -> j\n  b -> j\n  c -> j\n  j -> done\n",
		 &(struct flow_opts){.mode = SANDBOX_INLINE, .own = own});
	assert_int_equal(f.result.status, RUN_FINISHED);
	assert_int_equal(flow_count(&f, "tool_error"), 2);
	assert_int_equal(fake_session.started, 2);
	flow_done(&f);
}

/* While one is being started, others run. */
static void test_others_go_on(void **state)
{
	(void)state;
	static const char *const own[] = {"a=x", NULL};
	struct flow f;

	fake_session_reset();
	flow_run(&f,
		 "router r:\n  mode: fan_out_all\n" TOOL("a")
			 TOOL("b") "tool j:\n  command: \"true\"\n  await: wait_all\nworkflow w:\n  entry: r\n  r -> "
				   "a\n  r -> b\n"
				   "  a -> j\n  b -> j\n  j -> done\n",
		 &(struct flow_opts){.mode = SANDBOX_INLINE, .own = own});
	assert_int_equal(f.result.status, RUN_FINISHED);
	auto_free char *nodes = flow_nodes(&f, "node_started");
	assert_string_equal(nodes, "r b a j");
	flow_done(&f);
}

/* The run is cancelled while a node waits for its sandbox. */
static void test_cancelled_while_it_starts(void **state)
{
	(void)state;
	static const char *const own[] = {"b=x", NULL};
	struct flow f;

	fake_session_reset();
	flow_run(&f, THREE,
		 &(struct flow_opts){.mode = SANDBOX_INLINE,
				     .own = own,
				     .interrupt_at = "sandbox_started",
				     .interrupt_node = "b",
				     .interrupts = 1,
				     .signal = SIGINT});
	assert_int_equal(f.result.status, RUN_CANCELLED);
	assert_int_equal(fake_session.stopped, 2);
	flow_done(&f);
}

static void test_too_many(void **state)
{
	(void)state;
	auto_buf text = BUF_INIT(1 << 16);
	auto_strv own = {0};
	struct flow f;

	for (int i = 0; i < 64; i++) {
		(void)!buf_printf(&text, "tool t%d:\n  command: \"true\"\n", i);
		strv_take(&own, xasprintf("t%d=%d", i, i));
	}
	(void)!buf_puts(&text, "workflow w:\n  entry: t0\n");
	for (int i = 0; i < 63; i++)
		(void)!buf_printf(&text, "  t%d -> t%d\n", i, i + 1);
	(void)!buf_puts(&text, "  t63 -> done\n");
	fake_session_reset();
	flow_run(&f, buf_str(&text), &(struct flow_opts){.mode = SANDBOX_INLINE, .own = (const char *const *)own.v});
	assert_true(f.new_result < 0);
	assert_non_null(strstr(f.new_err.msg, "more than 64"));
	assert_int_equal(fake_session.made, 0);
	flow_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_and_late), cmocka_unit_test(test_names_those_that_share),
		cmocka_unit_test(test_fails_its_node),	cmocka_unit_test(test_best_effort_does_without),
		cmocka_unit_test(test_others_go_on),	cmocka_unit_test(test_cancelled_while_it_starts),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
