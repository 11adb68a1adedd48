/* The live view without a terminal: widths, the model fed by events, its lines, and the bytes that draw them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "output.h"
#include "view_frame.h"
#include "view_model.h"
#include "view_screen.h"
#include "view_width.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { START = 1000 * 1000 };

static void widths(void **state)
{
	static const struct {
		const char *text;
		size_t columns;
	} cases[] = {
		{"", 0},       {"abc", 3},	{"é", 1},	 {"e\u0301", 1},      {"漢字", 4}, {"한글", 4},
		{"ｗ", 2},     {"👍", 2},	{"a\u200bb", 2}, {"\u00a0\u00ad", 2}, {"…", 1},	   {"\U000e0041", 0},
		{"\ufffd", 1}, {"\xe6\xbc", 1}, {"\xff", 1},	 {"\xf0", 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(text_columns(cases[i].text), cases[i].columns);
}

static void fits(void **state)
{
	static const struct {
		const char *text;
		size_t columns;
		const char *want;
		size_t used;
	} cases[] = {
		{"abc", 3, "abc", 3},
		{"abcd", 3, "ab…", 3},
		{"abcd", 1, "…", 1},
		{"abcd", 0, "", 0},
		{"漢字", 4, "漢字", 4},
		{"漢字", 3, "漢…", 3},
		{"漢字", 2, "…", 1},
		{"", 5, "", 0},
		{"e\u0301e\u0301e", 2, "e\u0301…", 2},
		{"abe\u0301", 3, "abe\u0301", 3},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_buf b = BUF_INIT(100);
		assert_int_equal(text_fit(&b, cases[i].text, cases[i].columns), cases[i].used);
		assert_string_equal(buf_str(&b), cases[i].want);
	}
}

static void names_keep_their_ends(void **state)
{
	static const struct {
		const char *name;
		size_t columns;
		const char *want;
	} cases[] = {
		{"review_of_part_12", 17, "review_of_part_12"},
		{"review_of_part_12", 12, "review_…t_12"},
		{"review_of_part_12", 3, "r…2"},
		{"review_of_part_12", 2, "r…"},
		{"review_of_part_12", 0, ""},
		{"review_of_part ×12", 12, "review_… ×12"},
		{"漢字漢字漢字", 9, "漢字…字"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_buf b = BUF_INIT(100);
		assert_int_equal(name_fit(&b, cases[i].name, cases[i].columns), text_columns(cases[i].want));
		assert_string_equal(buf_str(&b), cases[i].want);
	}
}

/* An event of the time START + ms. */
static void feed(struct view *v, uint64_t ms, const char *type, const char *branch, const char *node, const char *data)
{
	char time[TIMESTAMP_SIZE];
	auto_json ev = json_object();

	clock_format(time, START + ms);
	json_put_str(ev, "type", type);
	json_put_str(ev, "timestamp", time);
	json_put_str(ev, "branch_id", branch);
	json_put_str(ev, "node_id", node);
	if (data) {
		json_t *d = json_parse(data, strlen(data), NULL);
		assert_non_null(d);
		json_put(ev, "data", d);
	}
	view_add(v, ev);
}

static char *frame(const struct view *v, unsigned columns, unsigned rows, uint64_t ms)
{
	const struct view_space space = {.columns = columns, .rows = rows};
	auto_strv lines = {0};
	auto_buf all = BUF_INIT(1024 * 1024);

	view_frame(v, &space, START + ms, &lines);
	assert_true(!rows || lines.n <= rows);
	for (size_t i = 0; i < lines.n; i++) {
		assert_true(text_columns(lines.v[i]) <= columns);
		assert_int_equal(buf_printf(&all, "%s\n", lines.v[i]), 0);
	}
	return buf_steal(&all);
}

static void assert_frame(const struct view *v, unsigned columns, unsigned rows, uint64_t ms, const char *want)
{
	auto_free char *have = frame(v, columns, rows, ms);

	assert_string_equal(have, want);
}

