/* The launcher of claw against runners that misbehave: each is a shell script in the guest's place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../store/tmp.h"
#include "http_server.h"
#include <backend/backend.h>
#include <backend/run.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/session.h>
#include <dsl/ast.h>
#include <dsl/parse.h>
#include <errno.h>
#include <fcntl.h>
#include <sandbox/spec.h>
#include <signal.h>
#include <stdlib.h>
#include <store/run.h>
#include <string.h>
#include <sys/stat.h>

static const char workflow[] = "## strict-escape: on\n"
			       "schema answer:\n  n: int\n\n"
			       "prompt task:\n  do it\n\n"
			       "agent work:\n  model: \"claude-sonnet-4-5\"\n  backend: \"claw\"\n  user: task\n"
			       "  output: answer\n\n"
			       "workflow w:\n  entry: work\n  work -> done\n";

struct world {
	uv_loop_t loop;
	char *top;
	struct dsl_file *file;
	struct store_run *run;
	struct session *session;
	struct backend_run *shared;
	struct node_exec *x;
	bool started;
	/* The answer. */
	unsigned answers, events, warnings, restarts;
	struct err err;
	json_t *output;
	bool resumable;
	bool named; /* a conversation to go on with */
};

static void on_sandbox_event(void *arg, const char *type, json_t *data)
{
	(void)arg;
	(void)type;
	(void)data;
}

static void on_lost(void *arg, const struct err *e)
{
	(void)arg;
	(void)e;
}

static void on_started(void *arg, const struct err *e)
{
	struct world *w = arg;

	assert_null(e);
	w->started = true;
}

static void on_event(void *arg, const char *type, json_t *data)
{
	struct world *w = arg;

	w->events++;
	w->warnings += str_eq(type, "delegate_warning");
	w->restarts += str_eq(type, "claw_runner_restarted");
	json_decref(data);
}

static void on_done(void *arg, const struct node_result *r, const struct err *e)
{
	struct world *w = arg;

	w->answers++;
	w->err = e ? *e : ERR_INIT;
	w->output = r->output ? json_incref(json_object_get(r->output, "n")) : NULL;
	w->resumable = r->resumable;
	w->named = json_get_str(r->details, "_session_id") != NULL;
}

/* The engine's: n must be an integer. */
static int check(void *arg, json_t *output, struct err *e)
{
	(void)arg;
	return json_is_integer(json_object_get(output, "n")) ? 0
							     : err_set(e, ERR_NODE, EINVAL, "field n: not an integer");
}

static void world_open(struct world *w)
{
	static const struct sandbox_spec spec = {.mode = SANDBOX_NONE};
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};

	*w = (struct world){.top = tmp_dir()};
	assert_int_equal(uv_loop_init(&w->loop), 0);
	(void)dsl_parse("main.bot", workflow, strlen(workflow), NULL, &w->file);
	assert_int_equal(w->file->n_errors, 0);
	const struct store_run_params sp = {.store_dir = w->top,
					    .run_id = "r",
					    .workflow = "w",
					    .file = "f",
					    .file_sha256 = "",
					    .workspace = w->top};
	assert_int_equal(store_run_create(&sp, &w->run, NULL), 0);
	const struct session_params p = {
		.loop = &w->loop, .spec = &spec, .workspace = w->top, .on_event = on_sandbox_event, .on_lost = on_lost};
	assert_int_equal(session_new(&p, &w->session, NULL), 0);
	session_start(w->session, on_started, w);
	const struct backend_run_params bp = {.loop = &w->loop, .file = w->file, .host_env = env, .workspace = w->top};
	w->shared = backend_run_new(&bp);
	while (!w->started)
		uv_run(&w->loop, UV_RUN_ONCE);
}

static void ignore(void *arg)
{
	(void)arg;
}

static void on_stopped(void *arg, const struct err *e)
{
	(void)arg;
	(void)e;
}

