/* Values against declared types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "value.h"
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <stdlib.h>
#include <string.h>

static void test_parse(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum dsl_type type;
		const char *json; /* NULL: it does not fit */
	} cases[] = {
		{"", DSL_STRING, "\"\""},
		{"a=b", DSL_STRING, "\"a=b\""},
		{"\xff", DSL_STRING, "\"\xef\xbf\xbd\""},
		{"true", DSL_BOOL, "true"},
		{"false", DSL_BOOL, "false"},
		{"1", DSL_BOOL, NULL},
		{"True", DSL_BOOL, NULL},
		{"-7", DSL_INT, "-7"},
		{"9223372036854775808", DSL_INT, NULL},
		{"1.5", DSL_INT, NULL},
		{"1x", DSL_INT, NULL},
		{"", DSL_INT, NULL},
		{"1.5", DSL_FLOAT, "1.5"},
		{"2", DSL_FLOAT, "2.0"},
		{"nan", DSL_FLOAT, NULL},
		{"1e999", DSL_FLOAT, NULL},
		{"[1,{\"a\":null}]", DSL_JSON, "[1,{\"a\":null}]"},
		{"{", DSL_JSON, NULL},
		{"a,b c", DSL_STRINGS, "[\"a\",\"b c\"]"},
		{"", DSL_STRINGS, "[]"},
		{"[\"a,b\"]", DSL_STRINGS, "[\"a,b\"]"},
		{"[1]", DSL_STRINGS, NULL},
		{"[\"a\"", DSL_STRINGS, NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_json v = value_parse(cases[i].text, cases[i].type);
		if (!cases[i].json) {
			if (v)
				fail_msg("%s was read", cases[i].text);
			continue;
		}
		assert_non_null(v);
		char *got = json_compact(v);
		assert_string_equal(got, cases[i].json);
		free(got);
	}
}

static void test_types(void **state)
{
	(void)state;
	static const struct {
		const char *json;
		const char *types; /* that it has, of "sbifjl" */
	} cases[] = {
		{"\"x\"", "sj"}, {"true", "bj"}, {"3", "ifj"}, {"3.0", "ifj"},	  {"3.5", "fj"},
		{"null", "j"},	 {"{}", "j"},	 {"[]", "jl"}, {"[\"a\"]", "jl"}, {"[\"a\",1]", "j"},
	};
	static const struct {
		char letter;
		enum dsl_type type;
	} types[] = {{'s', DSL_STRING}, {'b', DSL_BOOL}, {'i', DSL_INT},
		     {'f', DSL_FLOAT},	{'j', DSL_JSON}, {'l', DSL_STRINGS}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_json v = json_loads(cases[i].json, JSON_DECODE_ANY, NULL);
		assert_non_null(v);
		for (size_t k = 0; k < ARRAY_LEN(types); k++) {
			bool want = strchr(cases[i].types, types[k].letter);
			if (value_has_type(v, types[k].type) != want)
				fail_msg("%s as %c", cases[i].json, types[k].letter);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse), cmocka_unit_test(test_types)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