static void a_run(void **state)
{
	struct view v = {0};

	(void)state;
	feed(&v, 0, "run_started", NULL, NULL, "{\"workflow\":\"w\",\"sandbox\":\"auto\"}");
	assert_frame(&v, 80, 24, 100, "w  running 0.1 s\nsandbox: starting\n");
	feed(&v, 100, "sandbox_pull_progress", NULL, NULL,
	     "{\"image\":\"debian:12\",\"layer\":\"a\",\"current\":1000000,\"total\":4000000}");
	feed(&v, 110, "sandbox_pull_progress", NULL, NULL,
	     "{\"image\":\"debian:12\",\"layer\":\"b\",\"current\":1000000,\"total\":4000000}");
	assert_frame(&v, 80, 24, 200, "w  running 0.2 s\nsandbox: starting\npulling: debian:12  25 %  2.0 of 8.0 MB\n");
	feed(&v, 300, "sandbox_started", NULL, NULL,
	     "{\"driver\":\"native\",\"network\":{\"mode\":\"allowlist\",\"rules\":[\"a\"]}}");
	feed(&v, 1000, "node_started", NULL, "build", "{\"kind\":\"tool\"}");
	assert_frame(&v, 80, 24, 2500,
		     "w  running 2.5 s  nodes: 1 running\nsandbox: native, network allowlist with 1 rule\n"
		     "build   running   1.5 s\n");
	feed(&v, 3000, "network_blocked", NULL, "build", "{\"host\":\"evil.example\",\"port\":443,\"count\":2}");
	feed(&v, 3100, "network_blocked", NULL, "build", "{\"host\":\"evil.example\",\"port\":443}");
	feed(&v, 3200, "sandbox_warning", NULL, NULL, "{\"message\":\"look\"}");
	feed(&v, 4000, "node_finished", NULL, "build",
	     "{\"output\":{\"output\":\"all\\ngood\\n\"},\"_tokens\":1200,\"_cost_usd\":0.5}");
	feed(&v, 4000, "node_started", NULL, "build", NULL);
	feed(&v, 5000, "node_finished", NULL, "build", "{\"output\":{\"output\":\"twice\"},\"_tokens\":1}");
	feed(&v, 5000, "node_started", NULL, "check", NULL);
	feed(&v, 6000, "tool_error", NULL, "check", "{\"error\":\"node check: exit code 3\"}");
	static const char *const lines = "build ×2  finished  4.0 s           1201   $0.5000  twice\n"
					 "check     failed    1.0 s                           exit code 3\n"
					 "blocked: evil.example:443 ×3\nwarning: look\n";
	auto_free char *running = xasprintf("w  running 6.0 s  nodes: 1 failed, 1 finished  1201 tokens  $0.5000\n"
					    "sandbox: native, network allowlist with 1 rule\n%s",
					    lines);
	assert_frame(&v, 80, 24, 6000, running);
	feed(&v, 65000, "run_failed", NULL, NULL, "{\"error\":\"x\"}");
	auto_free char *ended = xasprintf("w  failed in 1m 05s  nodes: 1 failed, 1 finished  1201 tokens  $0.5000\n"
					  "sandbox: native, network allowlist with 1 rule\n%s",
					  lines);
	assert_frame(&v, 80, 0, 999999, ended);
	view_done(&v);
}

