/* The checks: every code has a case that triggers it and one that comes near without doing so. */
#include "cases.h"

#include <base/buf.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/check.h>
#include <dsl/diag.h>
#include <dsl/diagram.h>
#include <dsl/parse.h>

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct dsl_file *check_text(const char *text, size_t len)
{
	struct dsl_file *f;

	(void)dsl_parse("t.bot", text, len, NULL, &f);
	(void)dsl_check(f, NULL);
	return f;
}

static void test_cases(void **state)
{
	auto_cases cases = cases_read("checks.txt");
	size_t failed = 0;
	char got[1024];

	(void)state;
	for (size_t i = 0; i < cases.n; i++) {
		struct dsl_file *f = check_text(cases.v[i].text, cases.v[i].len);
		if (strcmp(findings(f, got, sizeof got), cases.v[i].expect) != 0) {
			print_error("%s\n  expected %s\n  got      %s\n", cases.v[i].name, cases.v[i].expect, got);
			failed++;
		}
		dsl_file_free(f);
	}
	assert_int_equal(failed, 0);
}

/* Every code of the language's description appears in the cases. */
static void test_every_code(void **state)
{
	static const char *const codes[] = {
		"C001", "C002", "C003", "C004", "C005", "C006", "C007", "C008", "C009", "C010", "C011", "C012", "C013",
		"C014", "C016", "C017", "C018", "C019", "C020", "C021", "C022", "C023", "C024", "C025", "C026", "C027",
		"C028", "C029", "C030", "C031", "C032", "C033", "C034", "C035", "C036", "C037", "C038", "C039", "C040",
		"C041", "C042", "C043", "C044", "C046", "C047", "C048", "C049", "C050", "C051", "C052", "C053", "C054",
		"C060", "C070", "C071", "C072", "C080", "C081", "C082", "C083", "C084", "C085", "C086",
	};
	auto_cases cases = cases_read("checks.txt");

	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(codes); c++) {
		bool found = false;
		for (size_t i = 0; i < cases.n; i++)
			found = found || strstr(cases.v[i].expect, codes[c]);
		if (!found)
			fail_msg("no case for %s", codes[c]);
	}
}

static void test_severity(void **state)
{
	static const char text[] = "agent a:\n  backend: codex\nworkflow w:\n  entry: a\n  a -> done\n";
	struct dsl_file *f;

	(void)state;
	assert_int_equal(dsl_parse("t.bot", text, strlen(text), NULL, &f), 0);
	assert_int_equal(dsl_check(f, NULL), 0);
	assert_int_equal(f->n_warnings, 1);
	assert_int_equal(f->diags[0].severity, DSL_WARNING);
	dsl_file_free(f);
}

static void test_backend_detected(void **state)
{
	static const char text[] = "agent a:\n  readonly: true\nworkflow w:\n  entry: a\n  a -> done\n";
	struct dsl_file *f;

	(void)state;
	assert_int_equal(dsl_parse("t.bot", text, strlen(text), NULL, &f), 0);
	assert_int_equal(dsl_check(f, &(struct dsl_check_opts){.backend_detected = true}), 0);
	assert_int_equal(f->n_diags, 0);
	dsl_file_free(f);
}

/* What validate prints, for people and for machines. */
static void test_output(void **state)
{
	static const char text[] = "tool é:\n";
	static const char edge[] =
		"tool a:\n  command: \"é {{vars.x}} \x1b[31m\"\nworkflow w:\n  entry: a\n  a -> done\n";
	auto_buf b = BUF_INIT(65536);

	(void)state;
	struct dsl_file *f = check_text(edge, strlen(edge));
	assert_int_equal(dsl_diags_format(&b, f), 0);
	assert_string_equal(buf_str(&b), "t.bot:2:17: error C033: unknown var \"x\"\n"
					 "    command: \"é {{vars.x}} \\x1b[31m\"\n"
					 "                  ^\n"
					 "  hint: declare it under vars:\n");
	auto_json j = dsl_diags_json(f);
	assert_true(json_is_false(json_object_get(j, "ok")));
	const json_t *one = json_array_get(json_object_get(j, "diagnostics"), 0);
	assert_string_equal(json_get_str(one, "code"), "C033");
	assert_string_equal(json_get_str(one, "severity"), "error");
	assert_int_equal(json_integer_value(json_object_get(one, "line")), 2);
	assert_int_equal(json_integer_value(json_object_get(one, "column")), 17);
	assert_string_equal(json_get_str(one, "hint"), "declare it under vars:");
	dsl_file_free(f);
	f = check_text(text, strlen(text));
	assert_true(f->n_errors > 0);
	dsl_file_free(f);
}

/* A chain of n tools, each of which uses the output of the one before and of the first. */
static char *make_chain(size_t n)
{
	struct buf b = BUF_INIT((size_t)1 << 28);

	assert_int_equal(buf_puts(&b, "workflow w:\n  entry: n0\n"), 0);
	for (size_t i = 0; i + 1 < n; i++)
		assert_int_equal(
			buf_printf(&b,
				   "  n%zu -> n%zu with { a: \"{{outputs.n%zu}}\", b: \"{{outputs.n0.output}}\" }\n", i,
				   i + 1, i),
			0);
	assert_int_equal(buf_printf(&b, "  n%zu -> done\n", n - 1), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(
			buf_printf(&b, "tool n%zu:\n  command: |\n    echo {{input.a}}\n    echo {{outputs.n0}}\n", i),
			0);
	return buf_steal(&b);
}

static void test_long(void **state)
{
	char *text = make_chain(20000);

	(void)state;
	struct dsl_file *f = check_text(text, strlen(text));
	/* Only the first node names itself, which it cannot have run before. */
	assert_int_equal(f->n_errors, 1);
	assert_string_equal(f->diags[0].code, "C036");
	dsl_file_free(f);
	free(text);
}

static void test_diagram(void **state)
{
	static const char text[] = "schema s:\n  ok: bool\nagent a:\n  model: \"<m>\"\n  output: s\n"
				   "workflow w:\n  entry: a\n  a -> done when ok\n  a -> a when not ok as again(3)\n";
	auto_buf b = BUF_INIT(65536);

	(void)state;
	struct dsl_file *f = check_text(text, strlen(text));
	assert_int_equal(f->n_errors, 0);
	assert_int_equal(dsl_diagram(f, DSL_DIAGRAM_PLAIN, &b), 0);
	assert_string_equal(buf_str(&b), "flowchart TD\n"
					 "  start((\"w\")) --> n_a\n"
					 "  n_a[\"a\"]\n"
					 "  n_done((\"done\"))\n"
					 "  n_a --> n_done\n"
					 "  n_a --> n_a\n");
	buf_clear(&b);
	assert_int_equal(dsl_diagram(f, DSL_DIAGRAM_FULL, &b), 0);
	assert_non_null(strstr(buf_str(&b), "n_a[\"a<br/>agent<br/>model: #60;m#62;<br/>output: s\"]"));
	assert_non_null(strstr(buf_str(&b), "n_a -->|\"not ok<br/>again ≤ 3\"| n_a"));
	dsl_file_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),	 cmocka_unit_test(test_every_code),
		cmocka_unit_test(test_severity), cmocka_unit_test(test_backend_detected),
		cmocka_unit_test(test_output),	 cmocka_unit_test(test_long),
		cmocka_unit_test(test_diagram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
