/* The reference's answers: every folder of tests/data/devcontainer. */
#include "devcontainer.h"

#include <base/file.h>

#include <dirent.h>
#include <fcntl.h>

static char *read_text(const char *folder, const char *name)
{
	auto_free char *path = xasprintf(TEST_DATA "/devcontainer/%s/%s", folder, name);
	char *text;

	assert_int_equal(file_read(AT_FDCWD, path, 1024 * 1024, &text, NULL, NULL), 0);
	return text;
}

static char *replace_all(const char *text, const char *what, const char *with)
{
	char *out = xstrdup("");

	for (const char *at; (at = strstr(text, what)); text = at + strlen(what)) {
		char *more = xasprintf("%s%.*s%s", out, (int)(at - text), text, with);
		free(out);
		out = more;
	}
	char *all = xasprintf("%s%s", out, text);
	free(out);
	return all;
}

static bool same(const char *folder, const char *what, const json_t *want, json_t *got)
{
	auto_json mine = got;

	if (json_equal(want, mine))
		return true;
	auto_free char *a = json_compact(want);
	auto_free char *b = json_compact(mine);
	print_error("%s: %s\n  want %s\n  got  %s\n", folder, what, a, b);
	return false;
}

static bool check_case(const char *folder)
{
	static const char workspace[] = "/somewhere/on this/host/ws";
	auto_free char *text = read_text(folder, "devcontainer.json");
	auto_free char *where = read_text(folder, "where");
	auto_free char *answer = read_text(folder, "expected.json");
	where[strcspn(where, "\n")] = '\0';
	auto_free char *path = xasprintf("%s/%s", workspace, where);
	auto_free char *placed = replace_all(answer, "@WS@", workspace);
	auto_json want = json_parse(placed, strlen(placed), NULL);
	const struct devcontainer_params p = {.workspace = workspace, .path = path, .env = case_env};
	struct err e = ERR_INIT;
	auto_devcontainer d = NULL;

	assert_non_null(want);
	if (devcontainer_load(&p, text, strlen(text), &d, &e) < 0) {
		print_error("%s: %s\n", folder, e.msg);
		return false;
	}
	bool ok = same(folder, "configuration", json_object_get(want, "configuration"), devcontainer_configuration(d));
	return same(folder, "workspace", json_object_get(want, "workspace"), devcontainer_workspace(d)) && ok;
}

static void test_reference(void **state)
{
	(void)state;
	auto_dir dir = opendir(TEST_DATA "/devcontainer");
	struct dirent *entry;
	size_t n = 0, bad = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strchr(entry->d_name, '.'))
			continue;
		n++;
		bad += !check_case(entry->d_name);
	}
	assert_int_equal(bad, 0);
	assert_in_range(n, 9, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference),
	};

	return cmocka_run_group_tests_name("devcontainer cases", tests, NULL, NULL);
}
