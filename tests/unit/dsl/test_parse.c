/* The parser: the tree of a whole file, errors with their places, text in all forms, and input that is no workflow. */
#include "cases.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/check.h>
#include <dsl/diag.h>
#include <dsl/parse.h>
#include <dsl/sandbox_block.h>
#include <dsl/vars.h>

#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *lookup(void *arg, const char *name)
{
	(void)arg;
	if (strcmp(name, "HOME") == 0)
		return "/home/me";
	return strcmp(name, "EMPTY") == 0 ? "" : NULL;
}
static const struct dsl_env env = {.get = lookup, .project_dir = "/project"};

static struct dsl_file *parse(const char *text, size_t len)
{
	struct dsl_file *f;

	(void)dsl_parse("t.bot", text, len, &env, &f);
	return f;
}

static char *read_whole(size_t *len)
{
	char *text;
	struct err e = ERR_INIT;

	if (file_read(AT_FDCWD, TEST_DATA "/dsl/whole.bot", 1 << 20, &text, len, &e) < 0)
		fail_msg("%s", e.msg);
	return text;
}

static void test_cases(void **state)
{
	auto_cases cases = cases_read("parse.txt");
	size_t failed = 0;
	char got[1024];

	(void)state;
	for (size_t i = 0; i < cases.n; i++) {
		struct dsl_file *f = parse(cases.v[i].text, cases.v[i].len);
		if (strcmp(findings(f, got, sizeof got), cases.v[i].expect) != 0) {
			print_error("%s\n  expected %s\n  got      %s\n", cases.v[i].name, cases.v[i].expect, got);
			failed++;
		}
		dsl_file_free(f);
	}
	assert_int_equal(failed, 0);
}

static void assert_json(const json_t *v, const char *expect)
{
	auto_free char *got = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);

	assert_string_equal(got, expect);
}

static void check_data(const struct dsl_file *f)
{
	assert_int_equal(f->n_vars, 6);
	assert_string_equal(json_string_value(dsl_find_var(f, "target")->value.v), "x /home/me");
	assert_int_equal(dsl_find_var(f, "extra")->type, DSL_FLOAT);
	assert_json(dsl_find_var(f, "list")->value.v, "[\"a\",\"b c\"]");
	assert_json(dsl_find_var(f, "data")->value.v, "{\"a\":[1,{\"b\":2}],\"c\":\"me\"}");
	assert_int_equal(dsl_find_var(f, "mode")->choices.n, 2);
	assert_int_equal(dsl_find_preset(f, "staging")->n, 2);
	assert_int_equal(dsl_find_attachment(f, "logs")->kind.v, DSL_ATTACHMENT_FILE);
	assert_true(dsl_find_attachment(f, "logs")->required.v);
	assert_int_equal(dsl_find_attachment(f, "pic")->kind.v, DSL_ATTACHMENT_IMAGE);
	const struct dsl_str *p = &dsl_find_prompt(f, "ask")->text.src;
	assert_string_equal(p->s, "Hello {{vars.target}}\n\n  indented  ## not a comment\n${NOT_SET} stays");
	struct dsl_pos pos = dsl_str_pos(p, (size_t)(strstr(p->s, "indented") - p->s));
	assert_int_equal(pos.line, 25);
	assert_int_equal(pos.column, 5);
	assert_int_equal(dsl_schema_field(dsl_find_schema(f, "verdict"), "items")->type, DSL_STRINGS);
	assert_null(dsl_schema_field(dsl_find_schema(f, "verdict"), "nothing"));
	assert_string_equal(dsl_find_mcp_server(f, "hub")->env.v[0].value.s, "none");
	assert_string_equal(dsl_find_cursor(f, "tone")->values.v[0].value.s, "be formal");
}

static void check_agent(const struct dsl_node *a)
{
	assert_int_equal(a->kind, DSL_AGENT);
	assert_string_equal(a->model.s, "claude-opus-4-1");
	assert_int_equal(a->session.v, DSL_FRESH);
	assert_int_equal(a->tools.n, 3);
	assert_string_equal(a->tools.v[1].s, "mcp.hub.*");
	assert_string_equal(a->tools.v[2].s, "Bash(git:*)");
	assert_true(a->readonly.v && a->memory.enabled.v);
	assert_string_equal(a->memory.scope.s, "x");
	assert_string_equal(a->mcp.servers.v[0].s, "hub");
	assert_int_equal(a->n_cursors, 1);
	assert_int_equal(a->n_out, 2);
	assert_int_equal(a->n_in, 1);
	const struct dsl_sandbox *s = a->sandbox;
	assert_false(s->short_form);
	assert_string_equal(s->image.s, "python:3");
	assert_string_equal(s->mounts.v[0].s, "type=bind,source=${localEnv:HOME}/.cache,target=/cache");
	assert_int_equal(s->network.mode.v, DSL_NETWORK_ALLOWLIST);
	assert_string_equal(s->network.preset.v[0].s, "iterion-default");
	assert_string_equal(s->network.rules.v[1].s, "!c.example");
	assert_int_equal(s->network.rules.v[1].pos.line, 71);
	assert_string_equal(s->secrets[0].hosts.v[0].s, "h.example");
	assert_string_equal(s->limits.memory.s, "2g");
	assert_int_equal(s->limits.pids.v, 100);
}

