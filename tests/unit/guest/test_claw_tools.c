/* The tools that work on files, called as the loop calls them, on a folder of their own. */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/test.h"
#include "seen.h"
#include "tool.h"

struct world {
	char dir[PATH_MAX];
	struct tools tools;
	struct tool_result last;
};

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof *w);

	snprintf(w->dir, sizeof w->dir, "/tmp/iterion-unit-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	tools_init(&w->tools, NULL, NULL, w->dir);
	w->last = TOOL_RESULT_INIT;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	tool_result_done(&w->last);
	tools_done(&w->tools, false);
	assert_int_equal(tree_remove(AT_FDCWD, w->dir, NULL), 0);
	free(w);
	return 0;
}

/* Runs a tool on an input whose single quotes stand for double ones. Returns its text; w->last.error tells. */
static const char *run(struct world *w, const struct tool *tool, const char *input)
{
	auto_free char *json = xstrdup(input);

	for (char *p = json; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	auto_jdoc d = jdoc_parse(json, strlen(json), NULL);
	assert_non_null(d);
	tool_result_done(&w->last);
	w->last = TOOL_RESULT_INIT;
	tool->run(&w->tools, jdoc_root(d), &w->last);
	return buf_str(&w->last.text);
}

static void put(struct world *w, const char *name, const void *data, size_t len)
{
	auto_free char *path = xasprintf("%s/%s", w->dir, name);

	assert_int_equal(file_replace(AT_FDCWD, path, data, len, 0644, FILE_NO_SYNC, NULL), 0);
}

static void put_text(struct world *w, const char *name, const char *text)
{
	put(w, name, text, strlen(text));
}

static char *get(struct world *w, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", w->dir, name);
	char *data;

	assert_int_equal(file_read(AT_FDCWD, path, 1 << 24, &data, NULL, NULL), 0);
	return data;
}

static const struct {
	const struct tool *tool;
	const char *input;
	const char *says;
} malformed[] = {
	{&tool_read, "{}", "file_path is missing"},
	{&tool_read, "{'file_path':1}", "must be a string"},
	{&tool_read, "{'file_path':''}", "is empty"},
	{&tool_read, "{'file_path':'a\\u0000b'}", "NUL"},
	{&tool_read, "{'file_path':'x','offset':-1}", "offset"},
	{&tool_read, "{'file_path':'x','limit':0}", "limit"},
	{&tool_read, "{'file_path':'x','limit':1.5}", "limit"},
	{&tool_read, "{'file_path':'none'}", "does not exist"},
	{&tool_read, "{'file_path':'/'}", "is a folder"},
	{&tool_read, "{'file_path':'/dev/null'}", "not a regular file"},
	{&tool_write, "{'file_path':'x'}", "content must be"},
	{&tool_write, "{'file_path':'x','content':5}", "content must be"},
	{&tool_write, "{'content':'x'}", "file_path is missing"},
	{&tool_write, "{'file_path':'/dev/null','content':'x'}", "not a regular file"},
	{&tool_write, "{'file_path':'/','content':'x'}", "not a regular file"},
	{&tool_edit, "{'file_path':'x','old_string':'a'}", "new_string is missing"},
	{&tool_edit, "{'file_path':'x','old_string':'','new_string':'b'}", "old_string is empty"},
	{&tool_edit, "{'file_path':'x','old_string':'a','new_string':'a'}", "are the same"},
	{&tool_edit, "{'file_path':'x','old_string':'a','new_string':'b','replace_all':1}", "replace_all"},
	{&tool_edit, "{'file_path':'x','old_string':'a','new_string':'b'}", "does not exist"},
	{&tool_multi_edit, "{'file_path':'x','edits':{}}", "must be a list"},
	{&tool_glob, "{}", "pattern is missing"},
	{&tool_glob, "{'pattern':'{a'}", "malformed"},
	{&tool_glob, "{'pattern':'*','path':'none'}", "cannot be searched"},
	{&tool_grep, "{'pattern':''}", "is empty"},
	{&tool_grep, "{'pattern':'('}", "no regular expression"},
	{&tool_grep, "{'pattern':'(?=a)'}", "not supported"},
	{&tool_grep, "{'pattern':'a','output_mode':'all'}", "output_mode"},
	{&tool_grep, "{'pattern':'a','type':'klingon'}", "unknown"},
	{&tool_grep, "{'pattern':'a','-C':101}", "-C"},
	{&tool_grep, "{'pattern':'a','multiline':true}", "multiline"},
	{&tool_grep, "{'pattern':'a','path':'none'}", "cannot be searched"},
	{&tool_ls, "{'path':'none'}", "cannot be listed"},
	{&tool_ls, "{'path':'/','ignore':'x'}", "must be a list"},
	{&tool_todo_write, "{'todos':1}", "must be a list"},
	{&tool_todo_write, "{'todos':[{'content':'a','status':'later'}]}", "todos[0].status"},
	{&tool_todo_write, "{'todos':[{'status':'pending'}]}", "todos[0].content"},
	{&tool_todo_write, "{'todos':[1]}", "todos[0].content"},
};

static void test_malformed(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
		const char *text = run(w, malformed[i].tool, malformed[i].input);
		if (!w->last.error || !strstr(text, malformed[i].says))
			fail_msg("%s %s: %s", malformed[i].tool->name, malformed[i].input, text);
	}
}

