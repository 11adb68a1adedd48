/* The life of an agent's program: its starts, what they come to, cancelling, and its end. The program is a script that
 * the test writes; the session runs it on the host. */
#include "../engine/fake_session.h"
#include "../store/tmp.h"

#include <backend/backend.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/session.h>
#include <dsl/ast.h>
#include <signal.h>
#include <sys/stat.h>
#include <uv.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define RESULT "'{\"type\":\"result\",\"is_error\":false,\"result\":\"fine\",\"session_id\":\"S\"}'"
#define BUSY                                                                                                           \
	"'{\"type\":\"result\",\"is_error\":true,\"api_error_status\":529,\"result\":\"busy\",\"session_id\":\"S\"}'"

enum when { NEVER, AT_ONCE, WHEN_STARTED, WHEN_RETRIED, WHEN_CLEANING };

struct fixture {
	uv_loop_t loop;
	char *top, *path;
	struct session *session;
	struct dsl_node node;
	struct agent_task agent;
	struct node_exec *exec;
	enum when cancel_when;
	bool also_kill;
	unsigned refuse; /* so many outputs */
	uv_timer_t canceller;
	uv_fs_event_t cleaning;
	/* What came of it. */
	struct buf events;
	char *warning;
	int64_t allowed,
		told; /* tokens: it is cancelled when it goes on with more (0: never); the latest that were told */
	unsigned answers;
	struct err err;
	json_t *output, *details;
	struct node_result result;
};

static void setup(struct fixture *f, const char *script)
{
	*f = (struct fixture){.top = tmp_dir(), .events = BUF_INIT(1 << 20)};
	f->agent.node = &f->node;
	f->agent.user = "do it";
	f->path = xasprintf("PATH=%s:/usr/bin:/bin", f->top);
	auto_free char *text = xasprintf("#!/bin/sh\n%s\n", script), *program = xasprintf("%s/claude", f->top);
	assert_int_equal(file_replace(AT_FDCWD, program, text, strlen(text), 0755, FILE_NO_SYNC, NULL), 0);
	assert_int_equal(uv_loop_init(&f->loop), 0);
	f->session = fake_session_open(&f->loop, f->top);
}

static void teardown(struct fixture *f)
{
	json_decref(f->output);
	json_decref(f->details);
	free(f->warning);
	buf_done(&f->events);
	fake_session_close(f->session, &f->loop);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	free(f->path);
	tmp_remove(f->top);
}

static void on_cancel(uv_timer_t *t)
{
	struct fixture *f = t->data;

	if (f->exec)
		backend_claude_code.cancel(f->exec, NODE_CANCEL_TERM);
	if (f->exec && f->also_kill)
		backend_claude_code.cancel(f->exec, NODE_CANCEL_KILL);
	uv_close((uv_handle_t *)t, NULL);
}

static void cancel_soon(struct fixture *f)
{
	f->cancel_when = NEVER;
	(void)uv_timer_init(&f->loop, &f->canceller);
	f->canceller.data = f;
	(void)uv_timer_start(&f->canceller, on_cancel, 0, 0);
}

/* The program that cleans has told what it was given, by putting the file "folder" in place. */
static void on_cleaning(uv_fs_event_t *w, const char *name, int events, int status)
{
	(void)events;
	(void)status;
	if (!name || !str_eq(name, "folder"))
		return;
	cancel_soon(w->data);
	uv_close((uv_handle_t *)w, NULL);
}

static void watch_cleaning(struct fixture *f)
{
	f->cancel_when = NEVER;
	assert_int_equal(uv_fs_event_init(&f->loop, &f->cleaning), 0);
	f->cleaning.data = f;
	assert_int_equal(uv_fs_event_start(&f->cleaning, on_cleaning, f->top, 0), 0);
}

