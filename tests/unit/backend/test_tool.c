/* The tool backend with real programs: what their ends and their output come to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../engine/fake_session.h"
#include "../store/tmp.h"
#include <backend/backend.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/str.h>
#include <driver/session.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <store/run.h>
#include <sys/resource.h>
#include <unistd.h>

struct fixture {
	uv_loop_t loop;
	char *top;
	struct store_run *run;
	struct session *session;
	/* The answer. */
	unsigned answers;
	struct err err;
	json_t *output, *details;
	struct node_result result;
	uint64_t took_ms;
};

static void setup(struct fixture *f)
{
	*f = (struct fixture){.top = tmp_dir()};
	assert_int_equal(uv_loop_init(&f->loop), 0);
	const struct store_run_params sp = {.store_dir = f->top,
					    .run_id = "r",
					    .workflow = "w",
					    .file = "f",
					    .file_sha256 = "",
					    .workspace = f->top};
	assert_int_equal(store_run_create(&sp, &f->run, NULL), 0);
	f->session = fake_session_open(&f->loop, f->top);
}

static void teardown(struct fixture *f)
{
	json_decref(f->output);
	json_decref(f->details);
	fake_session_close(f->session, &f->loop);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	store_run_free(f->run);
	tmp_remove(f->top);
}

static void on_done(void *arg, const struct node_result *r, const struct err *e)
{
	struct fixture *f = arg;

	f->answers++;
	f->result = *r;
	f->output = json_incref(r->output);
	f->details = json_incref(r->details);
	if (e)
		f->err = *e;
}

struct how {
	bool structured, exit_code_field;
	unsigned cancel_after_ms; /* 0: not */
	bool cancel_when_ready;	  /* when the program has made the file "ready" */
	enum node_cancel cancel;
};

struct canceller {
	uv_timer_t timer;
	uv_fs_event_t ready;
	struct node_exec *x;
	enum node_cancel how;
};

static void on_cancel(uv_timer_t *t)
{
	struct canceller *c = t->data;

	backend_tool.cancel(c->x, c->how);
	uv_close((uv_handle_t *)t, NULL);
}

static void on_ready(uv_fs_event_t *w, const char *name, int events, int status)
{
	const struct canceller *c = w->data;

	(void)events;
	(void)status;
	if (!name || !str_eq(name, "ready") || uv_is_closing((uv_handle_t *)w))
		return;
	backend_tool.cancel(c->x, c->how);
	uv_close((uv_handle_t *)w, NULL);
}

static int start(struct fixture *f, const char *language, const char *text, const struct how *how,
		 struct node_exec **ret)
{
	static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "MARK=here", NULL};
	const struct node_task t = {
		.loop = &f->loop,
		.session = f->session,
		.run = f->run,
		.node_id = "n",
		.text = text,
		.language = language,
		.env = env,
		.structured = how->structured,
		.exit_code_field = how->exit_code_field,
	};
	const struct node_callbacks cb = {.on_done = on_done, .arg = f};

	return backend_tool.start(&t, &cb, ret, &f->err);
}

/* Runs it to the end; the text must live until then. */
static void run(struct fixture *f, const char *language, const char *text, const struct how *how)
{
	struct canceller c = {.how = how->cancel};
	uint64_t begin = clock_ms();

	if (how->cancel_when_ready) {
		assert_int_equal(uv_fs_event_init(&f->loop, &c.ready), 0);
		c.ready.data = &c;
		assert_int_equal(uv_fs_event_start(&c.ready, on_ready, f->top, 0), 0);
	}
	if (start(f, language, text, how, &c.x) < 0)
		fail_msg("%s", f->err.msg);
	assert_int_equal(f->answers, 0); /* never from within start */
	if (how->cancel_after_ms) {
		uv_timer_init(&f->loop, &c.timer);
		c.timer.data = &c;
		uv_timer_start(&c.timer, on_cancel, how->cancel_after_ms, 0);
	}
	while (f->answers == 0)
		uv_run(&f->loop, UV_RUN_ONCE);
	f->took_ms = clock_ms() - begin;
}

struct end_case {
	const char *language;
	const char *text;
	struct how how;
	const char *output; /* the whole output object; NULL: it fails */
	const char *error;  /* part of the message */
};