static void check_workflow(const struct dsl_file *f)
{
	const struct dsl_workflow *w = f->workflow;

	assert_string_equal(w->entry.s, "a");
	assert_int_equal(w->worktree.v, DSL_WORKTREE_AUTO);
	assert_true(w->sandbox->short_form);
	assert_int_equal(w->sandbox->mode.v, DSL_SANDBOX_AUTO);
	assert_int_equal(w->budget.max_duration_ms, 5400000);
	assert_int_equal(w->n_edges, 10);
	assert_string_equal(w->edges[0]->with[1].key.s, "g");
	assert_string_equal(w->edges[0]->when.s, "ok");
	assert_true(w->edges[1]->negated);
	assert_string_equal(w->edges[1]->loop.s, "again");
	assert_int_equal(w->edges[1]->loop_max.v, 3);
	assert_ptr_equal(w->edges[1]->src, w->edges[1]->dst);
	assert_non_null(w->edges[6]->expr.x);
	assert_int_equal(w->edges[9]->target, DSL_TO_DONE);
	assert_null(w->edges[9]->dst);
}

static void test_whole(void **state)
{
	size_t len;
	auto_free char *text = read_whole(&len);
	auto_buf b = BUF_INIT(65536);
	struct dsl_file *f = parse(text, len);

	(void)state;
	(void)dsl_check(f, NULL);
	(void)dsl_diags_format(&b, f);
	/* Its memory is read, and nobody has one. */
	assert_int_equal(f->n_errors, 0);
	assert_int_equal(f->n_warnings, 1);
	assert_non_null(strstr(buf_str(&b), "58:3: warning C047: "));
	check_data(f);
	check_agent(dsl_find_node(f, "a"));
	check_workflow(f);
	assert_string_equal(dsl_find_node(f, "t")->command.src.s,
			    "echo {{vars.target}} \"x {{input.f}}\" /home/me ${i}\n\n  for x in a; do echo $x; done\n");
	assert_string_equal(dsl_find_node(f, "u")->script.src.s, "print({{vars.n}})\nprint(\"raw\")");
	assert_int_equal(dsl_find_node(f, "u")->language.v, DSL_PYTHON3);
	assert_int_equal(dsl_find_node(f, "c")->n_exprs, 2);
	assert_null(dsl_find_node(f, "nothing"));
	dsl_file_free(f);
}

/* The value of a var's default, or the findings. */
static void default_of(const char *head, const char *literal, char *to, size_t size)
{
	char *text = xasprintf("%svars:\n  x: string = %s\n", head, literal);
	struct dsl_file *f = parse(text, strlen(text));

	if (f->n_diags)
		(void)findings(f, to, size);
	else
		(void)snprintf(to, size, "%s", json_string_value(dsl_find_var(f, "x")->value.v));
	dsl_file_free(f);
	free(text);
}

static void test_strings(void **state)
{
	static const char strict[] = "## a file\n## strict-escape: on\n";
	static const struct {
		const char *head, *literal, *expect;
	} rows[] = {
		{"", "\"a \\\" \\n \\x \\\\\"", "a \\\" \\n \\x \\\\"},
		{strict, "\"a \\\" \\\\ \\t \\u00e9 \\u20ac\"", "a \" \\ \t é €"},
		{strict, "\"\\x\"", "P006@4:16"},
		{strict, "\"\\ud800\"", "P006@4:16"},
		{strict, "\"\\u12\"", "P006@4:16"},
		{strict, "`\\n`", "\\n"},
		{"vars2:\n## strict-escape: on\n", "\"\\x\"", "P002@1:1"},
		{"", "`a \"b\" \\ $c`", "a \"b\" \\ $c"},
		{"", "`a\r\nb\nc`", "a\nb\nc"},
		{"", "|\n    a\n      b\n\n    c\n\n", "a\n  b\n\nc\n"},
		{"", "|\n      a\n    b", "  a\nb\n"},
		{"", "\"${HOME}\"", "/home/me"},
		{"", "\"${PROJECT_DIR}/x\"", "/project/x"},
		{"", "\"${NONE:-d}${EMPTY:-e}${HOME:-f}\"", "de/home/me"},
		{"", "\"${NONE:-${HOME}}${NONE:-}\"", "/home/me"},
		{"", "\"${EMPTY}x\"", "x"},
		{"", "\"${NONE}x\"", "P013@2:16"},
		{"", "\"${localEnv:HOME} ${#x} ${x%y} $HOME ${ ${}\"", "${localEnv:HOME} ${#x} ${x%y} $HOME ${ ${}"},
		{"", "\"${HOME:-\"", "${HOME:-"},
		{"", "\"## no comment\" ## a comment", "## no comment"},
	};
	char got[1024];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		default_of(rows[i].head, rows[i].literal, got, sizeof got);
		if (strcmp(got, rows[i].expect) != 0)
			fail_msg("%s: expected %s, got %s", rows[i].literal, rows[i].expect, got);
	}
}

