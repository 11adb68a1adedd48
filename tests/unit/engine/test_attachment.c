/* Attachments: what is refused before anything exists, what the run keeps, what templates see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../store/tmp.h"
#include "fake_session.h"
#include "flow.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/run.h>
#include <sys/stat.h>
#include <unistd.h>

#define DECLARED                                                                                                       \
	"attachments:\n  spec: file\n    description: \"what to build\"\n    accept_mime: [\"text/*\", "               \
	"\"application/pdf\"]\n  shot: image\n"
#define FLOW(command) "tool a:\n  command: `" command "`\nworkflow w:\n  entry: a\n  a -> done\n"

static char *dir, *text_file, *image_file;

static int make_files(void **state)
{
	(void)state;
	dir = tmp_dir();
	text_file = xasprintf("%s/big.md", dir);
	image_file = xasprintf("%s/s h o t.png", dir);
	static const char png[] = "\x89PNG\r\n\x1a\n";
	char *big = xmalloc(300000);
	memset(big, 'x', 300000);
	int r = file_replace(AT_FDCWD, text_file, big, 300000, 0600, FILE_NO_SYNC, NULL);
	if (r == 0)
		r = file_replace(AT_FDCWD, image_file, png, sizeof png - 1, 0600, FILE_NO_SYNC, NULL);
	free(big);
	auto_free char *fifo = xasprintf("%s/fifo", dir);
	return r == 0 ? mkfifo(fifo, 0600) : r;
}

static int remove_files(void **state)
{
	(void)state;
	free(text_file);
	free(image_file);
	tmp_remove(dir);
	return 0;
}

static void test_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *given; /* "=PATH" parts are below dir */
		const char *error, *hint;
	} cases[] = {
		{DECLARED FLOW("true"), "spce=big.md", "no such attachment", "did you mean spec?"},
		{FLOW("true"), "x=big.md", "no such attachment", "attachments: block"},
		{DECLARED FLOW("true"), "spec", "no name=file", "--attachment NAME=FILE"},
		{DECLARED FLOW("true"), "spec=", "no name=file", "--attachment NAME=FILE"},
		{DECLARED FLOW("true"), "spec=none", "No such file", "--attachment spec=FILE"},
		{DECLARED FLOW("true"), "spec=.", "Is a directory", "--attachment spec=FILE"},
		{DECLARED FLOW("true"), "spec=fifo", "no regular file", "--attachment spec=FILE"},
		{DECLARED FLOW("true"), "spec=s h o t.png", "is image/png, which accept_mime",
		 "text/*, application/pdf"},
		{DECLARED FLOW("true"), "shot=big.md", "is no image but text/markdown", "give an image"},
		{"attachments:\n  spec: file\n    description: \"the spec\"\n    required: true\n" FLOW("true"), NULL,
		 "attachment spec: it is required and was not given (the spec)", "--attachment spec=FILE"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *eq = cases[i].given ? strchr(cases[i].given, '=') : NULL;
		auto_free char *given = !eq || !eq[1] ? xstrdup(cases[i].given ? cases[i].given : "")
						      : xasprintf("%.*s=%s/%s", (int)(eq - cases[i].given),
								  cases[i].given, dir, eq + 1);
		const char *const list[] = {cases[i].given ? given : NULL, NULL};
		struct flow f;
		fake_session_reset();
		flow_run(&f, cases[i].text, &(struct flow_opts){.attachments = list});
		if (f.new_result >= 0 || !strstr(f.new_err.msg, cases[i].error) ||
		    !strstr(f.new_err.hint, cases[i].hint))
			fail_msg("%zu: %s: %s", i, f.new_err.msg, f.new_err.hint);
		assert_int_equal(err_exit_code(f.new_err.kind), 2);
		assert_int_equal(fake_session.made, 0);
		flow_done(&f);
	}
}

static void test_kept(void **state)
{
	(void)state;
	auto_free char *spec = xasprintf("spec=%s", text_file), *shot = xasprintf("shot=%s", image_file);
	auto_free char *orig = xasprintf("orig=%s", text_file);
	const char *const vars[] = {orig, NULL};
	const char *const list[] = {spec, spec, shot, NULL};
	struct flow f;

	fake_session_reset();
	flow_run(&f,
		 "vars:\n  orig: string\n" DECLARED FLOW(
			 "cmp {{attachments.spec.path}} {{vars.orig}} && wc -c <{{attachments.shot.path}} && echo "
			 "{{attachments.shot.mime}} {{attachments.spec.size}} {{attachments.spec.url}}"),
		 &(struct flow_opts){.attachments = list, .vars = vars});
	assert_int_equal(f.result.status, RUN_FINISHED);
	const char *run = json_get_str(f.record, "id");
	auto_free char *folder = xasprintf("%s/runs/%s/attachments", f.top, run);
	auto_free char *expected = xasprintf("8\nimage/png 300000 file://%s/spec.md\n", folder);
	assert_string_equal(json_get_str(flow_output(&f, "a"), "output"), expected);
	const json_t *a = json_object_get(json_object_get(f.record, "attachments"), "spec");
	assert_string_equal(json_get_str(a, "file"), "spec.md");
	assert_int_equal(json_integer_value(json_object_get(a, "size")), 300000);
	char sum[SHA256_HEX_SIZE];
	auto_free char *copy = tmp_read(folder, "spec.md");
	store_sha256(sum, copy, 300000);
	assert_string_equal(json_get_str(a, "sha256"), sum);
	assert_int_equal(tmp_mode(folder, "spec.md"), 0400);
	assert_int_equal(tmp_mode(folder, "shot.png"), 0400);
	flow_done(&f);
}

static void test_expressions(void **state)
{
	(void)state;
	auto_free char *spec = xasprintf("spec=%s", text_file);
	const char *const list[] = {spec, NULL};
	struct flow f;

	fake_session_reset();
	flow_run(&f,
		 DECLARED
		 "compute c:\n  expr:\n    has: \"attachments.spec.size > 1000\"\n    none: \"attachments.shot "
		 "== null\"\nworkflow w:\n  entry: c\n  c -> done\n",
		 &(struct flow_opts){.attachments = list});
	assert_true(json_is_true(json_object_get(flow_output(&f, "c"), "has")));
	flow_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_expressions),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
