/* Which mount brings an agent's program into a sandbox that shows the host's programs. */
#include "../store/tmp.h"

#include <backend/backend.h>
#include <backend/share.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/spec.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct backend_program program = {.name = "prog", .below_home = ".prog/local/prog"};
static const struct backend_ops ops = {.name = "b", .program = &program};
static const struct backend_ops none = {.name = "n"};

static void make(const char *top, const char *name)
{
	auto_free char *path = path_join(top, name), *dir = path_parent(path);

	assert_int_equal(dir_make(AT_FDCWD, dir, 0755, NULL), 0);
	assert_int_equal(file_replace(AT_FDCWD, path, "#!/bin/sh\n", 10, 0755, FILE_NO_SYNC, NULL), 0);
}

static void mounts(void **state)
{
	(void)state;
	static const struct {
		const char *file;      /* the program, below the top folder */
		const char *link;      /* on the PATH; NULL: the file's folder is */
		const char *workspace; /* below the top folder */
		const char *want;      /* what is shared, below the top folder; NULL: nothing */
	} rows[] = {
		{"home/.npm/lib/node_modules/@x/y/bin/prog", "home/bin/prog", "ws", "home/.npm/lib/node_modules"},
		{"home/.share/versions/1.2", "home/bin/prog", "ws", "home/.share/versions/1.2"},
		{"home/bin/prog", NULL, "ws", "home/bin/prog"},
		{"home/.prog/local/prog", "home/none/nothing", "ws", "home/.prog/local"},
		{"home/.prog/local/node_modules/p/prog", "home/.prog/local/prog", "ws",
		 "home/.prog/local/node_modules"},
		{"ws/bin/prog", NULL, "ws", NULL},
		{"home/bin/other", NULL, "ws", NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *made = tmp_dir();
		auto_free char *top = realpath(made, NULL);
		make(top, rows[i].file);
		auto_free char *file = path_join(top, rows[i].file);
		auto_free char *link = path_join(top, rows[i].link ? rows[i].link : rows[i].file);
		auto_free char *dir = path_parent(link), *workspace = path_join(top, rows[i].workspace);
		if (rows[i].link) {
			assert_int_equal(dir_make(AT_FDCWD, dir, 0755, NULL), 0);
			assert_int_equal(symlink(file, link), 0);
		}
		auto_free char *path = xasprintf("PATH=relative:%s:/nowhere", dir),
			       *home = xasprintf("HOME=%s/home", top);
		const char *const env[] = {path, home, NULL};
		auto_sandbox_spec spec = {.mode = SANDBOX_INLINE};
		backend_share_program(&ops, env, workspace, &spec);
		assert_int_equal(spec.n_mounts, rows[i].want ? 1 : 0);
		if (rows[i].want) {
			auto_free char *want = path_join(top, rows[i].want);
			assert_string_equal(spec.mounts[0].source, want);
			assert_string_equal(spec.mounts[0].target, want);
			assert_true(spec.mounts[0].readonly);
			assert_int_equal(spec.mounts[0].type, MOUNT_BIND);
			/* What is there is not mounted twice. */
			backend_share_program(&ops, env, workspace, &spec);
			assert_int_equal(spec.n_mounts, 1);
		}
		tmp_remove(made);
	}
}

static void not_shared(void **state)
{
	(void)state;
	static const char *const env[] = {"PATH=/usr/bin:/bin", "HOME=/nowhere", NULL};
	static const struct backend_program shell = {.name = "sh"};
	static const struct backend_ops with_shell = {.name = "s", .program = &shell};
	auto_free char *real = backend_program_path(&shell, env);
	auto_sandbox_spec host = {.mode = SANDBOX_NONE}, image = {.mode = SANDBOX_INLINE, .image = xstrdup("x")},
			  shown = {.mode = SANDBOX_INLINE};

	assert_non_null(real);
	backend_share_program(&with_shell, env, "/ws", &shown); /* it is in /usr */
	backend_share_program(&none, env, "/ws", &shown);
	backend_share_program(&ops, env, "/ws", &shown); /* it is nowhere */
	backend_share_program(&with_shell, env, "/ws", &image);
	backend_share_program(&with_shell, env, "/ws", &host);
	assert_int_equal(shown.n_mounts + image.n_mounts + host.n_mounts, 0);
	assert_null(backend_program_path(&program, env));
	assert_null(backend_program_path(&program, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(mounts), cmocka_unit_test(not_shared)};

	return cmocka_run_group_tests_name("backend share", tests, NULL, NULL);
}
