/* What all agents share: schemas, finding the answer in a text, prices, and when to try again. */
#include <backend/backend.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/ast.h>
#include <dsl/parse.h>

#include "../../../src/backend/agent/answer.h"
#include "../../../src/backend/agent/price.h"
#include "../../../src/backend/agent/retry.h"
#include "../../../src/backend/agent/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void expect_json(const json_t *j, const char *want)
{
	auto_free char *got = j ? json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	assert_string_equal(got ? got : "(null)", want);
}

static struct dsl_field field(const char *name, enum dsl_type type)
{
	return (struct dsl_field){.name = {.s = name}, .type = type};
}

static void schema_of_types(void **state)
{
	(void)state;
	struct dsl_str words[] = {{.s = "high"}, {.s = "low"}};
	struct dsl_field fields[] = {
		field("s", DSL_STRING), field("b", DSL_BOOL),	 field("i", DSL_INT),
		field("f", DSL_FLOAT),	field("l", DSL_STRINGS),
	};
	fields[0].choices = (struct dsl_list){.v = words, .n = 2};
	const struct dsl_schema s = {.fields = fields, .n = ARRAY_LEN(fields)};
	const struct agent_task a = {.schema = &s};
	auto_json j = agent_schema(&a);

	expect_json(j, "{\"additionalProperties\":false,\"properties\":{\"b\":{\"type\":\"boolean\"},"
		       "\"f\":{\"type\":\"number\"},\"i\":{\"type\":\"integer\"},"
		       "\"l\":{\"items\":{\"type\":\"string\"},\"type\":\"array\"},"
		       "\"s\":{\"enum\":[\"high\",\"low\"],\"type\":\"string\"}},"
		       "\"required\":[\"s\",\"b\",\"i\",\"f\",\"l\"],\"type\":\"object\"}");
	assert_true(agent_schema_is_closed(j));
	auto_buf told = BUF_INIT(4096);
	assert_int_equal(agent_schema_instruct(j, &told), 0);
	assert_non_null(strstr(buf_str(&told), "\"additionalProperties\":false"));
}

static void schema_of_any_value_is_open(void **state)
{
	(void)state;
	struct dsl_field fields[] = {field("s", DSL_STRING), field("j", DSL_JSON)};
	const struct dsl_schema s = {.fields = fields, .n = ARRAY_LEN(fields)};
	auto_json j = agent_schema(&(struct agent_task){.schema = &s});

	assert_false(agent_schema_is_closed(j));
	assert_true(agent_schema_is_closed(NULL));
	assert_null(agent_schema(&(struct agent_task){0}));
}

static void schema_of_choices(void **state)
{
	(void)state;
	static const char *const names[] = {"left", "right", NULL};
	auto_json one = agent_schema(&(struct agent_task){.choices = names});
	auto_json many = agent_schema(&(struct agent_task){.choices = names, .multi = true});

	expect_json(json_object_get(one, "properties"),
		    "{\"target\":{\"enum\":[\"left\",\"right\"],\"type\":\"string\"}}");
	expect_json(json_object_get(many, "properties"),
		    "{\"targets\":{\"items\":{\"enum\":[\"left\",\"right\"],\"type\":\"string\"},\"minItems\":1,"
		    "\"type\":\"array\"}}");
}

static void last_json_of_a_text(void **state)
{
	(void)state;
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"{\"a\":1}", "{\"a\":1}"},
		{"  {\"a\":1}\n", "{\"a\":1}"},
		{"Here it is: {\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
		{"Here it is: {\"a\":{\"b\":1}}. Bye", "{\"a\":{\"b\":1}}"},
		{"```json\n{\"a\":1}\n```\nthen\n```json\n{\"a\":2}\n```\n", "{\"a\":2}"},
		{"```json\n{\"a\":1}\n```\nand a command\n```sh\nls\n```\n", "{\"a\":1}"},
		{"```\n{\"a\":1}\n```", "{\"a\":1}"},
		{"{\"a\":1} {\"a\":2}", "{\"a\":2}"},
		{"so {\"a\":\"{}\"}", "{\"a\":\"{}\"}"},
		{"[1,2]", "(null)"},
		{"", "(null)"},
		{"no object }{", "(null)"},
		{"```json\n{\"a\":\n```", "(null)"},
		{"``````", "(null)"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_json j = answer_last_json(rows[i].text, strlen(rows[i].text));
		expect_json(j, rows[i].want);
	}
}