static void test_ends(void **state)
{
	(void)state;
	static const struct end_case cases[] = {
		{NULL, "echo hi", {0}, "{\"output\":\"hi\\n\",\"stderr\":\"\",\"exit_code\":0}", NULL},
		{NULL,
		 "echo hi; echo oops >&2",
		 {0},
		 "{\"output\":\"hi\\n\",\"stderr\":\"oops\\n\",\"exit_code\":0}",
		 NULL},
		{NULL, "true", {0}, "{\"output\":\"\",\"stderr\":\"\",\"exit_code\":0}", NULL},
		/* JSON is read only where a schema asks for it. */
		{NULL, "echo '{\"a\":1}'", {.structured = true}, "{\"a\":1}", NULL},
		{NULL,
		 "printf '{\"a\":1}'",
		 {0},
		 "{\"output\":\"{\\\"a\\\":1}\",\"stderr\":\"\",\"exit_code\":0}",
		 NULL},
		{NULL,
		 "echo '[1]'",
		 {.structured = true},
		 "{\"output\":\"[1]\\n\",\"stderr\":\"\",\"exit_code\":0}",
		 NULL},
		{NULL,
		 "echo '{\"a\":1} x'",
		 {.structured = true},
		 "{\"output\":\"{\\\"a\\\":1} x\\n\",\"stderr\":\"\",\"exit_code\":0}",
		 NULL},
		{NULL, "echo '{\"a\":1}'; exit 3", {.structured = true}, NULL, "node n: exit code 3"},
		{NULL,
		 "echo '{\"a\":1}'; exit 3",
		 {.structured = true, .exit_code_field = true},
		 "{\"a\":1,\"exit_code\":3}",
		 NULL},
		{NULL,
		 "echo '{\"exit_code\":7}'",
		 {.structured = true, .exit_code_field = true},
		 "{\"exit_code\":7}",
		 NULL},
		{NULL,
		 "exit 3",
		 {.structured = true, .exit_code_field = true},
		 "{\"output\":\"\",\"stderr\":\"\",\"exit_code\":3}",
		 NULL},
		{NULL,
		 "kill -9 $$",
		 {.structured = true, .exit_code_field = true},
		 "{\"output\":\"\",\"stderr\":\"\",\"exit_code\":137}",
		 NULL},
		/* Failures say why. */
		{NULL, "echo first >&2; echo 'the reason' >&2; exit 4", {0}, NULL, "node n: exit code 4: the reason"},
		{NULL, "printf 'bad \\033[31mcolour' >&2; exit 4", {0}, NULL, "exit code 4: bad \\x1b[31mcolour"},
		{NULL, "kill -SEGV $$", {0}, NULL, "ended by signal 11 (SIGSEGV)"},
		{NULL, "no-such-program-here", {0}, NULL, "exit code 127"},
		{NULL, "-x", {0}, NULL, "exit code 127"},
		/* Any bytes become valid text. */
		{NULL,
		 "printf 'a\\377b\\000c'",
		 {0},
		 "{\"output\":\"a\xef\xbf\xbd"
		 "b\\u0000c\",\"stderr\":\"\",\"exit_code\":0}",
		 NULL},
		/* The input is empty, the environment is the given one, nothing else is open. */
		{NULL, "cat; echo $MARK", {0}, "{\"output\":\"here\\n\",\"stderr\":\"\",\"exit_code\":0}", NULL},
		{NULL,
		 "ls /proc/self/fd | wc -l | tr -d ' '",
		 {0},
		 "{\"output\":\"4\\n\",\"stderr\":\"\",\"exit_code\":0}",
		 NULL},
		{"sh", "echo '$HOME'", {0}, "{\"output\":\"$HOME\\n\",\"stderr\":\"\",\"exit_code\":0}", NULL},
		{"bash", "a=(x y); echo ${a[1]}", {0}, "{\"output\":\"y\\n\",\"stderr\":\"\",\"exit_code\":0}", NULL},
		{"python", "print(1+1)", {0}, "{\"output\":\"2\\n\",\"stderr\":\"\",\"exit_code\":0}", NULL},
		{"py", "-1\nprint(2)", {0}, "{\"output\":\"2\\n\",\"stderr\":\"\",\"exit_code\":0}", NULL},
		/* It closes its output and lives on: its own end is what counts. */
		{NULL, "exec >&- 2>&-; /bin/sleep 0.05; exit 5", {0}, NULL, "exit code 5"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		setup(&f);
		run(&f, cases[i].language, cases[i].text, &cases[i].how);
		if (cases[i].output) {
			if (f.err.kind)
				fail_msg("%s: %s", cases[i].text, f.err.msg);
			char *got = json_compact(f.output);
			assert_string_equal(got, cases[i].output);
			free(got);
		} else {
			if (!strstr(f.err.msg, cases[i].error))
				fail_msg("%s: %s", cases[i].text, f.err.msg);
			assert_true(f.err.hint[0]);
			assert_null(f.output);
		}
		teardown(&f);
	}
}

static void test_interpreter_missing(void **state)
{
	(void)state;
	struct fixture f;
	static const struct how how = {0};

	setup(&f);
	static const char *const env[] = {"PATH=/nowhere", NULL};
	const struct node_task t = {.loop = &f.loop,
				    .session = f.session,
				    .run = f.run,
				    .node_id = "n",
				    .text = "1",
				    .language = "js",
				    .env = env};
	const struct node_callbacks cb = {.on_done = on_done, .arg = &f};
	struct node_exec *x = NULL;
	(void)how;
	assert_int_equal(backend_tool.start(&t, &cb, &x, NULL), 0);
	while (f.answers == 0)
		uv_run(&f.loop, UV_RUN_ONCE);
	assert_non_null(strstr(f.err.msg, "run node: No such file"));
	assert_non_null(strstr(f.err.hint, "node is not found"));
	teardown(&f);
}

/* A text that does not fit into an argument is refused before anything runs; the largest that does is run. */
static void test_long_text(void **state)
{
	(void)state;
	static const struct {
		size_t len;
		bool ok;
	} cases[] = {{131070, true}, {131071, false}, {4000000, false}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		setup(&f);
		char *text = xmalloc(cases[i].len + 1);
		memset(text, ' ', cases[i].len);
		memcpy(text, "echo ok;", 8);
		text[cases[i].len] = '\0';
		if (cases[i].ok) {
			run(&f, NULL, text, &(struct how){0});
			assert_int_equal(f.err.kind, ERR_NONE);
		} else {
			struct node_exec *x = NULL;
			assert_int_equal(start(&f, NULL, text, &(struct how){0}, &x), -E2BIG);
			assert_true(f.err.hint[0]);
		}
		free(text);
		teardown(&f);
	}
}

/* A daemon that keeps the pipe open does not hold up the node, and what the program itself wrote is all there. */
static void test_daemon(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f);
	run(&f, NULL, "setsid sleep 300 & echo $!; head -c 60000 /dev/zero | tr '\\0' x", &(struct how){0});
	const char *out = json_get_str(f.output, "output");
	assert_true(strlen(out) > 60000);
	kill((pid_t)strtol(out, NULL, 10), SIGKILL);
	teardown(&f);
}