static void test_read(void **state)
{
	struct world *w = *state;
	auto_buf many = BUF_INIT(1 << 22);

	put_text(w, "a", "one\n\nthree");
	assert_string_equal(run(w, &tool_read, "{'file_path':'a'}"), "     1\tone\n     2\t\n     3\tthree\n");
	assert_string_equal(run(w, &tool_read, "{'file_path':'a','offset':2,'limit':1}"),
			    "     2\t\n[more lines follow: read on with offset 3]\n");
	assert_string_equal(run(w, &tool_read, "{'file_path':'a','offset':3}"), "     3\tthree\n");
	assert_non_null(strstr(run(w, &tool_read, "{'file_path':'a','offset':4}"), "no line 4: it has 3 lines"));
	assert_true(w->last.error);
	put_text(w, "empty", "");
	assert_non_null(strstr(run(w, &tool_read, "{'file_path':'empty'}"), "is empty"));
	assert_false(w->last.error);
	put(w, "binary", "a\0b", 3);
	assert_non_null(strstr(run(w, &tool_read, "{'file_path':'binary'}"), "binary file"));

	for (int i = 1; i <= 3000; i++)
		assert_int_equal(buf_printf(&many, "%d\n", i), 0);
	put(w, "many", many.data, many.len);
	const char *text = run(w, &tool_read, "{'file_path':'many'}");
	assert_non_null(strstr(text, "  2000\t2000\n[more lines follow: read on with offset 2001]\n"));
	assert_null(strstr(text, "  2001\t"));
	assert_non_null(strstr(run(w, &tool_read, "{'file_path':'many','offset':3000}"), "  3000\t3000\n"));

	buf_clear(&many);
	for (int i = 0; i < 200 * 1000; i++)
		assert_int_equal(buf_putc(&many, i == 150 * 1000 ? '\n' : 'x'), 0);
	put(w, "wide", many.data, many.len);
	text = run(w, &tool_read, "{'file_path':'wide'}");
	assert_int_equal(strlen(text), 2 * (7 + 2000 + strlen("… [the line goes on]\n")));
}

/* At every size around the pieces in which a file is read. */
static void test_read_across_pieces(void **state)
{
	struct world *w = *state;

	for (size_t at = 65530; at < 65542; at++) {
		auto_free char *data = xmalloc(at + 4);
		memset(data, '\n', at);
		memcpy(data + at, "end\n", 4);
		put(w, "a", data, at + 4);
		auto_free char *input = xasprintf("{'file_path':'a','offset':%zu}", at + 1);
		auto_free char *want = xasprintf("%6zu\tend\n", at + 1);
		assert_string_equal(run(w, &tool_read, input), want);
	}
}