static void on_event(void *arg, const char *type, json_t *data)
{
	struct fixture *f = arg;
	const char *error = json_get_str(data, "error"), *session = json_get_str(data, "session");

	assert_int_equal(buf_printf(&f->events, "%s%s%s%s%s\n", type, session ? " " : "", session ? session : "",
				    error ? " " : "", error ? error : ""),
			 0);
	if (str_eq(type, "delegate_warning")) {
		assert_null(f->warning);
		f->warning = xstrdup(json_get_str(data, "message"));
	}
	if ((f->cancel_when == WHEN_STARTED && str_eq(type, "llm_step_finished")) ||
	    (f->cancel_when == WHEN_RETRIED && str_eq(type, "delegate_retry")))
		cancel_soon(f);
	/* This event comes before the cleaning begins. */
	if (f->cancel_when == WHEN_CLEANING && str_eq(type, "delegate_finished"))
		watch_cleaning(f);
	json_decref(data);
}

static void on_done(void *arg, const struct node_result *r, const struct err *e)
{
	struct fixture *f = arg;

	f->answers++;
	f->exec = NULL;
	f->result = *r;
	f->output = json_incref(r->output);
	f->details = json_incref(r->details);
	if (e)
		f->err = *e;
}

static int check(void *arg, json_t *output, struct err *e)
{
	struct fixture *f = arg;

	(void)output;
	if (f->refuse == 0)
		return 0;
	f->refuse--;
	return err_set(e, ERR_NODE, EINVAL, "field x is missing");
}

static void on_usage(void *arg, int64_t tokens, double cost_usd, bool goes_on)
{
	struct fixture *f = arg;

	(void)cost_usd;
	f->told = tokens;
	if (goes_on && f->allowed && tokens > f->allowed)
		backend_claude_code.cancel(f->exec, NODE_CANCEL_TERM);
}

static void run(struct fixture *f)
{
	const char *const env[] = {f->path, "HOME=/nowhere", NULL};
	static const char *const host_env[] = {"ANTHROPIC_API_KEY=sk-very-secret",
					       "ANTHROPIC_CUSTOM_HEADERS=X-Auth: hidden-word\nX-B: c", NULL};
	const struct node_task t = {
		.loop = &f->loop,
		.session = f->session,
		.node_id = "n",
		.env = env,
		.host_env = host_env,
		.agent = &f->agent,
	};
	const struct node_callbacks cb = {
		.on_event = on_event, .on_done = on_done, .check = check, .on_usage = on_usage, .arg = f};

	assert_int_equal(backend_claude_code.start(&t, &cb, &f->exec, &f->err), 0);
	assert_int_equal(f->answers, 0);
	if (f->cancel_when == AT_ONCE)
		backend_claude_code.cancel(f->exec, NODE_CANCEL_TERM);
	while (!f->answers)
		uv_run(&f->loop, UV_RUN_ONCE);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->answers, 1);
}

static void answers(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f, "cat >/dev/null; echo " RESULT);
	run(&f);
	assert_string_equal(json_get_str(f.output, "output"), "fine");
	assert_string_equal(json_get_str(f.details, "_session_id"), "S");
	assert_string_equal(buf_str(&f.events), "delegate_started fresh\ndelegate_finished\n");
	assert_false(f.result.cancelled);
	teardown(&f);
}

/* Nothing that a node says is left out in silence. */
static void what_it_does_not_know(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f, "cat >/dev/null; echo " RESULT);
	f.node.interaction_prompt.s = (char *)(uintptr_t) "how";
	f.node.memory.enabled.v = true;
	run(&f);
	assert_string_equal(f.warning, "node n: the backend claude_code does not know interaction_prompt, memory, and "
				       "works without");
	assert_string_equal(buf_str(&f.events), "delegate_warning\ndelegate_started fresh\ndelegate_finished\n");
	teardown(&f);
}