/* Sandboxes of nodes have lines of their own, and leave the run's alone. */
static void own_sandboxes(void **state)
{
	struct view v = {0};

	(void)state;
	feed(&v, 0, "run_started", NULL, NULL, "{\"workflow\":\"w\",\"sandbox\":\"auto\"}");
	feed(&v, 0, "sandbox_started", NULL, NULL, "{\"driver\":\"native\",\"network\":{\"mode\":\"open\"}}");
	feed(&v, 100, "sandbox_starting", NULL, "b", "{\"driver\":\"docker\",\"nodes\":[\"b\",\"c\\u001b[2J\"]}");
	assert_frame(&v, 80, 24, 100,
		     "w  running 0.1 s\nsandbox: native, network open\nsandbox of b, c\\x1b[2J: starting\n");
	feed(&v, 200, "sandbox_started", NULL, "b",
	     "{\"driver\":\"docker\",\"image\":\"debian:12\",\"nodes\":[\"b\",\"c\"],"
	     "\"network\":{\"mode\":\"allowlist\",\"rules\":[\"a\",\"b\"]}}");
	feed(&v, 300, "sandbox_skipped", NULL, "d", "{\"reason\":\"noop\",\"nodes\":7}");
	feed(&v, 300, "sandbox_starting", NULL, "e", NULL);
	feed(&v, 300, "sandbox_starting", NULL, "f", NULL);
	assert_frame(&v, 80, 24, 300,
		     "w  running 0.3 s\nsandbox: native, network open\nsandbox of d: none (noop)\n"
		     "sandbox of e: starting\nsandbox of f: starting\n");
	feed(&v, 1000, "run_finished", NULL, NULL, NULL);
	assert_frame(&v, 80, 0, 1000,
		     "w  finished in 1.0 s\nsandbox: native, network open\n"
		     "sandbox of b, c\\x1b[2J: docker, debian:12, network allowlist with 2 rules\n"
		     "sandbox of d: none (noop)\nsandbox of e: starting\nsandbox of f: starting\n");
	view_done(&v);
}

static void worktree(void **state)
{
	static const struct {
		const char *type, *data, *line;
	} cases[] = {
		{"worktree_created", "{\"path\":\"/s/w/1\",\"branch\":\"iterion/run/1\"}",
		 "worktree: /s/w/1 (branch iterion/run/1)\n"},
		{"worktree_warning", "{\"code\":\"x\",\"message\":\"filters are off\"}",
		 "worktree: /s/w/1 (branch iterion/run/1)\nwarning: filters are off\n"},
		{"worktree_merged", "{\"branch\":\"b\",\"into\":\"main\",\"up_to_date\":false}",
		 "worktree: b merged into main\nwarning: filters are off\n"},
		{"worktree_merged", "{\"branch\":\"b\",\"into\":\"main\",\"up_to_date\":true}",
		 "worktree: b has nothing new for main\nwarning: filters are off\n"},
		{"worktree_kept", "{\"branch\":\"b\",\"reason\":\"it conflicts\\u001b[2J\"}",
		 "worktree: branch b: it conflicts\\x1b[2J\nwarning: filters are off\n"},
		{"worktree_kept", "{\"branch\":\"b\",\"path\":\"/t\"}",
		 "worktree: /t, branch b\nwarning: filters are off\n"},
		{"worktree_kept", "[]", "worktree: branch ?\nwarning: filters are off\n"},
	};
	struct view v = {0};

	(void)state;
	feed(&v, 0, "run_started", NULL, NULL, "{\"workflow\":\"w\",\"sandbox\":\"none\"}");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		feed(&v, 0, cases[i].type, NULL, NULL, cases[i].data);
		auto_free char *want = xasprintf("w  running 0.0 s\nsandbox: none\n%s", cases[i].line);
		assert_frame(&v, 80, 24, 0, want);
	}
	view_done(&v);
}

static void branches(void **state)
{
	struct view v = {0};

	(void)state;
	feed(&v, 0, "run_started", NULL, NULL, "{\"workflow\":\"w\",\"sandbox\":\"none\"}");
	feed(&v, 0, "node_started", "split.work", "work", NULL);
	feed(&v, 0, "node_started", "split.other#2", "other", NULL);
	feed(&v, 0, "node_finished", "split.work", "work", NULL);
	feed(&v, 0, "node_started", "split.work", "after", NULL);
	feed(&v, 0, "human_input_requested", "split.other#2", "other", NULL);
	feed(&v, 1000, "run_cancelled", NULL, NULL, NULL);
	assert_frame(&v, 80, 24, 9000,
		     "w  cancelled in 1.0 s  nodes: 1 waiting, 1 stopped, 1 finished\nsandbox: none\n"
		     "work                finished  0.0 s\nother#2             waiting   1.0 s\n"
		     "after (split.work)  stopped   1.0 s\n");
	view_done(&v);
}

