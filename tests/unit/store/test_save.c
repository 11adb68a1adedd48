/* Saving in two halves: what is seen, what is safe, and what a power loss leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tmp.h"
#include <base/cleanup.h>
#include <base/json.h>
#include <base/str.h>
#include <dirent.h>
#include <errno.h>
#include <store/read.h>
#include <store/run.h>
#include <unistd.h>

#define RUN "runs/r/"

struct world {
	char *top;
	struct store_run *run;
};

static void open_world(struct world *w)
{
	w->top = tmp_dir();
	const struct store_run_params p = {
		.store_dir = w->top, .run_id = "r", .workflow = "w", .file = "w.bot", .file_sha256 = "0"};
	struct err e = ERR_INIT;

	if (store_run_create(&p, &w->run, &e) < 0)
		fail_msg("%s", e.msg);
}

static void close_world(struct world *w)
{
	store_run_free(w->run);
	tmp_remove(w->top);
}

static void save(struct world *w, int n, bool sync)
{
	json_t *cp = json_object();
	const struct store_run_state s = {.status = RUN_RUNNING, .checkpoint = cp, .sync = sync};

	json_put_int(cp, "n", n);
	assert_int_equal(store_run_save(w->run, &s, NULL), 0);
	json_decref(cp);
}

static void sync_all(struct world *w)
{
	struct store_sync sync;

	assert_true(store_run_sync_begin(w->run, &sync));
	assert_int_equal(store_sync_work(&sync), 0);
	assert_int_equal(store_run_sync_end(w->run, 0, NULL), 0);
}

/* The n of a file's checkpoint; -1 when there is no such file. */
static int number_in(const struct world *w, const char *name)
{
	char *path = xasprintf(RUN "%s", name);
	char *text = tmp_read(w->top, path);
	json_t *j = text ? json_parse(text, strlen(text), NULL) : NULL;
	int n = j ? (int)json_integer_value(json_object_get(json_object_get(j, "checkpoint"), "n")) : -1;

	json_decref(j);
	free(text);
	free(path);
	return n;
}

static void damage(const struct world *w, const char *name)
{
	char *path = xasprintf("%s/" RUN "%s", w->top, name);

	assert_int_equal(truncate(path, 10), 0);
	free(path);
}

static void test_seen_before_safe(void **state)
{
	(void)state;
	struct store_sync sync;
	struct world w;

	open_world(&w);
	save(&w, 1, true);
	assert_int_equal(number_in(&w, "run.json.previous"), -1);
	assert_false(store_run_sync_begin(w.run, &sync));
	save(&w, 2, false);
	assert_int_equal(number_in(&w, "run.json"), 2);
	assert_int_equal(number_in(&w, "run.json.previous"), 1);
	/* Not safe yet: the old one that is safe stays, however often. */
	save(&w, 3, false);
	assert_int_equal(number_in(&w, "run.json"), 3);
	assert_int_equal(number_in(&w, "run.json.previous"), 1);
	sync_all(&w);
	assert_int_equal(number_in(&w, "run.json"), 3);
	assert_int_equal(number_in(&w, "run.json.previous"), -1);
	assert_false(store_run_sync_begin(w.run, &sync));
	close_world(&w);
}

static void test_saves_during_sync(void **state)
{
	(void)state;
	struct store_sync sync;
	struct world w;

	open_world(&w);
	save(&w, 1, true);
	save(&w, 2, false);
	assert_true(store_run_sync_begin(w.run, &sync));
	save(&w, 3, false);
	save(&w, 4, false);
	assert_false(store_run_sync_begin(w.run, &sync));
	assert_int_equal(number_in(&w, "run.json"), 4);
	assert_int_equal(number_in(&w, "run.json.previous"), 1);
	assert_int_equal(store_run_sync_end(w.run, 0, NULL), 0);
	assert_int_equal(number_in(&w, "run.json.previous"), 2);
	sync_all(&w);
	assert_int_equal(number_in(&w, "run.json"), 4);
	assert_int_equal(number_in(&w, "run.json.previous"), -1);
	/* The last one, safe at once. */
	save(&w, 5, false);
	save(&w, 6, true);
	assert_int_equal(number_in(&w, "run.json"), 6);
	assert_int_equal(number_in(&w, "run.json.previous"), -1);
	assert_int_equal(number_in(&w, "run.json.syncing"), -1);
	close_world(&w);
}

static void test_power_loss(void **state)
{
	(void)state;
	struct world w;

	open_world(&w);
	save(&w, 1, true);
	save(&w, 2, false);
	store_run_free(TAKE_PTR(w.run));
	damage(&w, "run.json");
	json_t *j = store_read_run(w.top, "r", NULL);
	assert_non_null(j);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "checkpoint"), "n")), 1);
	json_decref(j);
	assert_int_equal(store_run_reopen(w.top, "r", &w.run, NULL), 0);
	assert_int_equal(number_in(&w, "run.json"), 1);
	assert_int_equal(number_in(&w, "run.json.previous"), -1);
	close_world(&w);
}

/* A kill leaves both; the newer one counts. */
static void test_kill(void **state)
{
	(void)state;
	struct world w;

	open_world(&w);
	save(&w, 1, true);
	save(&w, 2, false);
	store_run_free(TAKE_PTR(w.run));
	assert_int_equal(store_run_reopen(w.top, "r", &w.run, NULL), 0);
	assert_int_equal(number_in(&w, "run.json"), 2);
	assert_int_equal(number_in(&w, "run.json.previous"), -1);
	save(&w, 3, false);
	assert_int_equal(number_in(&w, "run.json"), 3);
	close_world(&w);
}

static unsigned open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static void test_no_descriptor_stays(void **state)
{
	(void)state;
	unsigned before = open_files();
	struct world w;

	open_world(&w);
	save(&w, 0, true);
	for (int i = 1; i < 40; i++) {
		/* Some are synced, some replaced before that, some safe at once. */
		save(&w, i, i % 7 == 6);
		if (i % 3 == 0 && i % 7 != 6)
			sync_all(&w);
		assert_in_range(open_files(), before, before + 16);
	}
	close_world(&w);
	assert_int_equal(open_files(), before);
}

static void test_failed_sync(void **state)
{
	(void)state;
	struct store_sync sync;
	struct world w;
	struct err e = ERR_INIT;

	open_world(&w);
	save(&w, 1, true);
	save(&w, 2, false);
	assert_true(store_run_sync_begin(w.run, &sync));
	assert_int_equal(store_run_sync_end(w.run, EIO, &e), -EIO);
	assert_non_null(strstr(e.msg, "run r: write run.json to the disk"));
	assert_int_equal(number_in(&w, "run.json.previous"), 1);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seen_before_safe), cmocka_unit_test(test_saves_during_sync),
		cmocka_unit_test(test_power_loss),	 cmocka_unit_test(test_kill),
		cmocka_unit_test(test_failed_sync),	 cmocka_unit_test(test_no_descriptor_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
