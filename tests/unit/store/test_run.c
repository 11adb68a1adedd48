/* Writing a run: layout, modes, events, states, the lock, kills at any moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tmp.h"
#include <base/json.h>
#include <base/str.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <store/read.h>
#include <store/run.h>
#include <store/run_files.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct store_run *create(const char *store, const char *id)
{
	json_t *inputs = json_object();
	json_put_str(inputs, "who", "me");
	const struct store_run_params p = {
		.store_dir = store,
		.run_id = id,
		.run_name = "nightly",
		.workflow = "w",
		.file = "w.bot",
		.file_sha256 = "00",
		.workspace = "/w",
		.inputs = inputs,
	};
	struct store_run *r = NULL;
	struct err e = ERR_INIT;

	if (store_run_create(&p, &r, &e) < 0)
		fail_msg("%s", e.msg);
	json_decref(inputs);
	return r;
}

static json_t *load(const char *store, const char *id)
{
	struct err e = ERR_INIT;
	json_t *j = store_read_run(store, id, &e);

	if (!j)
		fail_msg("%s", e.msg);
	return j;
}

static void test_layout_and_modes(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		int mode;
	} cases[] = {
		{"runs", 0700},
		{"runs/r1", 0700},
		{"runs/r1/run.json", 0600},
		{"runs/r1/events.jsonl", 0600},
		{"runs/r1/run.log", 0600},
		{"runs/r1/artifact-files", 0700},
		{"runs/r1/artifacts", 0700},
		{"runs/r1/artifacts/plan", 0700},
		{"runs/r1/artifacts/plan/2.json", 0600},
		{"runs/r1/interactions/ask.json", 0600},
		{"runs/r1/output/1-n.stdout", 0600},
	};
	char *top = tmp_dir();
	char *store = xasprintf("%s/deep/store", top);
	mode_t old = umask(0);
	struct store_run *r = create(store, "r1");
	json_t *value = json_pack("{s:i}", "a", 1);
	char *ref = NULL;

	assert_int_equal(store_run_artifact(r, "plan", 2, value, NULL), 0);
	assert_int_equal(store_run_interaction(r, "ask", value, NULL), 0);
	int fd = store_run_output(r, "n.stdout", &ref, NULL);
	assert_true(fd >= 0);
	assert_string_equal(ref, "output/1-n.stdout");
	store_run_log(r, "info", "hello");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(tmp_mode(store, cases[i].name), cases[i].mode);
	assert_int_equal(tmp_mode(top, "deep"), 0700);
	close(fd);
	free(ref);
	json_decref(value);
	store_run_free(r);
	umask(old);
	free(store);
	tmp_remove(top);
}

static void test_record(void **state)
{
	(void)state;
	char *top = tmp_dir();
	struct store_run *r = create(top, "r1");

	json_t *j = load(top, "r1");
	assert_int_equal(json_integer_value(json_object_get(j, "format_version")), 1);
	assert_string_equal(json_get_str(j, "id"), "r1");
	assert_string_equal(json_get_str(j, "name"), "nightly");
	assert_string_equal(json_get_str(j, "workflow_name"), "w");
	assert_string_equal(json_get_str(j, "file"), "w.bot");
	assert_string_equal(json_get_str(j, "status"), "running");
	assert_true(json_is_null(json_object_get(j, "finished_at")));
	assert_true(json_is_null(json_object_get(j, "error")));
	assert_string_equal(json_get_str(json_object_get(j, "inputs"), "who"), "me");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "owner"), "pid")), getpid());
	json_decref(j);

	struct err failure = ERR_INIT;
	(void)err_set(&failure, ERR_NODE, 0, "node a: exit 1");
	err_hint(&failure, "look");
	json_t *cp = json_pack("{s:s}", "node_id", "a");
	const struct store_run_state s = {
		.status = RUN_FAILED, .checkpoint = cp, .failure = &failure, .ended = true, .sync = true};
	assert_int_equal(store_run_save(r, &s, NULL), 0);
	j = load(top, "r1");
	assert_string_equal(json_get_str(j, "status"), "failed");
	assert_string_equal(json_get_str(j, "error"), "node a: exit 1");
	assert_string_equal(json_get_str(j, "error_hint"), "look");
	assert_string_equal(json_get_str(json_object_get(j, "checkpoint"), "node_id"), "a");
	assert_non_null(json_get_str(j, "finished_at"));
	json_decref(j);
	json_decref(cp);
	store_run_free(r);
	tmp_remove(top);
}

static void test_ids(void **state)
{
	(void)state;
	static const struct {
		const char *id;
		bool ok;
	} cases[] = {
		{"a", true},
		{"0192-ab.c_D", true},
		{"", false},
		{".", false},
		{"..", false},
		{".hidden", false},
		{"-x", false},
		{"a/b", false},
		{"a b", false},
		{"a\nb", false},
		{"0123456789012345678901234567890123456789012345678901234567890123", true},
		{"01234567890123456789012345678901234567890123456789012345678901234", false},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		assert_int_equal(store_run_id_check(cases[i].id, &e), cases[i].ok ? 0 : -EINVAL);
		assert_int_equal(e.hint[0] != '\0', !cases[i].ok);
	}
}

static void test_taken_id(void **state)
{
	(void)state;
	char *top = tmp_dir();
	struct store_run *r = create(top, "r1"), *again = NULL;
	const struct store_run_params p = {
		.store_dir = top, .run_id = "r1", .workflow = "w", .file = "f", .file_sha256 = "", .workspace = "/"};
	struct err e = ERR_INIT;

	assert_int_equal(store_run_create(&p, &again, &e), -EEXIST);
	assert_int_equal(err_exit_code(e.kind), 2);
	store_run_free(r);
	r = NULL;
	json_t *j = load(top, "r1"); /* the first one is untouched */
	json_decref(j);
	tmp_remove(top);
}

