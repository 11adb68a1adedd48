/* Human nodes: asked while the run goes on, asked again, not asked, and interrupted meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_session.h"
#include "flow.h"
#include <base/json.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define ASK "schema s:\n  ok: bool\n  n: int\nhuman h:\n  output: s\n"
#define THEN "tool t:\n  command: \"echo {{outputs.h.n}}\"\nworkflow w:\n  entry: h\n  h -> t\n  t -> done\n"

static const char *const good[] = {"ok=true", "n=7", NULL};
static const char *const half[] = {"ok=true", NULL};
static const char *const wrong[] = {"ok=true", "n=many", NULL};

static void test_answered(void **state)
{
	(void)state;
	static const char *const *const answers[] = {good};
	struct flow f;

	fake_session_reset();
	flow_run(&f, ASK THEN, &(struct flow_opts){.answers = answers, .n_answers = 1});
	assert_int_equal(f.result.status, RUN_FINISHED);
	assert_string_equal(json_get_str(flow_output(&f, "t"), "output"), "7\n");
	char *trace = flow_trace(&f);
	assert_string_equal(trace, "run_started node_started:h human_input_requested:h human_answers_recorded:h "
				   "node_finished:h edge_selected:h node_started:t node_finished:t edge_selected:t "
				   "run_finished");
	free(trace);
	flow_done(&f);
}

static void test_asked_again(void **state)
{
	(void)state;
	static const char *const *const answers[] = {half, wrong, good};
	struct flow f;

	fake_session_reset();
	flow_run(&f, ASK THEN, &(struct flow_opts){.answers = answers, .n_answers = 3});
	assert_int_equal(f.result.status, RUN_FINISHED);
	assert_int_equal(f.asked, 3);
	assert_non_null(strstr(f.answer_err.msg, "answer n of node h"));
	flow_done(&f);
}

static void test_nobody_answers(void **state)
{
	(void)state;
	static const char *const *const answers[] = {NULL};
	struct flow f;

	fake_session_reset();
	flow_run(&f, ASK THEN, &(struct flow_opts){.answers = answers, .n_answers = 1});
	assert_int_equal(f.result.status, RUN_PAUSED);
	assert_int_equal(f.result.exit_code, 3);
	assert_int_equal(flow_count(&f, "run_paused"), 1);
	assert_string_equal(json_get_str(f.record, "status"), "paused_waiting_human");
	flow_done(&f);
}

static void test_interrupted(void **state)
{
	(void)state;
	static const char *const *const answers[] = {good};
	struct flow f;

	fake_session_reset();
	flow_run(&f, ASK THEN,
		 &(struct flow_opts){.answers = answers,
				     .n_answers = 1,
				     .interrupt_at = "human_input_requested",
				     .interrupts = 1,
				     .signal = SIGINT});
	assert_int_equal(f.result.status, RUN_CANCELLED);
	assert_int_equal(flow_count(&f, "human_answers_recorded"), 0);
	flow_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answered),
		cmocka_unit_test(test_asked_again),
		cmocka_unit_test(test_nobody_answers),
		cmocka_unit_test(test_interrupted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