static void world_close(struct world *w)
{
	backend_run_stop(w->shared, ignore, NULL);
	session_stop(w->session, on_stopped, NULL);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	session_free(w->session);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	json_decref(w->output);
	store_run_free(w->run);
	dsl_file_free(w->file);
	tmp_remove(w->top);
}

/* Puts the script in the guest's place. */
static void be_runner(const struct world *w, const char *script)
{
	auto_free char *path = xasprintf("%s/runner", w->top);
	auto_free char *text = xasprintf("#!/bin/sh\n%s\n", script);

	assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0700, FILE_NO_SYNC, NULL), 0);
	assert_int_equal(setenv("ITERION_BIN", path, 1), 0);
}

static int begin(struct world *w, const char *base_url, struct err *e)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	auto_free char *url = xasprintf("ANTHROPIC_BASE_URL=%s", base_url ? base_url : "http://127.0.0.1:1");
	const char *const host_env[] = {"ANTHROPIC_API_KEY=k", url, NULL};
	const struct agent_task a = {
		.file = w->file,
		.node = dsl_find_node(w->file, "work"),
		.model = "claude-sonnet-4-5",
		.user = "do it",
		.schema = dsl_find_schema(w->file, "answer"),
	};
	const struct node_task t = {.loop = &w->loop,
				    .session = w->session,
				    .shared = w->shared,
				    .host_env = host_env,
				    .run = w->run,
				    .node_id = "work",
				    .env = env,
				    .agent = &a};
	const struct node_callbacks cb = {.on_event = on_event, .on_done = on_done, .check = check, .arg = w};
	int r = backend_claw.start(&t, &cb, &w->x, e);

	while (r == 0 && !w->answers && uv_run(&w->loop, UV_RUN_ONCE))
		;
	return r;
}

#define SAY(text) "printf '%s\\n' '" text "'\n"
#define RESULT SAY("{\"type\":\"result\",\"data\":{\"output\":{\"n\":7},\"session_id\":\"abc-1\"}}")
#define WAIT "while read -r line; do :; done\n"