static void test_unusable_store(void **state)
{
	(void)state;
	char *top = tmp_dir();
	char *file = xasprintf("%s/file", top);
	FILE *f = fopen(file, "we");
	struct store_run *r = NULL;
	struct err e = ERR_INIT;
	const struct store_run_params p = {
		.store_dir = file, .run_id = "r1", .workflow = "w", .file = "f", .file_sha256 = "", .workspace = "/"};

	assert_non_null(f);
	(void)fclose(f);
	assert_int_equal(store_run_create(&p, &r, &e), -ENOTDIR);
	assert_non_null(strstr(e.msg, file));
	assert_true(e.hint[0]);
	free(file);
	tmp_remove(top);
}

static void test_events(void **state)
{
	(void)state;
	char *top = tmp_dir();
	struct store_run *r = create(top, "r1");
	struct store_event ev;
	json_t *data = json_object();

	json_put(data, "text", json_text("bad \xff\n\"", 7));
	assert_int_equal(store_run_event(r, "run_started", NULL, NULL, NULL, NULL, NULL), 0);
	assert_int_equal(store_run_event(r, "node_started", "b1", "n", data, &ev, NULL), 0);
	assert_int_equal(strlen(ev.line), ev.len);
	assert_null(strchr(ev.line, '\n'));
	assert_string_equal(json_get_str(ev.json, "branch_id"), "b1");
	char *want = xasprintf("%s\n", ev.line);
	char *text = tmp_read(top, "runs/r1/events.jsonl");
	assert_non_null(text);
	assert_true(str_ends(text, want));
	assert_true(str_starts(text, "{\"seq\":0,\"timestamp\":\"2"));
	assert_non_null(strstr(text, "Z\",\"type\":\"run_started\",\"run_id\":\"r1\"}\n{\"seq\":1,"));
	assert_non_null(strstr(
		text, "\"branch_id\":\"b1\",\"node_id\":\"n\",\"data\":{\"text\":\"bad \xef\xbf\xbd\\n\\\"\"}}"));
	free(text);
	free(want);
	store_run_free(r);
	tmp_remove(top);
}

/* The file may not grow past a limit: the half line is cut off, and nothing comes after the gap. */
static void test_full_disk(void **state)
{
	(void)state;
	char *top = tmp_dir();
	struct store_run *r = create(top, "r1");
	struct rlimit old, small;
	struct err e = ERR_INIT;
	int n = 0, count = 0;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){.rlim_cur = 1000, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	for (; n == 0 && count < 100; count++)
		n = store_run_event(r, "node_started", NULL, "n", NULL, NULL, &e);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_true(n < 0);
	assert_true(e.hint[0]);
	assert_true(store_run_event(r, "node_started", NULL, "n", NULL, NULL, NULL) < 0);
	char *text = tmp_read(top, "runs/r1/events.jsonl");
	assert_true(str_ends(text, "\"node_id\":\"n\"}\n"));
	free(text);
	store_run_free(r);
	tmp_remove(top);
}

static void append(const char *top, const char *name, const char *bytes, size_t len)
{
	char *path = xasprintf("%s/%s", top, name);
	FILE *f = fopen(path, "ae");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	(void)fclose(f);
	free(path);
}

