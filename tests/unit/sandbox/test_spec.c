/* The spec: names, copies, comparison, validity as a whole; variables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/spec.h>
#include <sandbox/vars.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void add_mount(struct sandbox_spec *s, enum mount_type type, const char *source, const char *target)
{
	*sandbox_spec_add_mount(s) = (struct sandbox_mount){
		.type = type,
		.source = source ? xstrdup(source) : NULL,
		.target = xstrdup(target),
		.origin = xstrdup("a test"),
	};
}

static void add_secret(struct sandbox_spec *s, const char *name, const char *from, const char *host)
{
	struct sandbox_secret *x = sandbox_spec_add_secret(s);

	x->name = xstrdup(name);
	x->from = xstrdup(from);
	if (host)
		strv_add(&x->hosts, host);
}

/* Every field of it is set. */
static void fill(struct sandbox_spec *s)
{
	*s = (struct sandbox_spec){.mode = SANDBOX_INLINE, .host_state = HOST_STATE_NONE};
	s->image = xstrdup("debian:12");
	add_mount(s, MOUNT_BIND, "/a", "/b");
	add_mount(s, MOUNT_TMPFS, NULL, "/t");
	strv_add(&s->env, "A=1");
	strv_add(&s->env, "B=2");
	strv_add(&s->remote_env, "C=3");
	s->user = xstrdup("1000:1000");
	s->workspace_folder = xstrdup("/workspace");
	s->post_create = xstrdup("npm ci");
	s->network.mode = NETWORK_ALLOWLIST;
	strv_add(&s->network.presets, "llm");
	strv_add(&s->network.rules, "a.example");
	s->network.tls_inspect = TLS_INSPECT_SECRETS;
	s->network.strict_sni = true;
	add_secret(s, "TOKEN", "env:TOKEN", "api.example.com");
	s->limits = (struct sandbox_limits){.cpus = 1.5, .memory = 1u << 30, .pids = 100};
	strv_add(&s->run_args, "--init");
	s->mode_source = xstrdup("a test");
	s->host_state_source = xstrdup("a test");
	strv_add(&s->sources, "image=a test");
}

static void test_copy_and_equal(void **state)
{
	auto_sandbox_spec a = {0};
	auto_sandbox_spec b = {0};

	(void)state;
	assert_true(sandbox_spec_equal(&a, &b));
	fill(&a);
	assert_false(sandbox_spec_equal(&a, &b));
	sandbox_spec_copy(&b, &a);
	assert_true(sandbox_spec_equal(&a, &b));
	assert_ptr_not_equal(a.image, b.image);
	assert_ptr_not_equal(a.mounts[0].target, b.mounts[0].target);
	assert_string_equal(b.mounts[0].origin, "a test");
	/* Where it came from and the order of variables make no other sandbox. */
	free(b.mode_source);
	b.mode_source = xstrdup("another");
	char *first = b.env.v[0];
	b.env.v[0] = b.env.v[1];
	b.env.v[1] = first;
	assert_true(sandbox_spec_equal(&a, &b));
}

/* Each change alone makes another sandbox. */
static void test_each_difference_counts(void **state)
{
	enum { CHANGES = 20 };

	(void)state;
	for (unsigned i = 0; i < CHANGES; i++) {
		auto_sandbox_spec a = {0};
		auto_sandbox_spec b = {0};
		fill(&a);
		sandbox_spec_copy(&b, &a);
		switch (i) {
		case 0:
			b.mode = SANDBOX_AUTO;
			break;
		case 1:
			b.image[0] = 'x';
			break;
		case 2:
			b.build.dockerfile = xstrdup("Dockerfile");
			break;
		case 3:
			b.mounts[0].readonly = true;
			break;
		case 4:
			b.mounts[0].source[1] = 'x';
			break;
		case 5:
			add_mount(&b, MOUNT_TMPFS, NULL, "/u");
			break;
		case 6:
			strv_set_env(&b.env, "A", "2");
			break;
		case 7:
			strv_set_env(&b.remote_env, "D", "2");
			break;
		case 8:
			b.user[0] = '2';
			break;
		case 9:
			b.workspace_folder[1] = 'x';
			break;
		case 10:
			b.host_state = HOST_STATE_AUTO;
			break;
		case 11:
			b.post_create[0] = 'x';
			break;
		case 12:
			b.network.mode = NETWORK_LEARN;
			break;
		case 13:
			strv_add(&b.network.rules, "b.example");
			break;
		case 14:
			b.network.presets.v[0][0] = 'x';
			break;
		case 15:
			b.network.strict_sni = false;
			break;
		case 16:
			b.secrets[0].hosts.v[0][0] = 'x';
			break;
		case 17:
			b.limits.cpus = 2;
			break;
		case 18:
			b.limits.pids = 1;
			break;
		default:
			strv_add(&b.run_args, "--x");
			break;
		}
		if (sandbox_spec_equal(&a, &b))
			fail_msg("change %u makes no difference", i);
	}
}