static void test_ends(void **state)
{
	static const struct {
		const char *script;
		int errnum; /* 0: n is 7 */
		const char *in_msg;
		unsigned warnings, restarts;
	} rows[] = {
		{RESULT, 0, NULL, 0, 0},
		{SAY("{\"type\":\"from_the_future\",\"data\":{}}") SAY("{\"type\":\"event\",\"data\":{\"kind\":\"x\"}}")
			 RESULT,
		 0, NULL, 1, 0},
		{SAY("not json") WAIT, EPROTO, "sent a line that is no envelope", 0, 0},
		{SAY("[1]") WAIT, EPROTO, "sent a line that is no envelope", 0, 0},
		{SAY("{\"data\":{}}") WAIT, EPROTO, "sent a line that is no envelope", 0, 0},
		{SAY("{\"type\":\"event\"}") WAIT, EPROTO, "sent an envelope without data", 0, 0},
		{SAY("{\"type\":\"llm_request\",\"data\":{}}") WAIT, EPROTO, "a request without an id", 0, 0},
		{"head -c 4194304 /dev/zero | tr '\\0' x; echo\n" WAIT, EMSGSIZE, "a line of more than 4194304 bytes",
		 0, 0},
		{RESULT RESULT WAIT, EPROTO, "sent a second result", 0, 0},
		{RESULT "echo garbage\n" WAIT, EPROTO, "sent a line that is no envelope", 0, 0},
		{"printf '{\"type\":\"resu'\n", EPROTO, "ended within a line", 0, 0},
		{"echo boom >&2; exit 3\n", ECONNRESET, "without a result, exit code 3: boom", 0, 0},
		{"exit 0\n", ECONNRESET, "without a result, exit code 0", 0, 0},
		{"kill -9 $$\n", ECONNRESET, "died twice, by signal 9 (SIGKILL)", 0, 1},
		{SAY("{\"type\":\"result\",\"data\":{\"error\":\"too many steps\"}}"), EPROTO, "too many steps", 0, 0},
		{SAY("{\"type\":\"result\",\"data\":{\"output\":[1]}}"), EPROTO, "is no object", 0, 0},
		{SAY("{\"type\":\"result\",\"data\":{\"output\":{\"n\":\"x\"}}}"), EINVAL, "not an integer", 0, 0},
		{SAY("{\"type\":\"result\",\"data\":{\"output\":{\"n\":\"\\u0000\"}}}"), EPROTO, "no object", 0, 0},
		{SAY("{\"type\":\"result\",\"data\":{\"pending_tool_use_id\":\"t\"}}"), EPROTO, "asked nothing", 0, 0},
		{SAY("{\"type\":\"session_capture\",\"data\":{}}") WAIT, EPROTO, "a capture without", 0, 0},
		/* The one repair, and no second. */
		{SAY("{\"type\":\"result\",\"id\":\"r\",\"data\":{\"output\":{\"n\":\"x\"}}"
		     "}") "read -r task; read -r ack; case $ack in *'not an integer'*) :;; "
			  "*) exit 9;; esac\n" RESULT,
		 0, NULL, 0, 0},
		{SAY("{\"type\":\"result\",\"id\":\"r\",\"data\":{\"output\":{\"n\":\"x\"}}}")
			 SAY("{\"type\":\"result\",\"id\":\"r\",\"data\":{\"output\":{\"n\":\"y\"}}}"),
		 EINVAL, "not an integer", 0, 0},
		/* Killed after a step: goes on from there. */
		{"read -r first; case $first in *session_replay*WORD*) " RESULT
		 " exit 0;; esac\n" SAY("{\"type\":\"session_capture\",\"data\":{\"session_id\":\"abc-"
					"1\",\"step\":1,\"conversation\":[{\"role\":"
					"\"user\",\"content\":\"WORD\"}]}}") "kill -9 $$\n",
		 0, NULL, 0, 1},
		/* A program that holds its pipes after its end changes nothing. */
		{RESULT "sleep 20 &\n", 0, NULL, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct world w;
		struct err e = ERR_INIT;
		world_open(&w);
		be_runner(&w, rows[i].script);
		if (begin(&w, NULL, &e) < 0)
			fail_msg("row %zu: %s", i, e.msg);
		if (w.err.errnum != rows[i].errnum)
			fail_msg("row %zu: %d %s", i, w.err.errnum, w.err.msg);
		if (rows[i].errnum) {
			if (!strstr(w.err.msg, rows[i].in_msg) || !strstr(w.err.msg, "node work"))
				fail_msg("row %zu: %s", i, w.err.msg);
			assert_null(w.output);
		} else {
			assert_int_equal(json_integer_value(w.output), 7);
		}
		assert_int_equal(w.answers, 1);
		assert_int_equal(w.warnings, rows[i].warnings);
		assert_int_equal(w.restarts, rows[i].restarts);
		world_close(&w);
	}
}

static void test_floods_are_bounded(void **state)
{
	struct world w;
	struct err e = ERR_INIT;

	(void)state;
	world_open(&w);
	be_runner(&w,
		  "i=0; while [ $i -lt 12000 ]; do i=$((i+1)); " SAY(
			  "{\"type\":\"event\",\"data\":{\"kind\":\"tool_started\",\"tool\":\"T\"}}") "done\n" RESULT);
	assert_int_equal(begin(&w, NULL, &e), 0);
	assert_int_equal(json_integer_value(w.output), 7);
	assert_int_equal(w.events, 10001);
	assert_int_equal(w.warnings, 1);
	world_close(&w);
	world_open(&w);
	be_runner(&w, "i=0; while [ $i -lt 100 ]; do i=$((i+1)); printf "
		      "'{\"type\":\"llm_request\",\"id\":\"%s\",\"data\":{\"messages\":[]}}\\n' $i; done\n" WAIT);
	const struct http_answer silent = {.hang = true};
	struct http_server s;
	http_server_start(&s, &w.loop, &silent, 1);
	auto_free char *url = http_server_url(&s, "");
	assert_int_equal(begin(&w, url, &e), 0);
	assert_non_null(strstr(w.err.msg, "too many requests"));
	/* The server's own handles are not the world's. */
	backend_run_stop(w.shared, ignore, NULL);
	http_server_stop(&s);
	const struct backend_run_params bp = {.loop = &w.loop, .file = w.file, .workspace = w.top};
	w.shared = backend_run_new(&bp);
	world_close(&w);
}

/* Tool calls have an end too, also those that are refused. */
static void test_tool_calls_are_counted(void **state)
{
	struct world w;
	struct err e = ERR_INIT;

	(void)state;
	world_open(&w);
	be_runner(&w, "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); " SAY(
			      "{\"type\":\"tool_call\",\"id\":\"t\",\"data\":{"
			      "\"name\":\"None\",\"input\":{}}}") "done\n" RESULT);
	assert_int_equal(begin(&w, NULL, &e), 0);
	if (w.err.errnum != EPROTO || !strstr(w.err.msg, "calls more tools"))
		fail_msg("%d %s", w.err.errnum, w.err.msg);
	world_close(&w);
}

/* The id of another node's conversation is neither taken over nor handed on. */
static void test_a_foreign_conversation_is_left_alone(void **state)
{
	static const char other[] = "{\"conversation\":[\"other\"]}";
	struct world w;
	struct err e = ERR_INIT;
	size_t len;

	(void)state;
	for (int captures = 0; captures < 2; captures++) {
		world_open(&w);
		auto_free char *folder = xasprintf("%s/sessions", store_run_dir(w.run));
		auto_free char *path = xasprintf("%s/session-abc-1.json", folder);
		auto_free char *text = NULL;
		assert_int_equal(mkdir(folder, 0700), 0);
		assert_int_equal(file_replace(AT_FDCWD, path, other, strlen(other), 0600, FILE_NO_SYNC, NULL), 0);
		be_runner(&w,
			  captures ? SAY("{\"type\":\"session_capture\",\"data\":{\"session_id\":\"abc-1\",\"step\":1,"
					 "\"conversation\":[]}}") RESULT
				   : RESULT);
		assert_int_equal(begin(&w, NULL, &e), 0);
		assert_int_equal(json_integer_value(w.output), 7);
		assert_false(w.named);
		assert_int_equal(file_read(AT_FDCWD, path, 4096, &text, &len, NULL), 0);
		assert_string_equal(text, other);
		world_close(&w);
	}
}

/* The guest is not there, or cannot be run. */
static void test_no_runner(void **state)
{
	struct world w;
	struct err e = ERR_INIT;

	(void)state;
	world_open(&w);
	assert_int_equal(setenv("ITERION_BIN", "/nonexistent/guest", 1), 0);
	assert_int_equal(begin(&w, NULL, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "ITERION_BIN"));
	be_runner(&w, RESULT);
	auto_free char *path = xasprintf("%s/runner", w.top);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(begin(&w, NULL, &e), 0);
	assert_int_equal(w.err.errnum, EACCES);
	if (!w.err.hint[0])
		fail_msg("%s", w.err.msg);
	world_close(&w);
}

static void on_cancel(uv_timer_t *timer)
{
	struct world *w = timer->data;

	backend_claw.cancel(w->x, NODE_CANCEL_TERM);
	uv_close((uv_handle_t *)timer, NULL);
}

static void test_cancel(void **state)
{
	struct world w;
	struct err e = ERR_INIT;
	uv_timer_t timer;

	(void)state;
	world_open(&w);
	be_runner(&w, WAIT);
	(void)uv_timer_init(&w.loop, &timer);
	timer.data = &w;
	(void)uv_timer_start(&timer, on_cancel, 30, 0);
	assert_int_equal(begin(&w, NULL, &e), 0);
	assert_int_equal(w.err.kind, ERR_CANCELLED);
	assert_true(w.resumable);
	world_close(&w);
}

#define EV(data) "data: " data "\n\n"

/* The words of the model reach the runner as they come, and the whole behind them; the runner says how many. */
static void test_the_model_is_asked(void **state)
{
	static const struct http_answer answer = {
		.bytes = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" EV(
			"{\"type\":\"message_start\","
			"\"message\":{\"usage\":{"
			"\"input_tokens\":5}}}") EV("{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"
						    "\"type\":\"text\"}}")
			EV("{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":"
			   "\"he\"}}") EV("{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_"
					  "delta\",\"text\":\"llo\"}}")
				EV("{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
				   "\"output_tokens\":2}}") EV("{\"type\":\"message_stop\"}"),
		.cut = 40,
		.close = true,
	};
	struct world w;
	struct err e = ERR_INIT;
	struct http_server s;

	(void)state;
	world_open(&w);
	http_server_start(&s, &w.loop, &answer, 1);
	auto_free char *url = http_server_url(&s, "");
	be_runner(
		&w,
		"read -r task\n" SAY(
			"{\"type\":\"llm_request\",\"id\":\"q\",\"data\":{\"model\":\"other\",\"messages\":["
			"{\"role\":\"user\",\"content\":\"hi\"}]}}") "n=0; while read -r line; do case $line in "
								     "*'\"kind\":\"text\"'*) n=$((n+1));; "
								     "*'\"kind\":\"done\"'*"
								     "hello*end_turn*) break;; *) exit 8;; esac; done\n"
								     "printf "
								     "'{\"type\":\"result\",\"data\":{\"output\":{"
								     "\"n\":%s}}}\\n' $n\n");
	assert_int_equal(begin(&w, url, &e), 0);
	if (w.err.kind)
		fail_msg("%s", w.err.msg);
	assert_int_equal(json_integer_value(w.output), 2);
	/* The node's model is asked, whatever the runner says. */
	assert_non_null(strstr(buf_str(&s.seen), "claude-sonnet-4-5"));
	assert_null(strstr(buf_str(&s.seen), "other"));
	backend_run_stop(w.shared, ignore, NULL);
	http_server_stop(&s);
	const struct backend_run_params bp = {.loop = &w.loop, .file = w.file, .workspace = w.top};
	w.shared = backend_run_new(&bp);
	world_close(&w);
}