/* More nodes than rows: those that run, then those that failed, then the last that ended, in their order. */
static void crowded(void **state)
{
	struct view v = {0};
	char name[16];

	(void)state;
	feed(&v, 0, "run_started", NULL, NULL, "{\"workflow\":\"w\",\"sandbox\":\"none\"}");
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof name, "n%d", i);
		feed(&v, 0, "node_started", NULL, name, NULL);
		if (i == 1)
			feed(&v, 0, "tool_error", NULL, name, "{\"error\":\"e\"}");
		else if (i != 40)
			feed(&v, 0, "node_finished", NULL, name, NULL);
	}
	static const char *const head = "w  running 1.0 s  nodes: 1 running, 1 failed, 48 finished\n";
	auto_free char *seven = xasprintf("%ssandbox: none\nn1      failed    0.0 s       e\nn40     running   1.0 s\n"
					  "n48     finished  0.0 s\nn49     finished  0.0 s\n"
					  "… 46 more: 46 finished\n",
					  head);
	assert_frame(&v, 80, 7, 1000, seven);
	auto_free char *three = xasprintf("%sn40     running   1.0 s\n… 49 more: 1 failed, 48 finished\n", head);
	assert_frame(&v, 80, 3, 1000, three);
	assert_frame(&v, 80, 1, 1000, head);
	assert_frame(&v, 20, 3, 1000, "w  running 1.0 s  n…\nn40     running   1…\n… 49 more: 1 failed…\n");
	view_done(&v);
}

static void every_size(void **state)
{
	struct view v = {0};

	(void)state;
	feed(&v, 0, "run_started", NULL, NULL, "{\"workflow\":\"漢字漢字漢字\"}");
	for (int i = 0; i < 5; i++) {
		auto_free char *name = xasprintf("節%d漢字漢字漢字漢字漢字漢字", i);
		feed(&v, 0, "node_started", "b", name, NULL);
		feed(&v, 0, "node_finished", "b", name,
		     "{\"output\":{\"a\":\"字\"},\"_tokens\":5000000,\"_cost_usd\":1}");
		feed(&v, 0, "network_blocked", NULL, NULL, "{\"host\":\"字.example\"}");
		feed(&v, 0, "sandbox_warning", NULL, NULL, "{\"message\":\"字字字\"}");
	}
	for (unsigned columns = 1; columns < 120; columns++)
		for (unsigned rows = 0; rows < 12; rows++)
			free(frame(&v, columns, rows, 1000));
	view_done(&v);
}

/* Names and texts of an outsider: no byte of them reaches the lines as a control character. */
static void hostile(void **state)
{
	static const char *const bad = "\"\\u001b[2J\\u001b]52;c;eHg=\\u0007\\r\\n\\t\\u009b?1049h\\u202ex\\u2066\"";
	static const char *const types[] = {"run_started",     "sandbox_started", "sandbox_skipped",
					    "sandbox_warning", "node_started",	  "node_finished",
					    "tool_error",      "node_recovery",	  "network_blocked",
					    "budget_warning",  "run_failed",	  "sandbox_pull_progress"};
	struct view v = {0};

	(void)state;
	auto_free char *data = xasprintf(
		"{\"workflow\":%s,\"driver\":%s,\"image\":%s,\"layer\":%s,\"reason\":%s,\"message\":%s,\"error\":%s,"
		"\"host\":%s,\"dimension\":%s,\"output\":{\"output\":%s},\"network\":{\"mode\":%s},\"current\":-1,"
		"\"total\":\"x\",\"count\":-7,\"_tokens\":-1,\"used\":[]}",
		bad, bad, bad, bad, bad, bad, bad, bad, bad, bad, bad);
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		feed(&v, i, types[i], "\033[2J\n", "\033]0;x\007\n\t", data);
		auto_free char *lines = frame(&v, 200, 50, 1000);
		for (const char *s = lines; *s; s++)
			assert_true(*s == '\n' || ((unsigned char)*s >= ' ' && *s != 0x7f));
		assert_null(strstr(lines, "\u202e"));
		assert_null(strstr(lines, "\u2066"));
	}
	view_done(&v);
}