static void a_long_prompt(void **state)
{
	(void)state;
	struct fixture f;
	auto_buf b = BUF_INIT(8 << 20), want = BUF_INIT(64);

	for (int i = 0; i < 300000; i++)
		assert_int_equal(buf_puts(&b, "abc \"d\" "), 0);
	setup(&f, "n=$(wc -c); echo '{\"type\":\"result\",\"is_error\":false,\"result\":\"'$n'\"}'");
	f.agent.user = buf_str(&b);
	run(&f);
	/* Two quotes in eight bytes are escaped. */
	const size_t around = strlen("{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"\"}}\n");
	assert_int_equal(buf_printf(&want, "%zu", b.len / 8 * 10 + around), 0);
	assert_string_equal(json_get_str(f.output, "output"), buf_str(&want));
	teardown(&f);
	/* And one that nobody reads. */
	setup(&f, "exec <&-; echo " RESULT);
	f.agent.user = buf_str(&b);
	run(&f);
	assert_string_equal(json_get_str(f.output, "output"), "fine");
	teardown(&f);
}

static void cancelled(void **state)
{
	(void)state;
	static const char step[] = "echo '{\"type\":\"assistant\",\"message\":{\"id\":\"1\"}}'\n";
	const struct {
		const char *script;
		enum when when;
		bool also_kill;
		const char *events;
	} rows[] = {
		{"echo " RESULT, AT_ONCE, false, ""},
		{"exec sleep 100", WHEN_STARTED, false, "delegate_started fresh\nllm_step_finished\ndelegate_error"},
		{"trap '' TERM; sleep 100; sleep 100", WHEN_STARTED, true,
		 "delegate_started fresh\nllm_step_finished\ndelegate_error"},
		{"echo " BUSY "; exit 1", WHEN_RETRIED, false,
		 "delegate_started fresh\nllm_step_finished\ndelegate_retry busy\ndelegate_error"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;
		auto_free char *script = xasprintf("%s%s", step, rows[i].script);
		setup(&f, script);
		f.cancel_when = rows[i].when;
		f.also_kill = rows[i].also_kill;
		run(&f);
		assert_true(f.result.cancelled);
		assert_null(f.output);
		assert_int_equal(f.err.kind, ERR_CANCELLED);
		assert_true(str_starts(buf_str(&f.events), rows[i].events));
		teardown(&f);
	}
}

#define STEP(tokens, block)                                                                                            \
	"echo '{\"type\":\"assistant\",\"message\":{\"id\":\"" #tokens "\",\"usage\":{\"input_tokens\":" #tokens       \
	"},\"content\":[" block "]}}'\n"
#define TOOL "{\"type\":\"tool_use\",\"id\":\"T\",\"name\":\"Bash\"}"

/* What it has used is told on the way; one that goes on in spite of a limit is stopped, one that is done is not. */
static void used_up(void **state)
{
	(void)state;
	static const struct {
		const char *script;
		int64_t allowed, tokens;
		bool cancelled;
	} rows[] = {
		{"cat >/dev/null\n" STEP(70, TOOL) STEP(40, "") "exec sleep 100", 60, 70, true},
		{"cat >/dev/null\n" STEP(70, "") "echo " RESULT, 60, 70, false},
		{"cat >/dev/null\n" STEP(70, TOOL) STEP(40, "") "echo " RESULT, 0, 110, false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;
		setup(&f, rows[i].script);
		f.allowed = rows[i].allowed;
		run(&f);
		assert_int_equal(f.result.cancelled, rows[i].cancelled);
		assert_true(f.told >= rows[i].tokens);
		assert_true(f.result.tokens >= rows[i].tokens);
		assert_true(rows[i].cancelled || f.result.tokens == rows[i].tokens);
		teardown(&f);
	}
	/* An answer that has to be given again costs more. */
	struct fixture f;
	setup(&f, "cat >/dev/null\n" STEP(70, "") "echo " RESULT);
	f.allowed = 60;
	f.refuse = 1;
	run(&f);
	assert_true(f.result.cancelled);
	assert_int_equal(f.result.tokens, 70);
	teardown(&f);
}

static void repairs(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f, "case \"$*\" in *--resume*S*) grep -q 'field x is missing' || exit 9;; esac; echo " RESULT);
	f.refuse = 1;
	run(&f);
	assert_non_null(f.output);
	assert_string_equal(buf_str(&f.events), "delegate_started fresh\ndelegate_started repair\ndelegate_finished\n");
	teardown(&f);
	setup(&f, "cat >/dev/null; echo " RESULT);
	f.refuse = 2;
	run(&f);
	assert_null(f.output);
	assert_string_equal(f.err.msg, "node n: claude's answer: field x is missing");
	assert_true(f.err.hint[0]);
	teardown(&f);
}

static void retries_until_it_answers(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f, "cat >/dev/null; [ -e second ] && exec echo " RESULT "; touch second; echo " BUSY "; exit 1");
	run(&f);
	assert_non_null(f.output);
	assert_string_equal(buf_str(&f.events), "delegate_started fresh\ndelegate_retry busy\ndelegate_started retry\n"
						"delegate_finished\n");
	teardown(&f);
}