static void long_rubbish_takes_no_time(void **state)
{
	(void)state;
	auto_buf b = BUF_INIT(8 << 20);

	for (int i = 0; i < 400000; i++)
		assert_int_equal(buf_puts(&b, i % 2 ? "{\n" : "```}"), 0);
	assert_null(answer_last_json(buf_str(&b), b.len));
}

static void text_as_output(void **state)
{
	(void)state;
	auto_json j = answer_text("a\xff", 2);

	expect_json(j, "{\"output\":\"a\xef\xbf\xbd\"}");
}

static void prices(void **state)
{
	(void)state;
	const struct agent_usage u = {.input = 1000000, .output = 100000, .cache_read = 1000000};
	static const struct {
		const char *model;
		double want;
	} rows[] = {
		{"claude-sonnet-4-5", 4.8},
		{"claude-sonnet-4-5-20250929", 4.8},
		{"claude-sonnet-4-5@20250929", 4.8},
		{"claude-sonnet-4-5[1m]", 4.8},
		{"anthropic/claude-sonnet-4-5", 4.8},
		{"claude-opus-4-20250514", 24},
		{"claude-opus-4-5-20251101", 8},
		{"gpt-5-2025-08-07", 2.375},
		{"gpt-5", 2.375},
		{"gpt-5-pro", -1},
		{"gpt-5.9", -1},
		{"claude-opus-4-99", -1},
		{"llama3", -1},
		{"", -1},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_float_equal(price_usd(rows[i].model, &u), rows[i].want, 1e-9);
	assert_float_equal(price_usd(NULL, &u), -1, 0);
	assert_int_equal(usage_total(&u), 2100000);
}

static void delays(void **state)
{
	(void)state;
	static const struct {
		unsigned attempt;
		int status;
		int64_t after;
		uint32_t random;
		int64_t want;
	} rows[] = {
		{1, 429, -1, 0, 1000},	 {2, 529, -1, 0, 2000},	    {3, 500, -1, 0, 4000}, {1, 429, -1, 249, 751},
		{1, 429, -1, 250, 1000}, {1, 0, -1, 0, 1000},	    {1, 400, -1, 0, -1},   {1, 401, -1, 0, -1},
		{6, 429, -1, 0, -1},	 {1, 429, 30000, 7, 30000}, {1, 429, 0, 7, 0},	   {1, 429, 600001, 0, -1},
		{1, 404, 10, 0, -1},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(retry_delay_ms(rows[i].attempt, rows[i].status, rows[i].after, rows[i].random),
				 rows[i].want);
}

static void retry_after(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t want;
	} rows[] = {
		{"3", 3000},
		{" 0.5 ", 500},
		{"0", 0},
		{"-1", -1},
		{"", -1},
		{"Wed, 21 Oct 2015 07:28:00 GMT", -1},
		{"nan", -1},
		{"inf", -1},
		{"3s", -1},
		{"1e400", -1},
		{"1e300", INT64_C(1000000000000000)},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(retry_after_parse(rows[i].text), rows[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(schema_of_types),
		cmocka_unit_test(schema_of_any_value_is_open),
		cmocka_unit_test(schema_of_choices),
		cmocka_unit_test(last_json_of_a_text),
		cmocka_unit_test(long_rubbish_takes_no_time),
		cmocka_unit_test(text_as_output),
		cmocka_unit_test(prices),
		cmocka_unit_test(delays),
		cmocka_unit_test(retry_after),
	};

	return cmocka_run_group_tests_name("backend agent", tests, NULL, NULL);
}