/* A long run stays small, and nothing of it is forgotten in the counts. */
static void endless(void **state)
{
	enum { TIMES = 3000 };
	struct view v = {0};

	(void)state;
	feed(&v, 0, "run_started", NULL, NULL, "{\"workflow\":\"w\",\"sandbox\":\"none\"}");
	for (int i = 0; i < TIMES; i++) {
		char branch[32];
		snprintf(branch, sizeof branch, "split.n#%d", i);
		feed(&v, 0, "node_started", branch, "n", NULL);
		feed(&v, 0, "node_finished", branch, "n", NULL);
		feed(&v, 0, "network_blocked", NULL, NULL, NULL);
		auto_free char *host = xasprintf("{\"host\":\"h%d\",\"message\":\"%d\",\"layer\":\"%d\"}", i, i, i);
		feed(&v, 0, "network_blocked", NULL, NULL, host);
		feed(&v, 0, "sandbox_warning", NULL, NULL, host);
		feed(&v, 0, "sandbox_pull_progress", NULL, NULL, host);
	}
	assert_true(v.n_nodes <= 1000 && v.n_blocks <= 64 && v.notes.n <= 20 && v.n_pulls <= 64);
	assert_int_equal(v.n_nodes + v.n_dropped, TIMES);
	auto_free char *lines = frame(&v, 80, 24, 1000);
	assert_non_null(strstr(lines, "3000 finished"));
	view_done(&v);
}

static void update(struct screen *s, const char *text, const char *want)
{
	auto_strv lines = {0};
	auto_buf bytes = BUF_INIT(10000);

	for (; *text; text += strcspn(text, "|"), text += *text == '|')
		strv_take(&lines, xstrndup(text, strcspn(text, "|")));
	screen_update(s, &lines, &bytes);
	assert_string_equal(buf_str(&bytes), want);
}

/* Only what changed is sent. */
static void drawing(void **state)
{
	struct screen s = {0};

	(void)state;
	screen_forget(&s);
	update(&s, "a|b", "\033[?2026h\033[2J\033[1;1H\033[2Ka\033[2;1H\033[2Kb\033[?2026l");
	update(&s, "a|b", "");
	update(&s, "a|c|d", "\033[?2026h\033[2;1H\033[2Kc\033[3;1H\033[2Kd\033[?2026l");
	update(&s, "a", "\033[?2026h\033[2;1H\033[2K\033[3;1H\033[2K\033[?2026l");
	screen_forget(&s);
	update(&s, "a", "\033[?2026h\033[2J\033[1;1H\033[2Ka\033[?2026l");
	screen_done(&s);
}

static char said[100];

static void before(void *arg, const char *text)
{
	(void)arg;
	snprintf(said, sizeof said, "%s", text);
}

static void after(void *arg)
{
	(void)arg;
	snprintf(said + strlen(said), sizeof said - strlen(said), ".");
}

/* Whoever draws hears of a message on the same terminal, and of none that goes elsewhere. */
static void messages(void **state)
{
	const struct output_guard guard = {.before = before, .after = after};
	int outer, inner, null = open("/dev/null", O_WRONLY | O_CLOEXEC),
			  saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	(void)state;
	assert_true(null >= 0 && saved >= 0 && openpty(&outer, &inner, NULL, NULL, NULL) == 0);
	output_set_guard(&guard);
	assert_true(dup2(null, STDERR_FILENO) >= 0);
	show_warning("not %s", "here");
	assert_string_equal(said, "");
	assert_true(dup2(inner, STDERR_FILENO) >= 0);
	show_warning("here");
	assert_string_equal(said, "here.");
	output_set_guard(NULL);
	show_warning("again");
	assert_string_equal(said, "here.");
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	close(null);
	close(inner);
	close(outer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(widths),     cmocka_unit_test(fits),	  cmocka_unit_test(names_keep_their_ends),
		cmocka_unit_test(a_run),      cmocka_unit_test(branches), cmocka_unit_test(crowded),
		cmocka_unit_test(every_size), cmocka_unit_test(hostile),  cmocka_unit_test(endless),
		cmocka_unit_test(drawing),    cmocka_unit_test(messages), cmocka_unit_test(own_sandboxes),
		cmocka_unit_test(worktree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