static void test_names(void **state)
{
	enum sandbox_mode m;
	enum host_state h;

	(void)state;
	for (enum sandbox_mode i = SANDBOX_INHERIT; i <= SANDBOX_INLINE; i++) {
		assert_int_equal(sandbox_mode_parse(sandbox_mode_name(i), &m), 0);
		assert_int_equal(m, i);
	}
	assert_int_equal(sandbox_mode_parse("", &m), -EINVAL);
	assert_int_equal(sandbox_mode_parse("Auto", &m), -EINVAL);
	assert_int_equal(host_state_parse("none", &h), 0);
	assert_int_equal(h, HOST_STATE_NONE);
	assert_int_equal(host_state_parse("unset", &h), -EINVAL);
	assert_string_equal(tls_inspect_name(TLS_INSPECT_ALL), "all");
	assert_string_equal(mount_type_name(MOUNT_CONFIGMAP), "configmap");
}

/* What is done to a valid spec, and what the check then says; in_msg NULL: it stays valid. */
static const struct {
	const char *field, *value, *in_msg;
} changes[] = {
	{"image", "ghcr.io/acme/x@sha256:0123", NULL},
	{"image", "-v", "begins with '-'"},
	{"image", "", "it is empty"},
	{"image", "a\nb", "control character"},
	{"image", "a b", "a space"},
	{"user", "node", NULL},
	{"user", "1000", NULL},
	{"user", "node:staff", NULL},
	{"user", "-u0", "begins with '-'"},
	{"user", ":0", "no user"},
	{"user", "a:", "no user"},
	{"user", "a:b:c", "no user"},
	{"user", "a/b", "no user"},
	{"user", "a\tb", "control character"},
	{"workspace_folder", "/w", NULL},
	{"workspace_folder", "w", "not an absolute path"},
	{"workspace_folder", "/", "root folder"},
	{"workspace_folder", "/x/..", "root folder"},
	{"workspace_folder", "/proc/x", "sandbox's own"},
	{"workspace_folder", "/a\nb", "control character"},
	{"env", "X=", NULL},
	{"env", "_x9=a=b", NULL},
	{"env", "9X=1", "no name of a variable"},
	{"env", "=1", "no name of a variable"},
	{"env", "A-B=1", "no name of a variable"},
	{"env", "X=a\nb", "line break"},
	{"env", "X=a\rb", "line break"},
	{"env", "X=a\tb", NULL},
	{"remote_env", "X Y=1", "no name of a variable"},
	{"rules", "*.b.example", NULL},
	{"rules", "a*b.com", "wildcard inside a label"},
	{"presets", "packages", NULL},
	{"presets", "zzz", "does not exist"},
	{"mount", "/b", "two mounts at /b"},
	{"mount", "/c", NULL},
	{"mount", "c", "not absolute"},
	{"secret.from", "file:/x", NULL},
	{"secret.from", "cmd:pass show x", NULL},
	{"secret.from", "cmd: ", "no command"},
	{"secret.from", "env:9", "no name of a variable"},
	{"secret.from", "file:x", "no absolute path"},
	{"secret.from", "hunter2", "not known where"},
	{"secret.host", "*.example.com", "no host name"},
	{"secret.host", "a.example:443", "no host name"},
	{"secret.host", "10.0.0.1", "an address"},
	{"secret.name", "A", "env sets the same"},
	{"secret.name", "a-b", "no name of a variable"},
};

static void change(struct sandbox_spec *s, const char *field, const char *value)
{
	const struct {
		const char *field;
		char **text;
		struct strv *list;
	} rows[] = {
		{"image", &s->image, NULL},
		{"user", &s->user, NULL},
		{"workspace_folder", &s->workspace_folder, NULL},
		{"secret.from", &s->secrets[0].from, NULL},
		{"secret.name", &s->secrets[0].name, NULL},
		{"secret.host", NULL, &s->secrets[0].hosts},
		{"env", NULL, &s->env},
		{"remote_env", NULL, &s->remote_env},
		{"rules", NULL, &s->network.rules},
		{"presets", NULL, &s->network.presets},
	};

	if (str_eq(field, "mount"))
		add_mount(s, MOUNT_BIND, "/x", value);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!str_eq(rows[i].field, field))
			continue;
		if (rows[i].list) {
			strv_add(rows[i].list, value);
		} else {
			free(*rows[i].text);
			*rows[i].text = xstrdup(value);
		}
	}
}

static void test_check(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		auto_sandbox_spec s = {0};
		struct err e = ERR_INIT;
		fill(&s);
		assert_int_equal(sandbox_spec_check(&s, false, &e), 0);
		change(&s, changes[i].field, changes[i].value);
		int r = sandbox_spec_check(&s, false, &e);
		if (r != (changes[i].in_msg ? -EINVAL : 0))
			fail_msg("%s \"%s\": %d %s", changes[i].field, changes[i].value, r, e.msg);
		if (r < 0 && (!strstr(e.msg, changes[i].in_msg) || !e.hint[0] || !str_starts(e.msg, "sandbox ")))
			fail_msg("%s \"%s\": \"%s\", hint \"%s\"", changes[i].field, changes[i].value, e.msg, e.hint);
	}
}

