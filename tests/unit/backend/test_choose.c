/* Which backend an agent has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../store/tmp.h"
#include <backend/choose.h>
#include <base/mem.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void test_precedence(void **state)
{
	(void)state;
	static const char *const none[] = {"PATH=/nowhere", "HOME=/nowhere", NULL};
	static const char *const by_env[] = {"PATH=/nowhere", "ITERION_DEFAULT_BACKEND=fourth", NULL};
	static const char *const empty[] = {"ITERION_DEFAULT_BACKEND=", NULL};
	static const char *const key[] = {"OPENAI_API_KEY=k", "ITERION_BACKEND_PREFERENCE=codex, claude_code,claw",
					  NULL};
	static const struct {
		struct backend_wish w;
		const char *name, *source;
	} cases[] = {
		{{"first", "second", by_env}, "first", "node backend:"},
		{{NULL, "second", by_env}, "second", "workflow default_backend:"},
		{{NULL, NULL, by_env}, "fourth", "ITERION_DEFAULT_BACKEND"},
		{{NULL, NULL, empty}, "claw", "the default"},
		{{NULL, NULL, none}, "claw", "the default"},
		{{NULL, NULL, NULL}, "claw", "the default"},
		{{NULL, NULL, key}, "claw", "credentials that were found"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *source;
		char *name = backend_choose(&cases[i].w, &source);
		assert_string_equal(name, cases[i].name);
		assert_string_equal(source, cases[i].source);
		free(name);
	}
}

static void touch(const char *dir, const char *name, mode_t mode)
{
	char *path = xasprintf("%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	close(fd);
	free(path);
}

/* claude_code needs both its program and its credentials. */
static void test_detection(void **state)
{
	(void)state;
	char *top = tmp_dir();
	char *path = xasprintf("PATH=/nowhere:%s", top), *config = xasprintf("CLAUDE_CONFIG_DIR=%s", top);
	const char *const env[] = {path, config, "ANTHROPIC_API_KEY=k", NULL};
	const struct backend_wish w = {.env = env};
	static const char *const steps[] = {"claw", "claw", "claude_code"};
	const char *source;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		if (i == 1)
			touch(top, "claude", 0755);
		if (i == 2)
			touch(top, ".credentials.json", 0600);
		char *name = backend_choose(&w, &source);
		assert_string_equal(name, steps[i]);
		free(name);
	}
	free(path);
	free(config);
	tmp_remove(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_precedence), cmocka_unit_test(test_detection)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
