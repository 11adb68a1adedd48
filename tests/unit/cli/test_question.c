/* Questions as text, and typed lines as answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "question.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>
#include <dsl/ast.h>
#include <engine/engine.h>
#include <stdlib.h>
#include <string.h>

static struct dsl_str choices[] = {{.s = "small"}, {.s = "large"}};
static struct dsl_field fields[] = {
	{.name = {.s = "ok"}, .type = DSL_BOOL},
	{.name = {.s = "size"}, .type = DSL_STRING, .choices = {.v = choices, .n = 2}},
	{.name = {.s = "note"}, .type = DSL_STRING},
	{.name = {.s = "n"}, .type = DSL_INT},
};
static const struct dsl_schema schema = {.fields = fields, .n = ARRAY_LEN(fields)};

static struct question *make(const struct dsl_schema *s, size_t need)
{
	const struct engine_question q = {
		.id = "h-1", .node_id = "h", .instructions = "one\n\ntwo\n", .schema = s, .min_answers = need};

	return question_new(&q);
}

/* One line at one field: the answer, "-" for left out, or "!" and why not. */
static char *at(size_t field, size_t need, const char *line, size_t len)
{
	struct question *q = make(&schema, need);
	const char *why;

	while (q->at < field)
		(void)question_take(q, xstrdup("x=1"));
	char *answer = question_line(q, line, len, &why);
	if (!answer)
		answer = why ? xasprintf("!%s", why) : xstrdup("-");
	question_free(q);
	return answer;
}

static void test_lines(void **state)
{
	(void)state;
	static const struct {
		size_t field, need;
		const char *line, *means;
	} cases[] = {
		{0, 4, "y", "ok=true"},
		{0, 4, "YES ", "ok=true"},
		{0, 4, " n", "ok=false"},
		{0, 4, "false", "ok=false"},
		{0, 4, "yo", "!write y or n"},
		{0, 4, "", "!an answer is needed"},
		{0, 4, "  ", "!an answer is needed"},
		{0, 3, "", "-"},
		{1, 4, "small", "size=small"},
		{1, 4, "tiny", "size=tiny"}, /* the engine knows the choices */
		{1, 4, "\"\"", "size=\"\""},
		{2, 4, "\"\"", "note="},
		{2, 4, "", "!an answer is needed; \"\" is an empty one"},
		{2, 4, "a=b c\r", "note=a=b c"},
		{3, 4, "7", "n=7"},
		{3, 4, "", "!an answer is needed"},
		{3, 3, "", "-"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *got = at(cases[i].field, cases[i].need, cases[i].line, strlen(cases[i].line));
		assert_string_equal(got, cases[i].means);
	}
	auto_free char *nul = at(2, 4, "a\0b", 3);
	assert_int_equal(*nul, '!');
}

static void test_left_out_as_long_as_enough_can_follow(void **state)
{
	(void)state;
	struct question *q = make(&schema, 2);
	const char *why;

	for (int i = 0; i < 2; i++) {
		assert_null(question_line(q, "", 0, &why));
		assert_null(why);
		assert_true(question_take(q, NULL));
	}
	/* Two are left and two are needed. */
	assert_null(question_line(q, "", 0, &why));
	assert_non_null(why);
	assert_true(question_take(q, xstrdup("note=x")));
	assert_false(question_take(q, xstrdup("n=1")));
	assert_int_equal(q->answers.n, 2);
	question_again(q);
	assert_int_equal(q->answers.n, 0);
	assert_int_equal(q->at, 0);
	question_free(q);
}

static void test_shown(void **state)
{
	(void)state;
	auto_buf b = BUF_INIT(4096);
	struct question *q = make(&schema, 3);

	question_head(q, &b);
	assert_string_equal(buf_str(&b), "\nnode h asks (3 of 4 answers are needed):\n  one\n\n  two\n"
					 "  (Ctrl-D: answer later, the run pauses; Ctrl-C: cancel the run)\n");
	buf_clear(&b);
	question_prompt(q, &b);
	assert_string_equal(buf_str(&b), "ok [y or n; empty: left out]: ");
	(void)question_take(q, NULL);
	buf_clear(&b);
	question_prompt(q, &b);
	assert_string_equal(buf_str(&b), "size [small, large]: ");
	question_free(q);
	q = make(NULL, 1);
	buf_clear(&b);
	question_prompt(q, &b);
	assert_string_equal(buf_str(&b), "answer [text]: ");
	question_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_left_out_as_long_as_enough_can_follow),
		cmocka_unit_test(test_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
