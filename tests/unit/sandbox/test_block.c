/* Blocks of the syntax tree: what they come to, and that every problem is reported where it stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/diag.h>
#include <dsl/parse.h>
#include <sandbox/block.h>
#include <sandbox/vars.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STR(text, line_)                                                                                               \
	{                                                                                                              \
		.s = (text), .len = sizeof(text) - 1, .pos = { line_, 3 }                                              \
	}

static const char *const env[] = {"HOME=/home/u", NULL};
static const struct sandbox_vars vars = {.env = env, .workspace = "/src/repo"};
static const char origin[] = "workflow sandbox: block";

static struct dsl_str mounts[] = {STR("type=bind,source=${localEnv:HOME}/.cache,target=/cache", 10),
				  STR("${containerWorkspaceFolder}:/again:ro", 11)};
static struct dsl_pair env_pairs[] = {{STR("A", 12), STR("1", 12)},
				      {STR("WS", 13), STR("${containerWorkspaceFolder}", 13)}};
static struct dsl_str presets[] = {STR("llm", 14)}, rules[] = {STR("api.github.com", 15), STR("!evil.site", 16)};
static struct dsl_str hosts[] = {STR("api.github.com", 18)};
static struct dsl_secret secrets[] = {
	{.name = STR("TOKEN", 17), .from = STR("env:TOKEN", 17), .hosts = {hosts, 1, {18, 3}}}};

static struct dsl_sandbox whole_block(void)
{
	struct dsl_sandbox b = {
		.pos = {1, 1},
		.image = STR("debian:12", 2),
		.user = STR("1000:1000", 3),
		.workspace_folder = STR("/workspace", 4),
		.host_state = {DSL_HOST_STATE_NONE, {5, 3}},
		.post_create = STR("npm ci", 6),
		.mounts = {mounts, 2, {10, 1}},
		.env = {env_pairs, 2, {12, 1}},
		.secrets = secrets,
		.n_secrets = 1,
	};

	b.network.pos = (struct dsl_pos){13, 1};
	b.network.mode = (struct dsl_word){DSL_NETWORK_ALLOWLIST, {13, 3}};
	b.network.preset = (struct dsl_list){presets, 1, {14, 1}};
	b.network.rules = (struct dsl_list){rules, 2, {15, 1}};
	b.network.tls_inspect = (struct dsl_word){DSL_TLS_INSPECT_SECRETS, {16, 3}};
	b.network.strict_sni = (struct dsl_bool){true, true, {16, 3}};
	b.limits.pos = (struct dsl_pos){19, 1};
	b.limits.cpus = (struct dsl_num){1.5, true, {20, 3}};
	b.limits.memory = (struct dsl_str)STR("1.5g", 21);
	b.limits.pids = (struct dsl_int){200, true, {22, 3}};
	return b;
}

static void test_whole(void **state)
{
	const struct dsl_sandbox b = whole_block();
	struct sandbox_block got;
	struct err e = ERR_INIT;

	(void)state;
	if (sandbox_block_load("x.bot", &b, &vars, origin, &got, &e) < 0)
		fail_msg("%s", e.msg);
	const struct sandbox_spec *s = &got.spec;
	assert_false(got.given.mode);
	assert_true(got.given.network && got.given.network_mode && got.given.tls_inspect && got.given.strict_sni);
	assert_string_equal(s->image, "debian:12");
	assert_string_equal(s->user, "1000:1000");
	assert_string_equal(s->workspace_folder, "/workspace");
	assert_int_equal(s->host_state, HOST_STATE_NONE);
	assert_string_equal(s->post_create, "npm ci");
	assert_int_equal(s->n_mounts, 2);
	assert_string_equal(s->mounts[0].source, "/home/u/.cache");
	assert_string_equal(s->mounts[0].origin, origin);
	assert_string_equal(s->mounts[1].source, "/workspace");
	assert_true(s->mounts[1].readonly);
	assert_string_equal(strv_get_env(&s->env, "WS"), "/workspace");
	assert_int_equal(s->network.mode, NETWORK_ALLOWLIST);
	assert_int_equal(s->network.presets.n, 1);
	assert_int_equal(s->network.rules.n, 2);
	assert_int_equal(s->network.tls_inspect, TLS_INSPECT_SECRETS);
	assert_true(s->network.strict_sni);
	assert_int_equal(s->n_secrets, 1);
	assert_string_equal(s->secrets[0].from, "env:TOKEN");
	assert_true(s->limits.cpus > 1.4 && s->limits.cpus < 1.6);
	assert_int_equal(s->limits.memory, 1536u << 20);
	assert_int_equal(s->limits.pids, 200);
	assert_string_equal(strv_get_env(&s->sources, "image"), origin);
	assert_string_equal(strv_get_env(&s->sources, "env.A"), origin);
	assert_string_equal(strv_get_env(&s->sources, "network.rules"), origin);
	assert_null(strv_get_env(&s->sources, "build"));
	assert_int_equal(sandbox_spec_check(s, false, &e), 0);
	sandbox_block_done(&got);
}

static void test_empty_and_short(void **state)
{
	const struct dsl_sandbox empty = {.pos = {1, 1}};
	const struct dsl_sandbox word = {.pos = {1, 1}, .short_form = true, .mode = {DSL_SANDBOX_AUTO, {1, 10}}};
	struct sandbox_block got;

	(void)state;
	assert_int_equal(sandbox_block_load("x.bot", &empty, &vars, origin, &got, NULL), 0);
	assert_false(got.given.mode || got.given.network);
	assert_null(got.spec.build.dockerfile);
	sandbox_block_done(&got);
	assert_int_equal(sandbox_block_load("x.bot", &word, &vars, origin, &got, NULL), 0);
	assert_true(got.given.mode);
	assert_int_equal(got.spec.mode, SANDBOX_AUTO);
	sandbox_block_done(&got);
}

static void test_build_defaults(void **state)
{
	struct dsl_sandbox b = {.pos = {1, 1}};
	struct sandbox_block got;

	(void)state;
	b.build.pos = (struct dsl_pos){2, 1};
	assert_int_equal(sandbox_block_load("x.bot", &b, &vars, origin, &got, NULL), 0);
	assert_string_equal(got.spec.build.dockerfile, "Dockerfile");
	assert_string_equal(got.spec.build.context, ".");
	sandbox_block_done(&got);
}

struct seen {
	struct dsl_pos pos[32];
	char msg[32][1100];
	size_t n;
};

static void collect(void *arg, struct dsl_pos pos, const struct err *e)
{
	struct seen *s = arg;

	assert_true(s->n < 32);
	assert_true(e->hint[0]);
	s->pos[s->n] = pos;
	(void)snprintf(s->msg[s->n++], sizeof s->msg[0], "%s", e->msg);
}

static struct dsl_str bad_mounts[] = {STR("type=bind,source=/a,target=b", 10), STR("/a:/b", 11), STR("a\0b", 12)};
static struct dsl_pair bad_env[] = {
	{STR("9A", 13), STR("1", 13)}, {STR("OK", 14), STR("a\nb", 14)}, {STR("A\0B", 15), STR("", 15)}};
static struct dsl_str bad_presets[] = {STR("llm", 16), STR("lml", 17)},
		      bad_rules[] = {STR("ok.example", 18), STR("a*b", 19)};
static struct dsl_str bad_hosts[] = {STR("*.example.com", 21)};
static struct dsl_secret bad_secrets[] = {
	{.name = STR("T", 20), .from = STR("hunter2", 20), .hosts = {bad_hosts, 1, {21, 3}}},
	{.name = STR("a b", 22)},
	{.name = STR("U", 23)},
};

static void test_every_problem_has_its_place(void **state)
{
	static const struct {
		uint32_t line;
		const char *field, *what;
	} want[] = {
		{2, "image", "begins with '-'"},
		{8, "build.dockerfile", "leaves the workspace"},
		{7, "build", "stand together"},
		{3, "user", "no user"},
		{4, "workspace_folder", "not an absolute"},
		{6, "post_create", "empty"},
		{10, "mounts", "not absolute"},
		{12, "mounts", "NUL"},
		{13, "env", "\"9A\" is no name"},
		{14, "env.OK", "line break"},
		{15, "env", "no name"},
		{17, "network.preset", "\"lml\""},
		{19, "network.rules", "wildcard inside"},
		{20, "secrets.T", "not known where"},
		{21, "secrets.T", "no host name"},
		{22, "secrets", "no name of a variable"},
		{23, "secrets.U", "not known where"},
		{23, "secrets.U", "no hosts"},
		{24, "limits.cpus", "out of range"},
		{25, "limits.memory", "unit is not known"},
		{26, "limits.pids", "out of range"},
	};
	struct dsl_sandbox b = {
		.image = STR("-debian", 2),
		.user = STR("a/b", 3),
		.workspace_folder = STR("workspace", 4),
		.post_create = STR(" ", 6),
		.mounts = {bad_mounts, 3, {10, 1}},
		.env = {bad_env, 3, {13, 1}},
		.secrets = bad_secrets,
		.n_secrets = 3,
	};
	struct seen seen = {.n = 0};
	struct sandbox_block got;
	struct err e = ERR_INIT;

	(void)state;
	b.build.pos = (struct dsl_pos){7, 1};
	b.build.dockerfile = (struct dsl_str)STR("../Dockerfile", 8);
	b.network.pos = (struct dsl_pos){16, 1};
	b.network.mode = (struct dsl_word){DSL_NETWORK_ALLOWLIST, {16, 3}};
	b.network.preset = (struct dsl_list){bad_presets, 2, {16, 1}};
	b.network.rules = (struct dsl_list){bad_rules, 2, {18, 1}};
	b.limits.cpus = (struct dsl_num){0, true, {24, 3}};
	b.limits.memory = (struct dsl_str)STR("12x", 25);
	b.limits.pids = (struct dsl_int){-1, true, {26, 3}};
	assert_int_equal(sandbox_block_read(&b, &vars, origin, &got, collect, &seen), ARRAY_LEN(want));
	sandbox_block_done(&got);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		char start[64];
		(void)snprintf(start, sizeof start, "sandbox %s: ", want[i].field);
		if (seen.pos[i].line != want[i].line || !str_starts(seen.msg[i], start) ||
		    !strstr(seen.msg[i], want[i].what))
			fail_msg("problem %zu: line %u: %s", i, (unsigned)seen.pos[i].line, seen.msg[i]);
	}
	assert_int_equal(sandbox_block_load("x.bot", &b, &vars, origin, &got, &e), -EINVAL);
	assert_true(str_starts(e.msg, "x.bot:2:3: sandbox image: "));
}

static void test_denylist_as_a_whole(void **state)
{
	struct dsl_str only[] = {STR("!evil.site", 4)};
	struct dsl_sandbox b = {.pos = {1, 1}};
	struct sandbox_block got;
	struct err e = ERR_INIT;

	(void)state;
	b.network.pos = (struct dsl_pos){2, 3};
	b.network.mode = (struct dsl_word){DSL_NETWORK_DENYLIST, {3, 3}};
	b.network.rules = (struct dsl_list){only, 1, {4, 1}};
	assert_int_equal(sandbox_block_load("x.bot", &b, &vars, origin, &got, &e), -EINVAL);
	assert_true(str_starts(e.msg, "x.bot:2:3: sandbox network: "));
}

static void test_memory(void **state)
{
	static const struct {
		const char *text;
		uint64_t want; /* 0: refused */
	} rows[] = {
		{"1073741824", 1u << 30},
		{"512m", 512u << 20},
		{"512M", 512u << 20},
		{"512mb", 512u << 20},
		{"512MiB", 512u << 20},
		{"2g", UINT64_C(2) << 30},
		{"1.5g", 1536u << 20},
		{"2 GiB", UINT64_C(2) << 30},
		{"1t", UINT64_C(1) << 40},
		{"8388608b", 8u << 20},
		{"1m", 0},
		{"", 0},
		{"g", 0},
		{"-1g", 0},
		{"1x", 0},
		{"1gg", 0},
		{"1e9", 0},
		{"99999999999999999999999t", 0},
		{"nan", 0},
		{"1g ", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct dsl_sandbox b = {.pos = {1, 1}};
		struct sandbox_block got;
		struct err e = ERR_INIT;
		b.limits.memory = (struct dsl_str){.s = rows[i].text, .len = strlen(rows[i].text)};
		int r = sandbox_block_load("x.bot", &b, &vars, origin, &got, &e);
		if (r != (rows[i].want ? 0 : -EINVAL) || (r == 0 && got.spec.limits.memory != rows[i].want))
			fail_msg("\"%s\": %d %s", rows[i].text, r, e.msg);
		if (r == 0)
			sandbox_block_done(&got);
	}
}

