/* The host toolchain view as data: what is in it, what never is, and in which order. */
#include "native/plan.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <guest/protocol.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct plan_facts facts = {
	.workspace = "/home/someone/work",
	.workspace_target = "/home/someone/work",
	.home = "/home/someone",
	.guest = "/usr/bin/env",
	.uid = 4711,
	.gid = 4712,
};

static struct plan *make(const struct sandbox_spec *spec, const struct plan_facts *f)
{
	struct plan *p = plan_new();
	struct err e = ERR_INIT;

	assert_int_equal(plan_host_view(p, spec, f, &e), 0);
	return p;
}

static const struct step *find(const struct plan *p, enum step_kind kind, const char *target)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].kind == kind && str_eq(p->v[i].target, target))
			return &p->v[i];
	return NULL;
}

static void test_host_folders_are_read_only(void **state)
{
	const struct sandbox_spec spec = {0};
	struct plan *p = make(&spec, &facts);

	(void)state;
	for (size_t i = 0; i < p->n; i++) {
		const struct step *s = &p->v[i];
		if (s->kind != STEP_BIND || str_eq(s->target, facts.workspace_target) ||
		    str_eq(s->target, GUEST_ARTIFACT_FILES) || path_within(s->target, "/dev"))
			continue;
		assert_true(s->flags & STEP_RO);
	}
	assert_non_null(find(p, STEP_BIND, "/usr"));
	plan_free(p);
}

static void test_nothing_secret(void **state)
{
	static const char *const never[] = {
		"/etc/shadow",
		"/etc/ssl",
		"/etc/ssl/private",
		"/etc/pki",
		"/etc/gshadow",
		"/etc/sudoers",
		"/etc/sudoers.d",
		"/etc/ssh",
		"/root",
		"/home",
		"/var",
		"/srv",
		"/boot",
		"/sys/firmware",
		"/run/docker.sock",
		"/etc",
		"/",
		"/etc/resolv.conf",
	};
	const struct sandbox_spec spec = {0};
	struct plan *p = make(&spec, &facts);

	(void)state;
	for (size_t i = 0; i < p->n; i++)
		for (size_t k = 0; p->v[i].kind == STEP_BIND && k < ARRAY_LEN(never); k++)
			if (str_eq(p->v[i].source, never[k]))
				fail_msg("%s is bound", never[k]);
	plan_free(p);
}

static void test_own_account_is_known(void **state)
{
	const struct sandbox_spec spec = {0};
	struct plan *p = make(&spec, &facts);
	const struct step *passwd = find(p, STEP_FILE, "/etc/passwd");
	const struct step *group = find(p, STEP_FILE, "/etc/group");

	(void)state;
	if (!passwd || !group) {
		fail();
		return;
	}
	assert_non_null(strstr(passwd->content, "user:x:4711:4712::/home/someone:/bin/sh\n"));
	assert_non_null(strstr(group->content, "user:x:4712:\n"));
	plan_free(p);
}

static size_t index_of(const struct plan *p, enum step_kind kind, const char *target)
{
	const struct step *s = find(p, kind, target);

	assert_non_null(s);
	return (size_t)(s - p->v);
}

static void test_order(void **state)
{
	struct sandbox_mount mounts[] = {
		{.type = MOUNT_TMPFS, .target = (char[]){"/home/someone/work/deep/er"}},
		{.type = MOUNT_BIND,
		 .source = (char[]){"/usr"},
		 .target = (char[]){"/home/someone/a"},
		 .readonly = true},
	};
	const struct sandbox_spec spec = {.mounts = mounts, .n_mounts = 2};
	struct plan *p = make(&spec, &facts);

	(void)state;
	size_t home = index_of(p, STEP_WRITABLE, "/home/someone");
	size_t work = index_of(p, STEP_BIND, "/home/someone/work");
	size_t bind = index_of(p, STEP_BIND, "/home/someone/a");
	size_t deep = index_of(p, STEP_WRITABLE, "/home/someone/work/deep/er");
	assert_true(home < work && home < bind && work < deep && bind < deep);
	assert_true(p->v[bind].flags & STEP_RO);
	plan_free(p);
}

static void test_store_in_workspace_is_covered(void **state)
{
	const struct sandbox_spec spec = {0};
	struct plan_facts f = facts;

	(void)state;
	f.hidden = "/home/someone/work/.iterion";
	f.workspace_target = "/workspace";
	struct plan *p = make(&spec, &f);
	assert_true(index_of(p, STEP_COVER, "/workspace/.iterion") > index_of(p, STEP_BIND, "/workspace"));
	plan_free(p);
}

static void test_open_network_shows_the_resolver(void **state)
{
	const struct sandbox_spec spec = {0};
	struct plan_facts f = facts;

	(void)state;
	f.host_network = true;
	struct plan *p = make(&spec, &f);
	bool there = false;
	for (size_t i = 0; i < p->n; i++)
		there |= str_eq(p->v[i].target, "/etc/resolv.conf");
	assert_true(there);
	plan_free(p);
}

static void test_mounts_that_cannot_be(void **state)
{
	static const struct {
		enum mount_type type;
		const char *source;
		int r;
	} rows[] = {
		{MOUNT_BIND, "/no/such/folder", -ENOENT}, {MOUNT_VOLUME, "v", -ENOTSUP}, {MOUNT_PVC, "v", -ENOTSUP}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sandbox_mount m = {
			.type = rows[i].type, .source = xstrdup(rows[i].source), .target = (char[]){"/m"}};
		const struct sandbox_spec spec = {.mounts = &m, .n_mounts = 1};
		struct plan *p = plan_new();
		struct err e = ERR_INIT;
		assert_int_equal(plan_host_view(p, &spec, &facts, &e), rows[i].r);
		assert_string_not_equal(e.msg, "");
		assert_string_not_equal(e.hint, "");
		plan_free(p);
		free(m.source);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host_folders_are_read_only),
		cmocka_unit_test(test_nothing_secret),
		cmocka_unit_test(test_own_account_is_known),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_store_in_workspace_is_covered),
		cmocka_unit_test(test_open_network_shows_the_resolver),
		cmocka_unit_test(test_mounts_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