static void test_reopen_repairs(void **state)
{
	(void)state;
	static const struct {
		const char *tail;
		size_t len;
	} cases[] = {
		{"", 0},
		{"{\"seq\":2,\"ty", 12},
		{"{\"seq\":2}", 9}, /* whole, but without its newline */
		{"\0\0\0\0\0\0\0\0", 8},
		{"\0\0\0\n\0\0", 6},
		{"garbage\n", 8},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *top = tmp_dir();
		struct store_run *r = create(top, "r1");
		assert_int_equal(store_run_event(r, "a", NULL, NULL, NULL, NULL, NULL), 0);
		assert_int_equal(store_run_event(r, "b", NULL, NULL, NULL, NULL, NULL), 0);
		store_run_free(r);
		char *before = tmp_read(top, "runs/r1/events.jsonl");
		append(top, "runs/r1/events.jsonl", cases[i].tail, cases[i].len);
		assert_int_equal(store_run_reopen(top, "r1", &r, NULL), 0);
		char *after = tmp_read(top, "runs/r1/events.jsonl");
		assert_string_equal(after, before);
		struct store_event ev;
		assert_int_equal(store_run_event(r, "c", NULL, NULL, NULL, &ev, NULL), 0);
		assert_int_equal(json_integer_value(json_object_get(ev.json, "seq")), 2);
		store_run_free(r);
		free(before);
		free(after);
		tmp_remove(top);
	}
}

static void test_lock(void **state)
{
	(void)state;
	char *top = tmp_dir();
	struct store_run *r = create(top, "r1"), *other = NULL;
	struct err e = ERR_INIT;

	assert_true(store_run_alive(top, "r1"));
	assert_int_equal(store_run_reopen(top, "r1", &other, &e), -EBUSY);
	assert_true(e.hint[0]);
	store_run_free(r);
	assert_false(store_run_alive(top, "r1"));
	json_t *j = load(top, "r1");
	assert_string_equal(json_get_str(j, "status"), "interrupted");
	json_decref(j);
	assert_int_equal(store_run_reopen(top, "r1", &other, NULL), 0);
	assert_true(store_run_alive(top, "r1"));
	store_run_free(other);
	assert_int_equal(store_run_reopen(top, "r2", &other, &e), -ENOENT);
	tmp_remove(top);
}

/* A process that saves without end is killed at a moment that nobody chose: run.json is whole every time. */
static void test_kill_while_saving(void **state)
{
	(void)state;
	char *top = tmp_dir();

	for (unsigned i = 0; i < 20; i++) {
		char id[16];
		(void)snprintf(id, sizeof id, "k%u", i);
		int ready[2];
		assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
		pid_t pid = fork();
		if (pid == 0) {
			struct store_run *r = create(top, id);
			json_t *cp = json_object();
			struct store_run_state s = {.status = RUN_RUNNING, .checkpoint = cp};
			(void)!write(ready[1], "x", 1);
			for (int n = 0;; n++) {
				json_put_int(cp, "n", n);
				if (store_run_save(r, &s, NULL) < 0 ||
				    store_run_event(r, "e", NULL, NULL, NULL, NULL, NULL) < 0)
					_exit(1);
			}
		}
		char c;
		assert_int_equal(read(ready[0], &c, 1), 1);
		nanosleep(&(struct timespec){.tv_nsec = (long)(i % 5) * 300000 + 100000}, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		close(ready[0]);
		close(ready[1]);
		json_t *j = load(top, id);
		assert_string_equal(json_get_str(j, "status"), "interrupted");
		json_decref(j);
	}
	tmp_remove(top);
}

/* Many processes make runs in one fresh store at once. */
static void test_concurrent(void **state)
{
	(void)state;
	char *top = tmp_dir();
	char *store = xasprintf("%s/store", top);
	pid_t pids[8];

	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char id[16];
			(void)snprintf(id, sizeof id, "c%zu", i);
			struct store_run *r = create(store, id);
			for (int n = 0; n < 50; n++)
				if (store_run_event(r, "e", NULL, NULL, NULL, NULL, NULL) < 0)
					_exit(1);
			const struct store_run_state s = {.status = RUN_FINISHED, .ended = true};
			_exit(store_run_save(r, &s, NULL) < 0);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		int st = -1;
		assert_int_equal(waitpid(pids[i], &st, 0), pids[i]);
		assert_int_equal(st, 0);
	}
	struct store_entry *v = NULL;
	size_t n = 0;
	assert_int_equal(store_list(store, &v, &n, NULL), 0);
	assert_int_equal(n, ARRAY_LEN(pids));
	for (size_t i = 0; i < n; i++)
		assert_string_equal(v[i].status, "finished");
	store_list_free(v, n);
	free(store);
	tmp_remove(top);
}

static void test_sha256(void **state)
{
	(void)state;
	char hex[SHA256_HEX_SIZE];

	store_sha256(hex, "abc", 3);
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout_and_modes),
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_taken_id),
		cmocka_unit_test(test_unusable_store),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_reopen_repairs),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_kill_while_saving),
		cmocka_unit_test(test_concurrent),
		cmocka_unit_test(test_sha256),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
