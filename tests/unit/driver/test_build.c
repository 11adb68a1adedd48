/* Image builds without an engine: what a .dockerignore keeps out, what the hash covers, where files may lie, and the
 * words of the command. The build itself against an engine of one's own: tests/e2e/test_container_build.py. */
#include "container/build.h"
#include "container/build_context.h"
#include "container/build_ignore.h"
#include "container/labels.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void test_ignore(void **state)
{
	static const struct {
		const char *file, *path;
		bool out;
	} cases[] = {
		{"", "a", false},
		{"a", "a", true},
		{"a", "a/b/c", true},
		{"a", "b/a", false},
		{"/a/", "a", true},
		{"./a/../b", "b", true},
		{"# a\na", "a", true},
		{"#a", "#a", false},
		{"  a \r\n", "a", true},
		{"\xef\xbb\xbf"
		 "a",
		 "a", true},
		{"*.log", "x.log", true},
		{"*.log", "d/x.log", false},
		{"*/*.log", "d/x.log", true},
		{"**/*.log", "x.log", true},
		{"**/*.log", "a/b/x.log", true},
		{"a/**", "a/b", true},
		{"a/**/z", "a/z", true},
		{"a/**/z", "a/b/c/z/q", true},
		{"a?c", "abc", true},
		{"a?c", "a/c", false},
		{"[ab]x", "bx", true},
		{"[^ab]x", "bx", false},
		{"*\n!keep", "keep", false},
		{"*\n!keep", "keep/x", false},
		{"*\n!d/keep", "d/keep", false},
		{"*\n!d/keep", "d/other", true},
		{"!a\na", "a", true},
		/* Not understood: in doubt it is in. */
		{"a**", "ab", false},
		{"*\n!a**", "ab", false},
		{"*\n!a**", "q", false},
		{".", "a", false},
		{"../a", "a", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct build_ignore *g = build_ignore_new(cases[i].file, strlen(cases[i].file));
		if (build_ignore_matches(g, cases[i].path) != cases[i].out)
			fail_msg("\"%s\" on %s: expected %d", cases[i].file, cases[i].path, cases[i].out);
		build_ignore_free(g);
	}
}

static void test_ignore_of_endless_lines(void **state)
{
	static char text[20000], path[20000];

	(void)state;
	memset(text, '/', sizeof text);
	for (size_t i = 0; i + 2 < sizeof text; i += 3)
		memcpy(text + i, "**", 2);
	for (size_t i = 0; i < sizeof path - 1; i++)
		path[i] = i % 2 ? '/' : 'a';
	struct build_ignore *g = build_ignore_new(text, sizeof text);
	assert_false(build_ignore_matches(g, "a"));
	assert_false(build_ignore_matches(g, path));
	build_ignore_free(g);
}

static char *folder;
static const atomic_bool go_on;

static int setup(void **state)
{
	char name[] = "/tmp/iterion-build-XXXXXX";

	(void)state;
	if (!mkdtemp(name))
		return -1;
	folder = realpath(name, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	int r = tree_remove(AT_FDCWD, folder, NULL);
	free(TAKE_PTR(folder));
	return r;
}

static void put(const char *name, const char *text)
{
	auto_free char *path = path_join(folder, name);
	auto_free char *parent = path_parent(path);

	assert_int_equal(dir_make(AT_FDCWD, parent, 0755, NULL), 0);
	assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0644, FILE_NO_SYNC, NULL), 0);
}

static int hash(const struct sandbox_build *b, const char *hidden, char ret[BUILD_HASH_SIZE], struct err *e)
{
	struct build_context c = {0};
	int r = build_context_find(folder, b, &c, e);

	if (r == 0)
		r = build_context_hash(&c, b, hidden, &go_on, ret, e);
	build_context_done(&c);
	return r;
}

static struct sandbox_build plain(void)
{
	static char dockerfile[] = "Dockerfile", here[] = ".";

	put("Dockerfile", "FROM scratch\n");
	put("a.txt", "one");
	put("d/e/f.txt", "deep");
	return (struct sandbox_build){.dockerfile = dockerfile, .context = here};
}

