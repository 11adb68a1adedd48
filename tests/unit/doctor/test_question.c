/* Questions in processes of their own: whatever becomes of one, the others are answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "question.h"

#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 20000, SHORT = 300 };

static void yes(const struct question *q, struct finding *f)
{
	finding_set(f, FINDING_YES, "%s, yes", q->id);
}

static void no(const struct question *q, struct finding *f)
{
	finding_set(f, FINDING_NO, "%s, no", q->id);
	finding_hint(f, "do %s", (const char *)q->arg);
}

static void crash(const struct question *q, struct finding *f)
{
	(void)q;
	(void)f;
	(void)raise(SIGKILL);
}

static void leave(const struct question *q, struct finding *f)
{
	(void)q;
	(void)f;
	_exit(0);
}

static void hang(const struct question *q, struct finding *f)
{
	(void)q;
	(void)f;
	for (;;)
		(void)pause();
}

static void silent(const struct question *q, struct finding *f)
{
	(void)q;
	(void)f;
}

static void much(const struct question *q, struct finding *f)
{
	(void)q;
	char text[4096];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	finding_set(f, FINDING_YES, "%s", text);
	finding_hint(f, "%s", text);
}

/* Changes the process that asks. */
static void elsewhere(const struct question *q, struct finding *f)
{
	(void)q;
	if (chdir("/proc") == 0 && setenv("LC_ALL", "changed", 1) == 0)
		finding_set(f, FINDING_YES, "moved");
}

static bool has_children(void)
{
	return waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
}

static void test_answers(void **state)
{
	static const struct question v[] = {
		{"a", yes, NULL},    {"b", no, "this"}, {"c", crash, NULL},	{"d", leave, NULL},
		{"e", silent, NULL}, {"f", much, NULL}, {"g", elsewhere, NULL},
	};
	static const struct {
		enum finding_status status;
		const char *detail, *hint;
	} want[] = {
		{FINDING_YES, "a, yes", ""},
		{FINDING_NO, "b, no", "do this"},
		{FINDING_UNKNOWN, "the process that asked died", ""},
		{FINDING_UNKNOWN, "the process that asked died", ""},
		{FINDING_UNKNOWN, "", ""},
		{FINDING_YES, NULL, NULL},
		{FINDING_YES, "moved", ""},
	};
	struct finding f[ARRAY_LEN(v)];
	struct err e = ERR_INIT;
	char before[4096], after[4096];

	(void)state;
	assert_non_null(getcwd(before, sizeof before));
	assert_int_equal(questions_ask(v, ARRAY_LEN(v), LONG, f, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		assert_int_equal(f[i].status, want[i].status);
		if (want[i].detail)
			assert_string_equal(f[i].detail, want[i].detail);
		if (want[i].hint)
			assert_string_equal(f[i].hint, want[i].hint);
	}
	assert_int_equal(strlen(f[5].detail), sizeof f[5].detail - 1);
	assert_int_equal(strlen(f[5].hint), sizeof f[5].hint - 1);
	assert_non_null(getcwd(after, sizeof after));
	assert_string_equal(before, after);
	assert_false(has_children());
}

/* The time is for all of them together. */
static void test_one_that_hangs(void **state)
{
	static const struct question v[] = {{"a", hang, NULL}, {"b", yes, NULL}, {"c", hang, NULL}, {"d", no, "that"}};
	struct finding f[ARRAY_LEN(v)];
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(questions_ask(v, ARRAY_LEN(v), SHORT, f, &e), 0);
	assert_string_equal(f[0].detail, "no answer within 0.3 s");
	assert_non_null(strstr(f[2].hint, "ITERION_SANDBOX_DOCTOR_TIMEOUT"));
	assert_int_equal(f[0].status, FINDING_UNKNOWN);
	assert_int_equal(f[1].status, FINDING_YES);
	assert_int_equal(f[3].status, FINDING_NO);
	assert_false(has_children());
}

static void test_none(void **state)
{
	struct finding f[1];

	(void)state;
	assert_int_equal(questions_ask(NULL, 0, LONG, f, NULL), 0);
}

/* The shipped questions all have an answer here, whatever it is. */
static void test_shipped(void **state)
{
	const struct {
		const struct question *v;
		size_t n;
	} tables[] = {{host_questions, n_host_questions}, {version_questions, n_version_questions}};

	(void)state;
	for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
		struct finding f[32];
		struct err e = ERR_INIT;
		assert_true(tables[t].n > 0 && tables[t].n <= ARRAY_LEN(f));
		assert_int_equal(questions_ask(tables[t].v, tables[t].n, LONG, f, &e), 0);
		for (size_t i = 0; i < tables[t].n; i++)
			if (!*f[i].detail || strstr(f[i].detail, "died"))
				fail_msg("%s: %s", tables[t].v[i].id, f[i].detail);
	}
	assert_false(has_children());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_one_that_hangs),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_shipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