static void test_images(void **state)
{
	struct world *w = *state;
	static const struct {
		const char *data;
		size_t len;
		const char *type, *base64;
	} rows[] = {
		{"\x89PNG\r\n\x1a\n", 8, "image/png", "iVBORw0KGgo="},
		{"\xff\xd8\xff", 3, "image/jpeg", "/9j/"},
		{"GIF89a!", 7, "image/gif", "R0lGODlhIQ=="},
		{"RIFF\0\0\0\0WEBP", 12, "image/webp", "UklGRgAAAABXRUJQ"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		put(w, "i", rows[i].data, rows[i].len);
		(void)run(w, &tool_read, "{'file_path':'i'}");
		assert_string_equal(w->last.media_type, rows[i].type);
		assert_string_equal(buf_str(&w->last.image), rows[i].base64);
	}
}

static void test_edit(void **state)
{
	struct world *w = *state;

	put_text(w, "a", "one two one\n");
	assert_non_null(
		strstr(run(w, &tool_edit, "{'file_path':'a','old_string':'two','new_string':'2'}"), "read it first"));
	(void)run(w, &tool_read, "{'file_path':'a'}");
	assert_non_null(strstr(run(w, &tool_edit, "{'file_path':'a','old_string':'one','new_string':'1'}"), "2 times"));
	assert_non_null(strstr(run(w, &tool_edit, "{'file_path':'a','old_string':'four','new_string':'4'}"), "not in"));
	(void)run(w, &tool_edit, "{'file_path':'a','old_string':'two','new_string':''}");
	assert_false(w->last.error);
	(void)run(w, &tool_edit, "{'file_path':'a','old_string':'one','new_string':'oneone','replace_all':true}");
	assert_false(w->last.error);
	auto_free char *data = get(w, "a");
	assert_string_equal(data, "oneone  oneone\n");

	put_text(w, "crlf", "a\r\nb\r\nc\r\n");
	(void)run(w, &tool_read, "{'file_path':'crlf'}");
	(void)run(w, &tool_edit, "{'file_path':'crlf','old_string':'a\\nb','new_string':'x\\ny'}");
	assert_false(w->last.error);
	auto_free char *crlf = get(w, "crlf");
	assert_string_equal(crlf, "x\r\ny\r\nc\r\n");
}

static void test_multi_edit_is_all_or_nothing(void **state)
{
	struct world *w = *state;

	put_text(w, "a", "one two\n");
	(void)run(w, &tool_read, "{'file_path':'a'}");
	const char *text = run(w, &tool_multi_edit,
			       "{'file_path':'a','edits':[{'old_string':'one','new_string':'1'},"
			       "{'old_string':'none','new_string':'x'}]}");
	assert_true(w->last.error && strstr(text, "Edit 2: ") && strstr(text, "Nothing was changed."));
	auto_free char *before = get(w, "a");
	assert_string_equal(before, "one two\n");
	(void)run(w, &tool_multi_edit,
		  "{'file_path':'a','edits':[{'old_string':'one','new_string':'1'},"
		  "{'old_string':'1 two','new_string':'3'}]}");
	assert_false(w->last.error);
	auto_free char *after = get(w, "a");
	assert_string_equal(after, "3\n");
}

static void test_write(void **state)
{
	struct world *w = *state;
	auto_free char *link = xasprintf("%s/link", w->dir);
	auto_free char *dangling = xasprintf("%s/dangling", w->dir);
	auto_free char *target = xasprintf("%s/target", w->dir);
	struct stat st;

	put_text(w, "target", "old");
	assert_int_equal(chmod(target, 04751), 0);
	assert_int_equal(symlink("target", link), 0);
	assert_int_equal(symlink("nowhere", dangling), 0);
	assert_non_null(strstr(run(w, &tool_write, "{'file_path':'link','content':'x'}"), "read it first"));
	(void)run(w, &tool_read, "{'file_path':'link'}");
	(void)run(w, &tool_write, "{'file_path':'link','content':'new\\u0000'}");
	assert_false(w->last.error);
	assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	assert_true(stat(target, &st) == 0 && st.st_size == 4 && (st.st_mode & 07777) == 04751);
	(void)run(w, &tool_write, "{'file_path':'link','content':'again'}");
	assert_false(w->last.error);
	assert_non_null(strstr(run(w, &tool_write, "{'file_path':'dangling','content':'x'}"), "leads nowhere"));
	(void)run(w, &tool_write, "{'file_path':'a/b/c','content':'deep'}");
	assert_false(w->last.error);
	auto_free char *deep = get(w, "a/b/c");
	assert_string_equal(deep, "deep");
	assert_non_null(strstr(run(w, &tool_write, "{'file_path':'target/x','content':''}"), "target"));
	assert_true(w->last.error);
}

static void test_glob_and_ls(void **state)
{
	struct world *w = *state;
	auto_free char *loop = xasprintf("%s/src/loop", w->dir);
	auto_free char *git = xasprintf("%s/.git", w->dir);
	const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};

	(void)run(w, &tool_write, "{'file_path':'src/a.c','content':'x'}");
	(void)run(w, &tool_write, "{'file_path':'src/sub/b.c','content':'x'}");
	(void)run(w, &tool_write, "{'file_path':'node_modules/m/c.c','content':'x'}");
	assert_int_equal(mkdir(git, 0755), 0);
	put_text(w, ".git/d.c", "x");
	assert_int_equal(symlink("..", loop), 0);
	auto_free char *a = xasprintf("%s/src/a.c", w->dir);
	assert_int_equal(utimensat(AT_FDCWD, a, old, 0), 0);

	auto_free char *both = xasprintf("%s/src/sub/b.c\n%s/src/a.c\n", w->dir, w->dir);
	assert_string_equal(run(w, &tool_glob, "{'pattern':'**/*.c'}"), both);
	auto_free char *absolute = xasprintf("{'pattern':'%s/src/*.c'}", w->dir);
	auto_free char *one = xasprintf("%s/src/a.c\n", w->dir);
	assert_string_equal(run(w, &tool_glob, absolute), one);
	assert_non_null(strstr(run(w, &tool_glob, "{'pattern':'node_modules/**/*.c'}"), "node_modules/m/c.c\n"));
	assert_string_equal(run(w, &tool_glob, "{'pattern':'*.none'}"), "No files found.\n");
	assert_string_equal(run(w, &tool_ls, "{'path':'src'}"), "a.c\nloop@\nsub/\n");
	assert_string_equal(run(w, &tool_ls, "{'path':'src','ignore':['*.c','loop',5]}"), "sub/\n");
}

