/* Mount strings: what they come to, and what is refused with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/mount.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *text;
	enum mount_type type;
	const char *source, *target;
	bool readonly;
} good[] = {
	{"type=bind,source=/a,target=/b", MOUNT_BIND, "/a", "/b", false},
	{"type=bind,src=/a,dst=/b,ro", MOUNT_BIND, "/a", "/b", true},
	{"source=/a,destination=/b,type=bind,readonly", MOUNT_BIND, "/a", "/b", true},
	{"type=bind,source=/a,target=/b,readonly=true", MOUNT_BIND, "/a", "/b", true},
	{"type=bind,source=/a,target=/b,readonly=1", MOUNT_BIND, "/a", "/b", true},
	{"type=bind,source=/a,target=/b,readonly=false", MOUNT_BIND, "/a", "/b", false},
	{"type=bind,source=/a,target=/b,consistency=cached", MOUNT_BIND, "/a", "/b", false},
	{"type=bind,source=/a,target=/b,bind-propagation=rprivate", MOUNT_BIND, "/a", "/b", false},
	{"type=bind,source=//a/./c/../d/,target=/b//x/", MOUNT_BIND, "/a/d", "/b/x", false},
	{"type=bind,\"source=/a,with \"\"comma\",target=/b", MOUNT_BIND, "/a,with \"comma", "/b", false},
	{"type=bind,source=/a=b,target=/c=d", MOUNT_BIND, "/a=b", "/c=d", false},
	{"type=volume,source=cache,target=/c", MOUNT_VOLUME, "cache", "/c", false},
	{"type=volume,target=/anon", MOUNT_VOLUME, NULL, "/anon", false},
	{"source=cache_1.x-y,target=/c", MOUNT_VOLUME, "cache_1.x-y", "/c", false},
	{"type=tmpfs,target=/scratch", MOUNT_TMPFS, NULL, "/scratch", false},
	{"type=tmpfs,target=/dev/shm", MOUNT_TMPFS, NULL, "/dev/shm", false},
	{"type=pvc,source=data,target=/d", MOUNT_PVC, "data", "/d", false},
	{"type=configmap,source=conf,target=/d,ro", MOUNT_CONFIGMAP, "conf", "/d", true},
	{"type=secret,source=s,target=/d", MOUNT_SECRET, "s", "/d", false},
	{"/a:/b", MOUNT_BIND, "/a", "/b", false},
	{"/a:/b:ro", MOUNT_BIND, "/a", "/b", true},
	{"/a:/b:ro,z", MOUNT_BIND, "/a", "/b", true},
	{"/a:/b:rw", MOUNT_BIND, "/a", "/b", false},
	{"/a=b:/c", MOUNT_BIND, "/a=b", "/c", false},
	{"cache:/c", MOUNT_VOLUME, "cache", "/c", false},
	{"/anon", MOUNT_VOLUME, NULL, "/anon", false},
};

static const struct {
	const char *text, *in_msg, *in_hint;
} bad[] = {
	{"", "it is empty", "type=bind"},
	{"type=bind", "not absolute", NULL},
	{"type=bind,source=/a", "a target is missing", NULL},
	{"type=bind,source=/a,target=", "\"target\" is empty", NULL},
	{"type=bind,source=,target=/b", "\"source\" is empty", NULL},
	{"type=bind,source=/a,target=b", "not absolute", "/data"},
	{"type=bind,source=/a,target=/", "the root folder", NULL},
	{"type=bind,source=/a,target=/x/..", "the root folder", NULL},
	{"type=bind,source=/a,target=/proc", "the sandbox's own", NULL},
	{"type=bind,source=/a,target=/x/../proc/sys", "the sandbox's own", NULL},
	{"type=bind,source=/a,target=/sys/fs/cgroup", "the sandbox's own", NULL},
	{"type=bind,source=/a,target=/dev/sda", "the sandbox's own", NULL},
	{"type=bind,source=/a,target=/run/iterion", "the sandbox's own", NULL},
	{"type=bind,source=a,target=/b", "not absolute", "PROJECT_DIR"},
	{"type=bind,source=./a,target=/b", "not absolute", NULL},
	{"type=bind,source=~/a,target=/b", "not absolute", "${localEnv:HOME}"},
	{"type=bind,source=/${unknown}/a,target=/b", "unknown variable", NULL},
	{"type=bind,source=/a\n,target=/b", "control character", NULL},
	{"type=bind,source=/a,target=/b\n", "control character", NULL},
	{"source=/a,target=/b", "the type is missing", "type=bind"},
	{"type=volume,source=/a,target=/b", "the type is volume", "type=bind"},
	{"type=volume,source=-v,target=/b", "no name of a volume", NULL},
	{"type=volume,source=a b,target=/b", "no name of a volume", NULL},
	{"type=tmpfs,source=/a,target=/b", "a tmpfs has no source", NULL},
	{"type=pvc,target=/b", "no name of a pvc", NULL},
	{"type=npipe,source=/a,target=/b", "no type of mount", "bind, volume and tmpfs"},
	{"type=bind,sorce=/a,target=/b", "\"sorce\" is no option", "\"source\""},
	{"type=bind,source=/a,target=/b,noexec", "no option", NULL},
	{"type=bind,source=/a,target=/b,", "no option", NULL},
	{"type=bind,,source=/a,target=/b", "no option", NULL},
	{"type=bind,source=/a,source=/c,target=/b", "given twice", NULL},
	{"type=bind,source=/a,target=/b,dst=/c", "given twice", NULL},
	{"type=bind,source=/a,target=/b,readonly=yes", "neither true nor false", NULL},
	{"type=bind,source=/a,target=/b,bind-propagation=rshared", "would reach the host", NULL},
	{"type=bind,\"source=/a,target=/b", "no end", NULL},
	{"type=bind,\"source=/a\"x,target=/b", "behind a quoted field", NULL},
	{"/a:/b:ro:x", "more than two colons", NULL},
	{"/a:/b:exec", "no option", NULL},
	{"/a:/b:shared", "no option", NULL},
	{":/b", "\"source\" is empty", NULL},
	{"/a:", "\"target\" is empty", NULL},
	{"./a:/b", "not absolute", NULL},
	{"~/a:/b", "not absolute", NULL},
	{"cache", "not absolute", NULL},
	{"a b:/c", "no name of a volume", NULL},
};

static void test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct sandbox_mount m;
		struct err e = ERR_INIT;
		if (sandbox_mount_parse(good[i].text, &m, &e) < 0)
			fail_msg("%s", e.msg);
		if (m.type != good[i].type || m.readonly != good[i].readonly || !str_eq(m.source, good[i].source) ||
		    !str_eq(m.target, good[i].target))
			fail_msg("\"%s\" is %s %s at %s", good[i].text, mount_type_name(m.type), m.source, m.target);
		assert_null(m.origin);
		free(m.source);
		free(m.target);
	}
}

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct sandbox_mount m;
		struct err e = ERR_INIT;
		if (sandbox_mount_parse(bad[i].text, &m, &e) != -EINVAL)
			fail_msg("\"%s\" is taken", bad[i].text);
		if (!strstr(e.msg, bad[i].in_msg) || !str_starts(e.msg, "mount \""))
			fail_msg("\"%s\": \"%s\" does not say \"%s\"", bad[i].text, e.msg, bad[i].in_msg);
		if (!e.hint[0] || (bad[i].in_hint && !strstr(e.hint, bad[i].in_hint)))
			fail_msg("\"%s\": hint \"%s\"", bad[i].text, e.hint);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