static void a_conversation_that_is_gone(void **state)
{
	(void)state;
	static const char script[] =
		"cat >/dev/null; case \"$*\" in *--resume*) echo 'No conversation found with session "
		"ID: X' >&2; exit 1;; esac; echo " RESULT;
	struct fixture f;

	setup(&f, script);
	f.agent.session_id = "X";
	f.agent.session_optional = true;
	run(&f);
	assert_non_null(f.output);
	assert_string_equal(buf_str(&f.events),
			    "delegate_started inherit\ndelegate_started fresh\ndelegate_finished\n");
	teardown(&f);
	setup(&f, script);
	f.agent.session_id = "X";
	run(&f);
	assert_null(f.output);
	assert_non_null(strstr(f.err.hint, "inherit_if_available"));
	teardown(&f);
}

static void odd_ids_are_refused(void **state)
{
	(void)state;
	static const char *const ids[] = {"", "-x", "--debug-file=/x", "a b", "../x", "x\n"};

	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		struct fixture f;
		static const char *const env[] = {"PATH=/bin", NULL};
		setup(&f, "echo " RESULT);
		f.agent.session_id = ids[i];
		const struct node_task t = {
			.loop = &f.loop, .session = f.session, .node_id = "n", .env = env, .agent = &f.agent};
		const struct node_callbacks cb = {.on_event = on_event, .on_done = on_done, .arg = &f};
		assert_int_equal(backend_claude_code.start(&t, &cb, &f.exec, &f.err), -EINVAL);
		assert_true(f.err.hint[0]);
		teardown(&f);
	}
}

/* Of a long standard error the end is shown, and of a key that stands where the rest was cut off nothing. */
static void much_on_stderr(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f,
	      "printf %s \"$ANTHROPIC_API_KEY\" >&2; printf '%4083s' '' | tr ' ' x >&2; echo ' the end' >&2; exit 4");
	run(&f);
	assert_null(f.output);
	assert_null(strstr(f.err.msg, "cret"));
	assert_non_null(strstr(f.err.msg, "xxx the end"));
	teardown(&f);
}