static void test_grep(void **state)
{
	struct world *w = *state;

	put_text(w, "a.txt", "one\ntwo\nthree\nfour\nfive\nsix two\r\n");
	put_text(w, "b.md", "TWO\n");
	put(w, "c.bin", "two\0", 4);
	auto_free char *files = xasprintf("%s/a.txt\n", w->dir);
	assert_string_equal(run(w, &tool_grep, "{'pattern':'two'}"), files);
	auto_free char *cases = xasprintf("%s/a.txt:2\n%s/b.md:1\n", w->dir, w->dir);
	assert_string_equal(run(w, &tool_grep, "{'pattern':'two','-i':true,'output_mode':'count'}"), cases);
	auto_free char *around = xasprintf("%1$s/a.txt-1-one\n%1$s/a.txt:2:two\n%1$s/a.txt-3-three\n--\n"
					   "%1$s/a.txt-5-five\n%1$s/a.txt:6:six two\n",
					   w->dir);
	assert_string_equal(run(w, &tool_grep, "{'pattern':'two','output_mode':'content','-C':1}"), around);
	auto_free char *plain =
		xasprintf("%1$s/a.txt:three\n[there is more: narrow the pattern or the path]\n", w->dir);
	assert_string_equal(
		run(w, &tool_grep, "{'pattern':'^(th|f)\\\\w+$','output_mode':'content','-n':false,'head_limit':1}"),
		plain);
	auto_free char *glob = xasprintf("%s/b.md\n", w->dir);
	assert_string_equal(run(w, &tool_grep, "{'pattern':'two','-i':true,'glob':'*.md'}"), glob);
	assert_string_equal(run(w, &tool_grep, "{'pattern':'two','-i':true,'type':'md'}"), glob);
	assert_string_equal(run(w, &tool_grep, "{'pattern':'two','path':'a.txt'}"), files);
	assert_string_equal(run(w, &tool_grep, "{'pattern':'nowhere'}"), "No files found.\n");
	assert_false(w->last.error);
}

static void test_todos(void **state)
{
	struct world *w = *state;
	const char *text = run(w, &tool_todo_write,
			       "{'todos':[{'content':'a','status':'completed'},{'content':'b','status':'pending'}]}");

	assert_string_equal(text, "The list is noted: 2 entries, 1 completed.");
	assert_non_null(strstr(w->tools.todos, "\"b\""));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_malformed), TEST(test_read),	      TEST(test_read_across_pieces),
		TEST(test_images),    TEST(test_edit),	      TEST(test_multi_edit_is_all_or_nothing),
		TEST(test_write),     TEST(test_glob_and_ls), TEST(test_grep),
		TEST(test_todos),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