static void check_file(const struct fixture *f, const char *ref, uint64_t size, const char *end)
{
	char *path = xasprintf("%s/%s", store_run_dir(f->run), ref);
	FILE *file = fopen(path, "re");
	char tail[64] = "";

	assert_non_null(file);
	assert_int_equal(fseek(file, -(long)strlen(end), SEEK_END), 0);
	assert_int_equal(ftell(file) + (long)strlen(end), size);
	assert_int_equal(fread(tail, 1, strlen(end), file), strlen(end));
	assert_string_equal(tail, end);
	(void)fclose(file);
	free(path);
}

static void test_spill(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t size; /* 0: it stays in memory */
		const char *end;
	} cases[] = {
		{"head -c 1048576 /dev/zero | tr '\\0' a", 0, NULL},
		{"head -c 1048577 /dev/zero | tr '\\0' a", 1048577, "aaaa"},
		{"head -c 209715200 /dev/zero; echo end", 209715204, "end\n"},
		{"head -c 3000000 /dev/zero | tr '\\0' e >&2; echo end >&2", 3000004, "eend\n"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		struct rusage before, after;
		setup(&f);
		getrusage(RUSAGE_SELF, &before);
		run(&f, NULL, cases[i].text, &(struct how){.structured = i == 1});
		getrusage(RUSAGE_SELF, &after);
		bool to_stderr = strstr(cases[i].text, ">&2");
		const char *ref = json_get_str(f.output, to_stderr ? "stderr_ref" : "output_ref");
		const char *text = json_get_str(f.output, to_stderr ? "stderr" : "output");
		if (!cases[i].size) {
			assert_null(ref);
			assert_int_equal(strlen(text), 1048576);
		} else {
			assert_non_null(ref);
			assert_int_equal(json_string_length(json_object_get(f.output, to_stderr ? "stderr" : "output")),
					 4096);
			check_file(&f, ref, cases[i].size, cases[i].end);
			assert_int_equal(json_integer_value(json_object_get(f.details, to_stderr ? "stderr_bytes"
												 : "output_bytes")),
					 cases[i].size);
		}
		/* KiB; the sanitizers' own memory grows with every byte that passes. */
#ifndef __SANITIZE_ADDRESS__
		if (i == 2)
			assert_true(after.ru_maxrss - before.ru_maxrss < 8192);
#endif
		teardown(&f);
	}
}