static void failures(void **state)
{
	(void)state;
	static const struct {
		const char *script, *msg;
		bool resumable;
	} rows[] = {
		{"echo key $ANTHROPIC_API_KEY >&2; exit 4", "node n: claude ended with exit code 4: key **************",
		 false},
		{"echo $ANTHROPIC_CUSTOM_HEADERS >&2; exit 4", "exit code 4: X-Auth: *********** X-B: c", false},
		{"printf 'esc \\033[31m' >&2; exit 1", "node n: claude ended with exit code 1: esc \\x1b[31m", false},
		{"echo '{\"a\":'", "node n: claude printed a line that is no JSON object: {\"a\":", false},
		{"kill -11 $$", "node n: claude ended by signal 11: it did not say why", false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;
		setup(&f, rows[i].script);
		run(&f);
		assert_null(f.output);
		assert_non_null(strstr(f.err.msg, rows[i].msg));
		assert_true(f.err.hint[0]);
		assert_int_equal(f.result.resumable, rows[i].resumable);
		teardown(&f);
	}
}

static void its_files(void **state)
{
	(void)state;
	struct fixture f;

	/* The argument behind the option is a file with the system prompt, that only its owner may read. */
	setup(&f, "cat >/dev/null; while [ $# -gt 0 ]; do [ \"$1\" != --append-system-prompt-file ] || file=$2; shift; "
		  "done\n"
		  "echo '{\"type\":\"result\",\"is_error\":false,\"result\":\"'$file $(stat -c %a $file) $(cat "
		  "$file)'\"}'");
	f.agent.system = "be careful";
	run(&f);
	const char *said = json_get_str(f.output, "output");
	assert_non_null(said);
	assert_non_null(strstr(said, "/system.md 600 be careful"));
	auto_free char *dir = xstrndup(said, strlen(said) - strlen("/system.md 600 be careful"));
	assert_int_equal(access(dir, F_OK), -1);
	teardown(&f);
	/* Where nothing can be written. */
	setup(&f, "echo " RESULT);
	f.agent.system = "be careful";
	free(f.path);
	f.path = xstrdup("PATH=/nowhere");
	run(&f);
	assert_null(f.output);
	assert_true(str_starts(f.err.msg, "node n: write /tmp/iterion-agent-"));
	assert_string_equal(buf_str(&f.events), "");
	teardown(&f);
}

/* A cleaning that takes for ever does not keep the run from ending. */
static void a_long_cleaning(void **state)
{
	(void)state;
	struct fixture f;
	static const char slow[] = "#!/bin/sh\ncd \"${0%/*}\" && printf %s \"$2\" >new && mv new folder\n"
				   "exec sleep 100\n";

	setup(&f, "cat >/dev/null; echo " RESULT);
	auto_free char *rm = xasprintf("%s/rm", f.top);
	assert_int_equal(file_replace(AT_FDCWD, rm, slow, strlen(slow), 0755, FILE_NO_SYNC, NULL), 0);
	f.agent.system = "be careful";
	f.cancel_when = WHEN_CLEANING;
	f.also_kill = true;
	run(&f);
	assert_non_null(f.output);
	assert_false(f.result.cancelled);
	auto_free char *folder = tmp_read(f.top, "folder");
	assert_true(folder && str_starts(folder, "/tmp/iterion-agent-"));
	assert_int_equal(tree_remove(AT_FDCWD, folder, NULL), 0);
	teardown(&f);
}

static void a_lost_sandbox(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f, "exec sleep 100");
	fake_session.lose_at = 1;
	run(&f);
	assert_null(f.output);
	assert_true(f.result.resumable);
	assert_int_equal(f.err.kind, ERR_SANDBOX);
	teardown(&f);
}

static void a_missing_program(void **state)
{
	(void)state;
	struct fixture f;

	setup(&f, "");
	free(f.path);
	f.path = xstrdup("PATH=/nowhere");
	run(&f);
	assert_string_equal(f.err.msg, "node n: run claude: No such file or directory");
	assert_non_null(strstr(f.err.hint, "install Claude Code"));
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers),
		cmocka_unit_test(what_it_does_not_know),
		cmocka_unit_test(a_long_prompt),
		cmocka_unit_test(cancelled),
		cmocka_unit_test(used_up),
		cmocka_unit_test(repairs),
		cmocka_unit_test(retries_until_it_answers),
		cmocka_unit_test(a_conversation_that_is_gone),
		cmocka_unit_test(odd_ids_are_refused),
		cmocka_unit_test(failures),
		cmocka_unit_test(much_on_stderr),
		cmocka_unit_test(its_files),
		cmocka_unit_test(a_long_cleaning),
		cmocka_unit_test(a_lost_sandbox),
		cmocka_unit_test(a_missing_program),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("backend delegate", tests, NULL, NULL);
}