/* From the text of a workflow file, as a user writes it. */
static void test_from_text(void **state)
{
	static const char text_of_file[] = "tool t:\n"
					   "  command: \"true\"\n"
					   "  sandbox: none\n"
					   "\n"
					   "workflow x:\n"
					   "  entry: t\n"
					   "  sandbox:\n"
					   "    image: \"ghcr.io/acme/workflow-sandbox:sha256\"\n"
					   "    user: \"1000:1000\"\n"
					   "    host_state: auto\n"
					   "    env:\n"
					   "      NODE_ENV: \"test\"\n"
					   "    mounts: [\"type=bind,source=${localEnv:HOME}/.cache,target=/cache\"]\n"
					   "    network:\n"
					   "      mode: allowlist\n"
					   "      preset: \"iterion-default\"\n"
					   "      rules: [\"api.github.com\", \"a*b.com\"]\n"
					   "  t -> done\n";
	struct sandbox_block got;
	struct dsl_file *f = NULL;
	struct seen seen = {.n = 0};
	struct err e = ERR_INIT;

	(void)state;
	if (dsl_parse("x.bot", text_of_file, strlen(text_of_file), NULL, &f) < 0)
		fail_msg("%s", f->diags[0].message);
	assert_non_null(f->workflow->sandbox);
	assert_int_equal(sandbox_block_read(f->workflow->sandbox, &vars, origin, &got, collect, &seen), 1);
	assert_int_equal(seen.pos[0].line, 17);
	assert_string_equal(got.spec.user, "1000:1000");
	assert_string_equal(got.spec.mounts[0].source, "/home/u/.cache");
	assert_string_equal(strv_get_env(&got.spec.env, "NODE_ENV"), "test");
	assert_int_equal(got.spec.network.mode, NETWORK_ALLOWLIST);
	assert_string_equal(got.spec.network.presets.v[0], "iterion-default");
	sandbox_block_done(&got);
	assert_int_equal(sandbox_block_load("x.bot", f->workflow->sandbox, &vars, origin, &got, &e), -EINVAL);
	assert_true(str_starts(e.msg, "x.bot:17:"));
	dsl_file_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_empty_and_short),
		cmocka_unit_test(test_build_defaults),
		cmocka_unit_test(test_every_problem_has_its_place),
		cmocka_unit_test(test_denylist_as_a_whole),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_from_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