/* A runner that asks without end is ended. */
static void test_questions_are_bounded(void **state)
{
	static const struct http_answer answer = {
		.bytes = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 31\r\n\r\n" EV(
			"{\"type\":\"message_stop\"}"),
	};
	struct world w;
	struct err e = ERR_INIT;
	struct http_server s;

	(void)state;
	world_open(&w);
	http_server_start(&s, &w.loop, &answer, 1);
	auto_free char *url = http_server_url(&s, "");
	be_runner(&w, "read -r task; while :; do printf "
		      "'{\"type\":\"llm_request\",\"id\":\"q\",\"data\":{\"messages\":[]}}\\n'; "
		      "read -r line || exit; done\n");
	assert_int_equal(begin(&w, url, &e), 0);
	assert_non_null(strstr(w.err.msg, "more often than 50 steps"));
	assert_int_equal(s.requests, 108);
	backend_run_stop(w.shared, ignore, NULL);
	http_server_stop(&s);
	const struct backend_run_params bp = {.loop = &w.loop, .file = w.file, .workspace = w.top};
	w.shared = backend_run_new(&bp);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_floods_are_bounded),
		cmocka_unit_test(test_tool_calls_are_counted),
		cmocka_unit_test(test_a_foreign_conversation_is_left_alone),
		cmocka_unit_test(test_no_runner),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_the_model_is_asked),
		cmocka_unit_test(test_questions_are_bounded),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("claw", tests, NULL, NULL);
}