static void test_hash_covers_what_decides(void **state)
{
	struct sandbox_build b = plain();
	char first[BUILD_HASH_SIZE], now[BUILD_HASH_SIZE], last[BUILD_HASH_SIZE];
	auto_free char *a = path_join(folder, "a.txt");
	auto_free char *link = path_join(folder, "link");
	char stage[] = "stage";

	(void)state;
	assert_int_equal(hash(&b, NULL, first, NULL), 0);
	assert_int_equal(strlen(first), 64);
	put("a.txt", "one");
	assert_int_equal(hash(&b, NULL, now, NULL), 0);
	assert_string_equal(first, now); /* written anew, the same */

#define CHANGED()                                                                                                      \
	do {                                                                                                           \
		memcpy(last, now, sizeof last);                                                                        \
		assert_int_equal(hash(&b, NULL, now, NULL), 0);                                                        \
		assert_string_not_equal(last, now);                                                                    \
	} while (0)
	put("a.txt", "two");
	CHANGED();
	put("d/e/f.txt", "other");
	CHANGED();
	put("Dockerfile", "FROM scratch\nENV A=1\n");
	CHANGED();
	put("new", "");
	CHANGED();
	assert_int_equal(chmod(a, 0755), 0);
	CHANGED();
	assert_int_equal(symlink("/etc/passwd", link), 0);
	CHANGED();
	strv_add(&b.args, "A=1");
	CHANGED();
	b.target = stage;
	CHANGED();
	put(".dockerignore", "d\n");
	CHANGED();
	put("d/e/f.txt", "not seen");
	memcpy(last, now, sizeof last);
	assert_int_equal(hash(&b, NULL, now, NULL), 0);
	assert_string_equal(last, now);
	put(".dockerignore", "d\n!d/e\n");
	CHANGED();
	put("d/e/f.txt", "seen again");
	CHANGED();
	/* A file of the engine's own choice may go before .dockerignore: then all counts. */
	put("Dockerfile.dockerignore", "");
	CHANGED();
	put("d/x", "seen");
	CHANGED();
#undef CHANGED
	strv_done(&b.args);
}

static void test_store_is_not_built_in(void **state)
{
	struct sandbox_build b = plain();
	auto_free char *store = path_join(folder, ".iterion");
	char sum[BUILD_HASH_SIZE];
	struct err e = ERR_INIT;

	(void)state;
	put(".iterion/runs/x", "secret");
	assert_int_equal(hash(&b, NULL, sum, &e), 0);
	assert_int_equal(hash(&b, store, sum, &e), -EPERM);
	assert_non_null(strstr(e.msg, ".iterion"));
	assert_non_null(strstr(e.hint, ".dockerignore"));
	put(".dockerignore", ".iterion\n");
	assert_int_equal(hash(&b, store, sum, &e), 0);
}

static void test_files_stay_in_the_workspace(void **state)
{
	static const struct {
		const char *link, *to, *dockerfile, *context;
		int r;
	} cases[] = {
		{"out", "/etc", "out/passwd", ".", -EXDEV},
		{"out2", "..", "Dockerfile", "out2", -EXDEV},
		{"in", "d", "Dockerfile", "in", 0},
		{"file", "d/e/f.txt", "file", ".", 0},
		{"x", "gone", "x", ".", -ENOENT},
		{"y", "d", "Dockerfile", "Dockerfile", -EINVAL},
		{"z", "d", "d", ".", -EINVAL},
		{"r", "/", "r/etc/passwd", ".", -EXDEV},
		{"u", "d/../../..", "Dockerfile", "u", -EXDEV},
	};

	(void)state;
	(void)plain();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *link = path_join(folder, cases[i].link);
		auto_free char *dockerfile = xstrdup(cases[i].dockerfile);
		auto_free char *context = xstrdup(cases[i].context);
		const struct sandbox_build b = {.dockerfile = dockerfile, .context = context};
		struct build_context c = {0};
		struct err e = ERR_INIT;
		assert_int_equal(symlink(cases[i].to, link), 0);
		int r = build_context_find(folder, &b, &c, &e);
		if (r != cases[i].r)
			fail_msg("%s, %s: %d (%s)", dockerfile, context, r, e.msg);
		assert_true(r == 0 || (*e.hint && !c.dockerfile && !c.folder));
		if (r == 0) {
			assert_true(path_within(c.dockerfile, folder) && path_within(c.folder, folder));
			assert_null(strstr(c.folder, cases[i].link));
		}
		build_context_done(&c);
	}
}