static void test_image_or_build(void **state)
{
	auto_sandbox_spec s = {.mode = SANDBOX_INLINE};
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(sandbox_spec_check(&s, false, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "needs image or build"));
	assert_int_equal(sandbox_spec_check(&s, true, &e), 0);
	s.mode = SANDBOX_AUTO;
	assert_int_equal(sandbox_spec_check(&s, false, &e), 0);
	s.mode = SANDBOX_INLINE;
	s.build.dockerfile = xstrdup("docker/Dockerfile");
	assert_int_equal(sandbox_spec_check(&s, false, &e), 0);
	s.image = xstrdup("debian:12");
	assert_int_equal(sandbox_spec_check(&s, true, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "image and build"));
	/* Nothing is asked of a sandbox that is not made. */
	s.mode = SANDBOX_NONE;
	assert_int_equal(sandbox_spec_check(&s, false, &e), 0);
}

static void test_build_paths(void **state)
{
	static const struct {
		const char *path;
		bool good;
	} rows[] = {
		{"Dockerfile", true},
		{"a/b/Dockerfile", true},
		{"./Dockerfile", true},
		{"a/../Dockerfile", true},
		{"../Dockerfile", false},
		{"a/../../x", false},
		{"/Dockerfile", false},
		{"-f", false},
		{"", false},
		{"a\nb", false},
		{"..", false},
		{"../b/x", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_sandbox_spec s = {.mode = SANDBOX_INLINE};
		s.build.dockerfile = xstrdup("Dockerfile");
		s.build.context = xstrdup(rows[i].path);
		struct err e = ERR_INIT;
		int r = sandbox_spec_check(&s, false, &e);
		if (r != (rows[i].good ? 0 : -EINVAL))
			fail_msg("\"%s\": %d %s", rows[i].path, r, e.msg);
	}
}

static void test_network_together(void **state)
{
	auto_sandbox_spec s = {0};
	struct err e = ERR_INIT;

	(void)state;
	fill(&s);
	s.network.mode = NETWORK_OPEN;
	assert_int_equal(sandbox_spec_check(&s, false, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "tls_inspect"));
	s.network.mode = NETWORK_ALLOWLIST;
	s.network.tls_inspect = TLS_INSPECT_OFF;
	assert_int_equal(sandbox_spec_check(&s, false, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "secrets"));
}

static void test_limits(void **state)
{
	static const struct {
		struct sandbox_limits l;
		bool good;
	} rows[] = {
		{{0}, true},
		{{.cpus = 0.5, .memory = 6 << 20, .pids = 1}, true},
		{{.cpus = 0.001}, false},
		{{.cpus = -1}, false},
		{{.cpus = 1e9}, false},
		{{.memory = 1000}, false},
		{{.memory = UINT64_MAX}, false},
		{{.pids = UINT64_MAX}, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct sandbox_spec s = {.mode = SANDBOX_AUTO, .limits = rows[i].l};
		assert_int_equal(sandbox_spec_check(&s, false, NULL), rows[i].good ? 0 : -EINVAL);
	}
}

static void test_vars(void **state)
{
	static const char *const env[] = {"HOME=/home/u", "EMPTY=", "A=${localEnv:HOME}", NULL};
	static const struct sandbox_vars v = {env, "/src/repo", "/workspace"}, same = {env, "/src/repo", NULL};
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"plain", "plain"},
		{"", ""},
		{"${localEnv:HOME}/.cache", "/home/u/.cache"},
		{"${localEnv:HOME}${localEnv:HOME}", "/home/u/home/u"},
		{"${localEnv:NONE}x", "x"},
		{"${localEnv:NONE:fallback:2}", "fallback:2"},
		{"${localEnv:EMPTY:fallback}", ""},
		{"${localEnv:A}", "${localEnv:HOME}"}, /* once, not again */
		{"${localWorkspaceFolder}", "/src/repo"},
		{"${localWorkspaceFolderBasename}", "repo"},
		{"${containerWorkspaceFolder}/x", "/workspace/x"},
		{"${containerWorkspaceFolderBasename}", "workspace"},
		{"cache-${devcontainerId}", "cache-${devcontainerId}"},
		{"${localEnv:}", "${localEnv:}"},
		{"${localEnv:HOM}", ""},
		{"${", "${"},
		{"$HOME ${HOME}", "$HOME ${HOME}"},
		{"a${localEnv:HOME", "a${localEnv:HOME"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = sandbox_vars_expand(&v, rows[i].text);
		assert_string_equal(got, rows[i].want);
	}
	auto_free char *got = sandbox_vars_expand(&same, "${containerWorkspaceFolder}");
	assert_string_equal(got, "/src/repo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy_and_equal),
		cmocka_unit_test(test_each_difference_counts),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_image_or_build),
		cmocka_unit_test(test_build_paths),
		cmocka_unit_test(test_network_together),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_vars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
