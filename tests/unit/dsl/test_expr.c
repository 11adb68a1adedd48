/* Expressions: values, errors that name the types, limits. */
#include "cases.h"

#include <base/arena.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/expr.h>

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char world[] =
	"{\"vars\": {\"list\": [\"x\"], \"two\": [\"y\"], \"none\": [], \"dups\": [1, 1, 2, {\"a\": 1}, {\"a\": 1}],"
	"  \"objects\": [{}]},"
	" \"input\": {\"count\": 3, \"items\": [\"a\", \"b\", \"c\"]},"
	" \"outputs\": {\"a\": {\"deep\": {\"x\": [0, {\"k\": \"y\"}]}}},"
	" \"history\": {\"a\": [{\"n\": 1}, {\"n\": 2}]},"
	" \"artifacts\": {\"report\": \"art\"},"
	" \"loop\": {\"l\": {\"iteration\": 2, \"max\": 3, \"previous_output\": {\"f\": \"p\"}}},"
	" \"run\": {\"id\": \"run-1\"}, \"field\": {\"ok\": true, \"n\": 4}}";

static json_t *get(void *arg, enum dsl_ns ns, const char *name)
{
	static const char *const keys[] = {"vars",	  "input", "outputs", "history", "artifacts",
					   "attachments", "loop",  "run",     "field"};
	json_t *space = json_object_get(arg, keys[ns]);

	return json_incref(name ? json_object_get(space, name) : space);
}

/* Compiles and evaluates; the value as JSON or "error: …" in to. */
static void evaluate(const char *text, size_t len, unsigned flags, json_t *j, char *to, size_t size)
{
	struct arena *a = arena_new();
	struct dsl_scope scope = {.get = get, .arg = j};
	const struct expr *x;
	struct err e = ERR_INIT;
	json_t *v = NULL;

	if (expr_compile(a, text, len, flags, &x, NULL, &e) < 0 || expr_eval(x, &scope, &v, &e) < 0) {
		(void)snprintf(to, size, "error: %s", e.msg);
	} else {
		char *s = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
		(void)snprintf(to, size, "%s", s);
		free(s);
	}
	json_decref(v);
	arena_free(a);
}

static bool matches(const char *expect, const char *got)
{
	if (str_starts(expect, "error: "))
		return str_starts(got, "error: ") && strstr(got, expect + strlen("error: "));
	return strcmp(expect, got) == 0;
}

static void test_cases(void **state)
{
	auto_cases cases = cases_read("exprs.txt");
	size_t failed = 0;
	auto_json j = json_loads(world, 0, NULL);
	char got[2048];

	(void)state;
	assert_non_null(j);
	for (size_t i = 0; i < cases.n; i++) {
		evaluate(cases.v[i].text,
			 cases.v[i].len - (cases.v[i].len && cases.v[i].text[cases.v[i].len - 1] == '\n'), 0, j, got,
			 sizeof got);
		if (!matches(cases.v[i].expect, got)) {
			print_error("%s\n  expected %s\n  got      %s\n", cases.v[i].name, cases.v[i].expect, got);
			failed++;
		}
	}
	assert_int_equal(failed, 0);
}

static void test_bare_names(void **state)
{
	static const struct {
		const char *text, *expect;
	} rows[] = {
		{"ok", "true"},	   {"n > 3 && ok", "true"}, {"missing", "null"},
		{"input", "null"}, {"input.count", "3"},    {"foo.bar", "error: unknown name"},
	};
	auto_json j = json_loads(world, 0, NULL);
	char got[2048];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		evaluate(rows[i].text, strlen(rows[i].text), EXPR_BARE_NAMES, j, got, sizeof got);
		if (!matches(rows[i].expect, got))
			fail_msg("%s: expected %s, got %s", rows[i].text, rows[i].expect, got);
	}
}

/* Nesting and chains end with an error, not with the stack; a long flat chain is fine. */
static void test_limits(void **state)
{
	static const struct {
		const char *open, *middle, *close;
		size_t times;
		bool ok;
	} rows[] = {
		{"(", "1", ")", 150, true},
		{"(", "1", ")", 10000, false},
		{"!", "true", "", 150, true},
		{"!", "true", "", 100000, false},
		{"-", "1", "", 100000, false},
		{"1+", "1", "", 150, true},
		{"1+", "1", "", 100000, false},
		{"true&&", "true", "", 50000, true},
		{"length([", "", "", 10000, false},
		{"input[", "1", "]", 10000, false},
		{"if(true,1,", "1", ")", 10000, false},
		{"(", "", "", 1000000, false},
	};
	auto_json j = json_loads(world, 0, NULL);
	char got[2048];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *open = repeat(rows[i].open, rows[i].times), *close = repeat(rows[i].close, rows[i].times);
		char *text = xasprintf("%s%s%s", open, rows[i].middle, close);
		evaluate(text, strlen(text), 0, j, got, sizeof got);
		if (str_starts(got, "error: ") == rows[i].ok)
			fail_msg("%zu times %s: %s", rows[i].times, rows[i].open, got);
		free(open);
		free(close);
		free(text);
	}
}

static void test_truth(void **state)
{
	static const struct {
		const char *json;
		bool truth;
	} rows[] = {
		{"null", false}, {"false", false}, {"true", true},  {"0", false},
		{"0.0", false},	 {"-1", true},	   {"\"\"", false}, {"\"0\"", true},
		{"[]", false},	 {"[0]", true},	   {"{}", false},   {"{\"a\":null}", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_json v = json_loads(rows[i].json, JSON_DECODE_ANY, NULL);
		if (json_truthy(v) != rows[i].truth)
			fail_msg("%s", rows[i].json);
	}
	assert_false(json_truthy(NULL));
}

static void test_refs(void **state)
{
	static const char text[] = "outputs.a.history[0].n + vars.list[input.i].x";
	struct arena *a = arena_new();
	const struct expr *x;
	const struct dsl_ref *const *refs;

	(void)state;
	assert_int_equal(expr_compile(a, text, strlen(text), 0, &x, NULL, NULL), 0);
	assert_int_equal(expr_refs(x, &refs), 3);
	assert_int_equal(refs[0]->ns, DSL_NS_HISTORY);
	assert_int_equal(refs[0]->n, 3);
	assert_string_equal(refs[0]->path[1], "0");
	assert_int_equal(refs[1]->ns, DSL_NS_INPUT);
	assert_int_equal(refs[2]->ns, DSL_NS_VARS);
	assert_string_equal(refs[2]->path[1], "*");
	assert_int_equal(refs[2]->offset, strstr(text, "vars") - text);
	arena_free(a);
}

/* Any bytes, with nothing readable behind them. */
static void test_bytes(void **state)
{
	static const char bytes[] = "\"a\0b\" == \"\xff\xfe\" && input.x\0";
	auto_json j = json_loads(world, 0, NULL);
	char got[2048];

	(void)state;
	for (size_t n = 0; n <= sizeof bytes; n++) {
		char *copy = xmemdup(bytes, n ? n : 1);
		evaluate(copy, n, 0, j, got, sizeof got);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases), cmocka_unit_test(test_bare_names), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_truth), cmocka_unit_test(test_refs),	 cmocka_unit_test(test_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