static void test_fifo_blocks_nobody(void **state)
{
	struct sandbox_build b = plain();
	auto_free char *fifo = path_join(folder, "fifo");
	char sum[BUILD_HASH_SIZE];

	(void)state;
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(hash(&b, NULL, sum, NULL), 0);
}

static char *content(const char *dir, const char *name)
{
	auto_free char *path = path_join(dir, name);
	char *text = NULL;

	return file_read(AT_FDCWD, path, 4096, &text, NULL, NULL) == 0 ? text : NULL;
}

static void same(const char *dir, const char *name, const char *want)
{
	auto_free char *got = content(dir, name);

	if (!str_eq(got, want))
		fail_msg("%s/%s: %s, not %s", dir, name, got ? got : "-", want ? want : "-");
}

/* What is built is what was hashed, whatever is written meanwhile. */
static void test_the_engine_gets_a_copy(void **state)
{
	struct sandbox_build b = plain();
	struct build_context c = {0};
	struct err e = ERR_INIT;
	char sum[BUILD_HASH_SIZE], copied[BUILD_HASH_SIZE];
	struct stat st;

	(void)state;
	put("Dockerfile.dockerignore", "x\n");
	put("d/script", "1");
	put("d/e/deep", "2");
	auto_free char *script = path_join(folder, "d/script");
	auto_free char *link = path_join(folder, "d/link");
	assert_int_equal(chmod(script, 0751), 0);
	assert_int_equal(symlink("/etc/passwd", link), 0);
	assert_int_equal(hash(&b, NULL, sum, NULL), 0);
	assert_int_equal(build_context_find(folder, &b, &c, &e), 0);
	assert_int_equal(build_context_copy(&c, &b, NULL, &go_on, copied, &e), 0);
	assert_string_equal(sum, copied);
	put("d/script", "changed");
	assert_false(path_within(c.folder, folder) || path_within(c.dockerfile, folder));
	same(c.copy.top, "Dockerfile", "FROM scratch\n");
	same(c.copy.top, "Dockerfile.dockerignore", "x\n");
	same(c.folder, "d/script", "1");
	same(c.folder, "d/e/deep", "2");
	auto_free char *copied_script = path_join(c.folder, "d/script");
	auto_free char *copied_link = path_join(c.folder, "d/link");
	assert_int_equal(stat(copied_script, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0751);
	assert_true(lstat(copied_link, &st) == 0 && S_ISLNK(st.st_mode));
	assert_int_equal(stat(c.copy.top, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	auto_free char *top = xstrdup(c.copy.top);
	build_context_done(&c);
	assert_int_equal(access(top, F_OK), -1);
}

/* What a killed run left is removed; what a living one has is not. */
static void test_copies_are_swept(void **state)
{
	struct build_copy own = {0};
	char host[HOST_ID_SIZE];

	(void)state;
	assert_int_equal(setenv("TMPDIR", folder, 1), 0);
	label_host_id(host);
	assert_int_equal(build_copy_make(&own, NULL), 0);
	assert_true(path_within(own.top, folder));
	auto_free char *dead = xasprintf("%s/iterion-build.%s:1:1.abcdef", folder, host);
	auto_free char *foreign = xasprintf("%s/iterion-build.0123456789abcdef:1:1.abcdef", folder);
	auto_free char *deep = path_join(dead, "context");
	assert_int_equal(dir_make(AT_FDCWD, deep, 0700, NULL), 0);
	assert_int_equal(mkdir(foreign, 0700), 0);
	build_copy_sweep();
	assert_int_equal(unsetenv("TMPDIR"), 0);
	assert_int_equal(access(dead, F_OK), -1);
	assert_int_equal(access(foreign, F_OK), 0);
	assert_int_equal(access(own.top, F_OK), 0);
	build_copy_remove(&own);
}

static void test_the_copy_has_no_more_than_the_context(void **state)
{
	struct sandbox_build b = plain();
	struct build_context c = {0};
	char sum[BUILD_HASH_SIZE];
	struct err e = ERR_INIT;

	(void)state;
	put(".dockerignore", "*\n!d/keep\n");
	put("secret", "no");
	put("d/other", "no");
	put("d/keep", "yes");
	assert_int_equal(build_context_find(folder, &b, &c, &e), 0);
	assert_int_equal(build_context_copy(&c, &b, NULL, &go_on, sum, &e), 0);
	same(c.folder, ".dockerignore", "*\n!d/keep\n");
	same(c.folder, "d/keep", "yes");
	same(c.folder, "d/other", NULL);
	same(c.folder, "secret", NULL);
	build_context_done(&c);
}

/* Somebody puts a link in place of what was found: the folder itself, the Dockerfile. */
static void test_links_of_later_are_not_followed(void **state)
{
	static char dockerfile[] = "b/Dockerfile", context[] = "ctx";
	static const char *const swapped[] = {"ctx", "b/Dockerfile", "b"};
	struct sandbox_build b = {.dockerfile = dockerfile, .context = context};

	(void)state;
	put("elsewhere/Dockerfile", "FROM scratch\n");
	put("elsewhere/secret", "s");
	for (size_t i = 0; i < ARRAY_LEN(swapped); i++) {
		struct build_context c = {0};
		struct err e = ERR_INIT;
		char sum[BUILD_HASH_SIZE];
		put("ctx/file", "1");
		put("b/Dockerfile", "FROM scratch\n");
		assert_int_equal(build_context_find(folder, &b, &c, &e), 0);
		auto_free char *at = path_join(folder, swapped[i]);
		auto_free char *away = xasprintf("%s.away", at);
		auto_free char *target = path_join(folder, i == 1 ? "elsewhere/Dockerfile" : "elsewhere");
		assert_int_equal(rename(at, away), 0);
		assert_int_equal(symlink(target, at), 0);
		assert_int_equal(build_context_hash(&c, &b, NULL, &go_on, sum, &e), -ELOOP);
		assert_int_equal(build_context_copy(&c, &b, NULL, &go_on, sum, &e), -ELOOP);
		build_context_done(&c);
		assert_int_equal(unlink(at), 0);
		assert_int_equal(rename(away, at), 0);
	}
}

static void test_hash_stops(void **state)
{
	struct sandbox_build b = plain();
	struct build_context c = {0};
	const atomic_bool stop = true;
	char sum[BUILD_HASH_SIZE];
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(build_context_find(folder, &b, &c, &e), 0);
	assert_int_equal(build_context_hash(&c, &b, NULL, &stop, sum, &e), -ECANCELED);
	assert_int_equal(e.kind, ERR_CANCELLED);
	build_context_done(&c);
}

static void test_words(void **state)
{
	char file[] = "/w/Dockerfile", context[] = "/w/d", stage[] = "run";
	const struct build_context c = {.dockerfile = file, .folder = context};
	struct sandbox_build b = {.target = stage};
	static const char *const plugin[] = {
		"buildx",      "build", "--load",      "-f", "/w/Dockerfile", "-t",  "i:1",  "--target", "run",
		"--build-arg", "A=1",	"--build-arg", "B=", "--cache-from",  "i:0", "/w/d", NULL};
	static const char *const old[] = {"build", "-f", "/w/Dockerfile", "-t", "i:1", "/w/d", NULL};
	auto_strv with = {0};
	auto_strv without = {0};
	auto_strv fresh = {0};

	(void)state;
	strv_add(&b.args, "A=1");
	strv_add(&b.args, "B=");
	strv_add(&b.cache_from, "i:0");
	build_words(&with, &b, &c, "i:1", true, false);
	for (size_t i = 0; plugin[i]; i++)
		assert_string_equal(with.v[i], plugin[i]);
	assert_int_equal(with.n, ARRAY_LEN(plugin) - 1);
	strv_done(&b.args);
	strv_done(&b.cache_from);
	b = (struct sandbox_build){0};
	build_words(&without, &b, &c, "i:1", false, true);
	for (size_t i = 0; old[i]; i++)
		assert_string_equal(without.v[i], old[i]);
	assert_int_equal(without.n, ARRAY_LEN(old) - 1);
	strv_add(&b.args, "A=1");
	build_words(&fresh, &b, &c, "i:1", false, true);
	assert_true(strv_has(&fresh, "--no-cache"));
	strv_done(&b.args);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ignore),
		cmocka_unit_test(test_ignore_of_endless_lines),
		cmocka_unit_test_setup_teardown(test_hash_covers_what_decides, setup, teardown),
		cmocka_unit_test_setup_teardown(test_store_is_not_built_in, setup, teardown),
		cmocka_unit_test_setup_teardown(test_files_stay_in_the_workspace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fifo_blocks_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_engine_gets_a_copy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copies_are_swept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_copy_has_no_more_than_the_context, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_of_later_are_not_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hash_stops, setup, teardown),
		cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