/* CRLF line ends and a byte order mark change nothing. */
static void test_line_ends(void **state)
{
	size_t len;
	auto_free char *text = read_whole(&len);
	auto_buf crlf = BUF_INIT(1 << 20);

	(void)state;
	assert_int_equal(buf_puts(&crlf, "\xef\xbb\xbf"), 0);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(text[i] == '\n' ? buf_puts(&crlf, "\r\n") : buf_putc(&crlf, text[i]), 0);
	struct dsl_file *f = parse(crlf.data, crlf.len);
	assert_int_equal(f->n_diags, 0);
	check_data(f);
	check_agent(dsl_find_node(f, "a"));
	check_workflow(f);
	dsl_file_free(f);
}

/* Cut at every byte, and with every byte replaced: no crash, and a cut file is an error or a smaller workflow. */
static void test_damaged(void **state)
{
	static const char with[] = {'\0', '\n', '"', '`', '{', ']', '\t', (char)0xff, ':', '|'};
	size_t len;
	auto_free char *text = read_whole(&len);

	(void)state;
	for (size_t n = 0; n < len; n++) {
		char *copy = xmemdup(text, n ? n : 1);
		struct dsl_file *f = parse(copy, n);
		(void)dsl_check(f, NULL);
		dsl_file_free(f);
		copy[n ? n - 1 : 0] = with[n % sizeof with];
		f = parse(copy, n);
		(void)dsl_check(f, NULL);
		dsl_file_free(f);
		free(copy);
	}
}

static void test_bytes(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *expect;
	} rows[] = {
		{"vars:\n  x: string = \"a\0b\"\n", 26, "P010@2:17"},
		{"vars:\n  x: string = \"\xff\"\n", 24, "P010@2:16"},
		{"\0", 1, "P010@1:1 P010@1:1"},
		{"\x7f"
		 "ELF\x02\x01\x01\0\0",
		 9, "P010@1:1 P010@1:8"},
		{"\xef\xbb\xbf", 3, ""},
		{"\r\n\r\n", 4, ""},
	};
	char got[1024];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct dsl_file *f = parse(rows[i].text, rows[i].len);
		if (strcmp(findings(f, got, sizeof got), rows[i].expect) != 0)
			fail_msg("%zu: expected %s, got %s", i, rows[i].expect, got);
		dsl_file_free(f);
	}
}

static void test_too_large(void **state)
{
	size_t len = (size_t)100 << 20;
	char *text = xmalloc(len);
	char got[64];

	(void)state;
	memset(text, '#', len);
	struct dsl_file *f = parse(text, len);
	assert_string_equal(findings(f, got, sizeof got), "P011@1:1");
	assert_non_null(strstr(f->diags[0].message, "100 MiB; the most is 64 MiB"));
	assert_int_equal(dsl_check(f, NULL), -22);
	assert_int_equal(f->n_errors, 1);
	dsl_file_free(f);
	free(text);
}

/* More errors than a person reads are counted, not kept. */
static void test_many_errors(void **state)
{
	char *text = repeat("nonsense\n", 5000);
	auto_buf b = BUF_INIT(1 << 20);

	(void)state;
	struct dsl_file *f = parse(text, strlen(text));
	assert_int_equal(f->n_diags, DSL_DIAGS_MAX);
	assert_int_equal(f->n_errors, 5000);
	assert_int_equal(dsl_diags_format(&b, f), 0);
	assert_true(str_ends(buf_str(&b), "4900 more findings are not shown\n"));
	dsl_file_free(f);
	free(text);
}

