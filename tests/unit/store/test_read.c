/* Reading runs back: lists, look-up, events that are still being written, damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tmp.h"
#include <base/buf.h>
#include <base/json.h>
#include <errno.h>
#include <stdio.h>
#include <store/read.h>
#include <store/run.h>

/* A literal with NULs in it, and its length. */
#define BYTES(s) (s), sizeof(s) - 1

static void write_file(const char *top, const char *name, const char *how, const char *bytes, size_t len)
{
	char *path = xasprintf("%s/%s", top, name);
	FILE *f = fopen(path, how);

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	(void)fclose(f);
	free(path);
}

static void make_run(const char *top, const char *id, const char *record)
{
	char *dir = xasprintf("%s/runs/%s", top, id);
	char *file = xasprintf("runs/%s/run.json", id);
	char *events = xasprintf("runs/%s/events.jsonl", id);

	assert_int_equal(dir_make(AT_FDCWD, dir, 0700, NULL), 0);
	write_file(top, file, "we", record, strlen(record));
	write_file(top, events, "we", "", 0);
	free(dir);
	free(file);
	free(events);
}

static void test_list_and_find(void **state)
{
	(void)state;
	static const struct {
		const char *prefix;
		const char *id; /* NULL: an error */
	} cases[] = {
		{"aa1", "aa1"}, {"aa", NULL}, {"aa2", "aa2"},	  {"b", "b"},	  {"bb", "bb"},
		{"zz", NULL},	{"", NULL},   {"nightly", "aa2"}, {"../x", NULL},
	};
	char *top = tmp_dir();
	struct store_entry *v = NULL;
	size_t n = 99;

	assert_int_equal(store_list(top, &v, &n, NULL), 0);
	assert_int_equal(n, 0);
	make_run(top, "aa1",
		 "{\"status\":\"finished\",\"name\":\"nightly\",\"created_at\":\"2026-01-01T00:00:00.000Z\"}");
	make_run(top, "aa2",
		 "{\"status\":\"running\",\"name\":\"nightly\",\"created_at\":\"2026-01-02T00:00:00.000Z\"}");
	make_run(top, "b", "{\"status\":\"failed\",\"created_at\":\"2025-01-02T00:00:00.000Z\"}");
	make_run(top, "bb", "");
	assert_int_equal(store_list(top, &v, &n, NULL), 0);
	assert_int_equal(n, 4);
	assert_string_equal(v[0].id, "aa2");
	assert_string_equal(v[0].status, "interrupted");
	assert_string_equal(v[1].status, "finished");
	assert_string_equal(v[2].status, "failed");
	assert_string_equal(v[3].status, "unreadable");
	store_list_free(v, n);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *id = NULL;
		struct err e = ERR_INIT;
		int r = store_find_run(top, cases[i].prefix, &id, &e);
		assert_int_equal(r == 0, cases[i].id != NULL);
		if (r == 0)
			assert_string_equal(id, cases[i].id);
		else
			assert_true(e.hint[0]);
		free(id);
	}
	tmp_remove(top);
}

static int next_seq(struct event_reader *r)
{
	json_t *ev = NULL;
	int n = event_reader_next(r, &ev, NULL, NULL);

	if (n <= 0)
		return n == 0 ? -1 : -2;
	int seq = (int)json_integer_value(json_object_get(ev, "seq"));
	json_decref(ev);
	return seq;
}

static void test_follow_and_damage(void **state)
{
	(void)state;
	static const char events[] = "runs/r1/events.jsonl";
	char *top = tmp_dir();
	struct event_reader *r = NULL;

	make_run(top, "r1", "{}");
	assert_int_equal(event_reader_open(top, "r1", &r, NULL), 0);
	assert_int_equal(next_seq(r), -1);
	write_file(top, events, "ae", BYTES("{\"seq\":0}\n{\"se"));
	assert_int_equal(next_seq(r), 0);
	assert_int_equal(event_reader_offset(r), 10);
	assert_int_equal(next_seq(r), -1);
	write_file(top, events, "ae", BYTES("q\":1}\n\0\0\0\nnonsense\n[1]\n{\"seq\":2}\n{\"torn"));
	assert_int_equal(next_seq(r), 1);
	assert_int_equal(next_seq(r), 2);
	assert_int_equal(next_seq(r), -1);
	assert_int_equal(event_reader_damaged(r), 3);
	event_reader_free(r);
	tmp_remove(top);
}

/* A line past the limit is passed over in bounded memory, and reading goes on behind it. */
static void test_overlong_line(void **state)
{
	(void)state;
	static const char events[] = "runs/r1/events.jsonl";
	char *top = tmp_dir();
	struct event_reader *r = NULL;
	size_t len = 20u * 1024 * 1024;
	char *big = xmalloc(len);

	memset(big, 'x', len);
	make_run(top, "r1", "{}");
	write_file(top, events, "ae", big, len);
	write_file(top, events, "ae", BYTES("\n{\"seq\":7}\n"));
	assert_int_equal(event_reader_open(top, "r1", &r, NULL), 0);
	assert_int_equal(next_seq(r), 7);
	assert_int_equal(event_reader_offset(r), len + 11);
	assert_int_equal(event_reader_damaged(r), 1);
	event_reader_free(r);
	free(big);
	tmp_remove(top);
}

static void test_missing(void **state)
{
	(void)state;
	char *top = tmp_dir();
	struct event_reader *r = NULL;
	struct err e = ERR_INIT;

	assert_int_equal(event_reader_open(top, "r1", &r, &e), -ENOENT);
	assert_true(e.hint[0]);
	assert_null(store_read_run(top, "../r1", NULL));
	assert_false(store_run_alive(top, "r1"));
	tmp_remove(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list_and_find),
		cmocka_unit_test(test_follow_and_damage),
		cmocka_unit_test(test_overlong_line),
		cmocka_unit_test(test_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
