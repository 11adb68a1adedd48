/* Whose connection was refused, by when that was and who was there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stay.h"

#include <base/mem.h>
#include <string.h>

static char x, y;

static void test_only(void **state)
{
	/* a from 100 to 200, b from 300 on, a again (in a branch) from 400 to 500. */
	static const struct {
		uint64_t first, last;
		const char *node;
	} cases[] = {
		{150, 150, "a"}, {100, 200, "a"}, {10, 100, "a"},   {10, 99, NULL},  {201, 299, NULL}, {200, 300, NULL},
		{300, 399, "b"}, {600, 600, "b"}, {450, 460, NULL}, {501, 900, "b"}, {250, 350, "b"},
	};
	struct stays l = {.v = {{.node = "a", .begin_ms = 100, .end_ms = 200},
				{.node = "b", .who = &x, .begin_ms = 300},
				{.node = "a", .branch = strdup("1"), .begin_ms = 400, .end_ms = 500}}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct stay *s = stay_only(&l, cases[i].first, cases[i].last);
		assert_string_equal(s ? s->node : "", cases[i].node ? cases[i].node : "");
	}
	stays_done(&l);
}

/* The same node twice, one after the other, is still that node. */
static void test_again(void **state)
{
	struct stays l = {
		.v = {{.node = "a", .begin_ms = 100, .end_ms = 200}, {.node = "a", .begin_ms = 210, .end_ms = 300}}};

	(void)state;
	assert_string_equal(stay_only(&l, 150, 250)->node, "a");
	stays_done(&l);
}

static void test_begin_and_end(void **state)
{
	struct stays l = {0};

	(void)state;
	stay_begin(&l, "a", "2", &x);
	assert_string_equal(stay_only(&l, l.v[0].begin_ms, UINT64_MAX)->branch, "2");
	stay_begin(&l, "b", NULL, &y);
	assert_null(stay_only(&l, l.v[1].begin_ms, l.v[1].begin_ms));
	stay_end(&l, &x);
	assert_string_equal(stay_only(&l, l.v[0].end_ms + 1, UINT64_MAX)->node, "b");
	stays_done(&l);
}

/* What is forgotten is nobody's, and what cannot be remembered makes all unknown. */
static void test_forgets(void **state)
{
	struct stays l = {0};
	char who[STAYS_MAX + 1];

	(void)state;
	for (size_t i = 0; i < STAYS_MAX; i++) {
		stay_begin(&l, "a", NULL, &who[i]);
		stay_end(&l, &who[i]);
		l.v[i].begin_ms = l.v[i].end_ms = 1000 + i;
	}
	assert_non_null(stay_only(&l, 1000, 1000));
	stay_begin(&l, "b", NULL, &x);
	assert_null(stay_only(&l, 1000, 1000));
	assert_non_null(stay_only(&l, 1001, 1001));
	for (size_t i = 0; i < STAYS_MAX; i++)
		stay_begin(&l, "c", NULL, &who[i]);
	assert_null(stay_only(&l, UINT64_MAX, UINT64_MAX));
	stays_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_begin_and_end),
		cmocka_unit_test(test_forgets),
	};

	return cmocka_run_group_tests_name("engine stay", tests, NULL, NULL);
}