/* What one file may hold is bounded, so that its tree is. */
static void test_bounds(void **state)
{
	static const struct {
		const char *head, *line, *tail;
		size_t times;
	} rows[] = {
		{"agent a:\n  tools: [", "a,", "]\n", 100001},
		{"prompt p:\n  ", "{{vars.x}}", "\n", 200001},
		{"workflow w:\n", "  a -> b\n", "", 1000001},
		{"", "agent a:\n", "", 100001},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *lines = repeat(rows[i].line, rows[i].times);
		char *text = xasprintf("%s%s%s", rows[i].head, lines, rows[i].tail);
		struct dsl_file *f = parse(text, strlen(text));
		if (f->n_errors == 0)
			fail_msg("%zu times %s", rows[i].times, rows[i].line);
		dsl_file_free(f);
		free(text);
		free(lines);
	}
	char *junk = repeat("nonsense\n", 1000000);
	struct dsl_file *f = parse(junk, strlen(junk));
	assert_in_range(f->n_errors, 10000, 10002);
	dsl_file_free(f);
	free(junk);
}

/* Input that invites quadratic behaviour: so much of it that such a parser would not come to an end here. */
static void test_hostile_shapes(void **state)
{
	static const char *const lines[] = {
		"a: [\n",
		"vars:\n  x: json = {\n",
		"vars:\n  x: json = [[[\n",
		"`\n",
		"\"",
		"{{",
		"prompt p:\n  {{\n",
		"prompt p:\n  {{vars.x}}\n",
		"${A:-",
		"vars:\n  x: string = \"${A:-\n",
		"(",
		" ",
		"  \n",
		"x: |\n",
		"agent a:\n",
		"schema s:\n  f: string\n",
		"workflow w:\n  a -> b with {\n",
		"\t",
		"\r",
		"-> ",
		"x -> y\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		char *text = repeat(lines[i], 400000);
		struct dsl_file *f = parse(text, strlen(text));
		assert_non_null(f);
		dsl_file_free(f);
		free(text);
	}
}

/* One long line and one long string with many references. */
static void test_long_text(void **state)
{
	char *refs = repeat("{{vars.x}} ${HOME} ", 20000);
	char *text = xasprintf("vars:\n  x: string = \"\"\ntool t:\n  command: \"echo %s\"\n", refs);

	(void)state;
	struct dsl_file *f = parse(text, strlen(text));
	assert_int_equal(f->n_diags, 0);
	dsl_file_free(f);
	free(text);
	free(refs);
}

static void test_no_env(void **state)
{
	static const char text[] = "vars:\n  x: string = \"${HOME:-none}\"\n";
	struct dsl_file *f;

	(void)state;
	assert_int_equal(setenv("HOME", "/from/the/process", 1), 0);
	assert_int_equal(dsl_parse("t.bot", text, strlen(text), NULL, &f), 0);
	assert_string_equal(json_string_value(dsl_find_var(f, "x")->value.v), "none");
	dsl_file_free(f);
}

static void test_types(void **state)
{
	static const struct {
		enum dsl_type type;
		const char *text, *expect;
	} rows[] = {
		{DSL_STRING, "5", "\"5\""},
		{DSL_INT, "5", "5"},
		{DSL_INT, "5.0", NULL},
		{DSL_INT, "", NULL},
		{DSL_INT, "0x10", NULL},
		{DSL_INT, "99999999999999999999", NULL},
		{DSL_FLOAT, "1e3", "1000.0"},
		{DSL_FLOAT, "inf", NULL},
		{DSL_FLOAT, "1e999", NULL},
		{DSL_BOOL, "true", "true"},
		{DSL_BOOL, "yes", NULL},
		{DSL_JSON, "{\"a\":1}", "{\"a\":1}"},
		{DSL_JSON, "word", "\"word\""},
		{DSL_STRINGS, "a, b", "[\"a\",\"b\"]"},
		{DSL_STRINGS, "[\"a,b\"]", "[\"a,b\"]"},
		{DSL_STRINGS, "", "[]"},
		{DSL_STRINGS, "[1]", NULL},
		{DSL_STRINGS, "[", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_json v = NULL;
		struct err e = ERR_INIT;
		int r = dsl_type_parse(rows[i].type, rows[i].text, strlen(rows[i].text), &v, &e);
		auto_free char *got = r == 0 ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
		if (!str_eq(got, rows[i].expect))
			fail_msg("%s: expected %s, got %s", rows[i].text, rows[i].expect, got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),	       cmocka_unit_test(test_whole),
		cmocka_unit_test(test_strings),	       cmocka_unit_test(test_line_ends),
		cmocka_unit_test(test_damaged),	       cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_too_large),      cmocka_unit_test(test_many_errors),
		cmocka_unit_test(test_long_text),      cmocka_unit_test(test_no_env),
		cmocka_unit_test(test_hostile_shapes), cmocka_unit_test(test_types),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