/* The file cannot be written: the program is not blocked, and the node says why it failed. */
static void test_spill_without_space(void **state)
{
	(void)state;
	struct fixture f;
	struct rlimit old, small;

	setup(&f);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){.rlim_cur = 2000000, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	run(&f, NULL, "head -c 50000000 /dev/zero", &(struct how){0});
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(f.answers, 1);
	assert_non_null(strstr(f.err.msg, "keep its output"));
	assert_true(f.err.hint[0]);
	teardown(&f);
}

static void test_cancel(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		struct how how;
		int exit_code, signal; /* -1: not by that */
		const char *output;
	} cases[] = {
		{"sleep 300", {.cancel_after_ms = 20}, -1, SIGTERM, ""},
		{"trap 'echo told' TERM; : >ready; while :; do sleep 0.1; done",
		 {.cancel_when_ready = true, .cancel = NODE_CANCEL_KILL},
		 -1,
		 SIGKILL,
		 NULL},
		{"trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done",
		 {.cancel_after_ms = 300},
		 0,
		 -1,
		 "bye\n"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		setup(&f);
		run(&f, NULL, cases[i].text, &cases[i].how);
		assert_true(f.result.cancelled);
		assert_int_equal(f.err.kind, ERR_CANCELLED);
		const json_t *code = json_object_get(f.details, "exit_code"),
			     *sig = json_object_get(f.details, "signal");
		assert_int_equal(code ? json_integer_value(code) : -1, cases[i].exit_code);
		assert_int_equal(sig ? json_integer_value(sig) : -1, cases[i].signal);
		const char *out = json_get_str(json_object_get(f.details, "output"), "output");
		if (cases[i].output)
			assert_string_equal(out, cases[i].output);
		else
			assert_null(strstr(out, "told"));
		teardown(&f);
	}
}

/* TERM is ignored: KILL follows after its time, and not before. */
static void test_cancel_ignored(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f);
	run(&f, NULL, "trap '' TERM; : >ready; while :; do sleep 0.2; done", &(struct how){.cancel_when_ready = true});
	assert_true(f.took_ms >= NODE_KILL_AFTER_MS);
	assert_int_equal(f.err.kind, ERR_CANCELLED);
	teardown(&f);
}

static void test_lost(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f);
	fake_session.lose_at = 1;
	run(&f, NULL, "sleep 300", &(struct how){0});
	assert_int_equal(f.err.kind, ERR_SANDBOX);
	assert_true(f.result.resumable);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),	  cmocka_unit_test(test_interpreter_missing),
		cmocka_unit_test(test_long_text), cmocka_unit_test(test_daemon),
		cmocka_unit_test(test_spill),	  cmocka_unit_test(test_spill_without_space),
		cmocka_unit_test(test_cancel),	  cmocka_unit_test(test_cancel_ignored),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
