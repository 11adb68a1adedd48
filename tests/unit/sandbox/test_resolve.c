/* Precedence: every combination of flag, blocks and environment against the rules of the specification, and merging. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/block.h>
#include <sandbox/resolve.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char flag_source[] = "cli flag --sandbox", env_source[] = "ITERION_SANDBOX_DEFAULT";
static const char workflow_source[] = "workflow sandbox: block", node_source[] = "node sandbox: block";

/* Blocks by a word: "none", "auto", "inline", "inherit" are modes without anything else; "image" and "env" have no mode
 * and that one value. */
static bool make(const char *kind, const char *source, struct sandbox_block *ret)
{
	*ret = (struct sandbox_block){0};
	if (!kind)
		return false;
	ret->given.mode = sandbox_mode_parse(kind, &ret->spec.mode) == 0;
	if (str_eq(kind, "image") || str_eq(kind, "inline"))
		ret->spec.image = xasprintf("image-of-%.4s", source);
	if (str_eq(kind, "env"))
		strv_set_env(&ret->spec.env, "X", source);
	ret->spec.mode_source = xstrdup(source);
	return true;
}

static int resolve(const char *flag, const char *workflow, const char *node, const char *env,
		   struct sandbox_resolved *ret, struct err *e)
{
	struct sandbox_block w, n;
	struct sandbox_inputs in = {.flag.mode = flag, .env.mode = env, .builtin_image = "builtin:1"};

	if (make(workflow, workflow_source, &w))
		in.workflow = &w;
	if (make(node, node_source, &n))
		in.node = &n;
	int r = sandbox_resolve(&in, ret, e);
	sandbox_block_done(&w);
	sandbox_block_done(&n);
	return r;
}

/* The rules without a node, first match decides; "*": any, NULL: not given. */
static const struct {
	const char *flag, *workflow, *env;
	const char *mode, *source;
} run_rules[] = {
	/* --sandbox=none always wins */
	{"none", "*", "*", "none", flag_source},
	/* --sandbox=auto keeps a block that describes a sandbox */
	{"auto", "inline", "*", "inline", workflow_source},
	{"auto", "image", "*", "inline", workflow_source},
	{"auto", "env", "*", "inline", workflow_source},
	{"auto", "*", "*", "auto", flag_source},
	/* no word of the flag: the block; without a mode it is inline */
	{"-", "none", "*", "none", workflow_source},
	{"-", "auto", "*", "auto", workflow_source},
	{"-", "inline", "*", "inline", workflow_source},
	{"-", "image", "*", "inline", workflow_source},
	{"-", "env", "*", "inline", workflow_source},
	/* no block, or one that inherits: the environment */
	{"-", "-", "none", "none", env_source},
	{"-", "-", "auto", "auto", env_source},
	{"-", "-", "-", "none", "default"},
};

/* "-" stands for not given, and for the word that says the same. */
static bool matches(const char *pattern, const char *value)
{
	if (str_eq(pattern, "*"))
		return true;
	if (str_eq(pattern, "-"))
		return !value || str_eq(value, "inherit") || !*value;
	return str_eq(pattern, value);
}

struct answer {
	const char *mode, *source;
};

static struct answer expected_run(const char *flag, const char *workflow, const char *env)
{
	for (size_t i = 0; i < ARRAY_LEN(run_rules); i++)
		if (matches(run_rules[i].flag, flag) && matches(run_rules[i].workflow, workflow) &&
		    matches(run_rules[i].env, env))
			return (struct answer){run_rules[i].mode, run_rules[i].source};
	fail_msg("no rule for %s, %s, %s", flag, workflow, env);
	return (struct answer){NULL, NULL};
}

static bool is_one_of(const char *s, const char *a, const char *b, const char *c)
{
	return str_eq(s, a) || str_eq(s, b) || str_eq(s, c);
}

static struct answer expected(const char *flag, const char *workflow, const char *node, const char *env)
{
	struct answer run = expected_run(flag, workflow, env);

	if (!node || str_eq(node, "inherit"))
		return run;
	if (str_eq(node, "none"))
		return (struct answer){"none", node_source};
	if (str_eq(node, "auto"))
		return (struct answer){is_one_of(workflow, "inline", "image", "env") ? "inline" : "auto", node_source};
	if (str_eq(node, "inline") || str_eq(node, "image"))
		return (struct answer){"inline", node_source};
	/* Only values: they change the run's sandbox, or make one where nobody spoke of sandboxes. */
	return str_eq(run.source, "default") ? (struct answer){"inline", node_source} : run;
}

static void test_mode_matrix(void **state)
{
	static const char *const flags[] = {NULL, "none", "auto", "inherit"};
	static const char *const workflows[] = {NULL, "none", "auto", "inline", "inherit", "image", "env"};
	static const char *const nodes[] = {NULL, "none", "auto", "inline", "inherit", "image", "env"};
	static const char *const envs[] = {NULL, "", "none", "auto", "inherit"};
	size_t combinations = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(flags) * ARRAY_LEN(workflows) * ARRAY_LEN(nodes) * ARRAY_LEN(envs); i++) {
		size_t k = i;
		const char *flag = flags[k % ARRAY_LEN(flags)];
		k /= ARRAY_LEN(flags);
		const char *workflow = workflows[k % ARRAY_LEN(workflows)];
		k /= ARRAY_LEN(workflows);
		const char *node = nodes[k % ARRAY_LEN(nodes)];
		k /= ARRAY_LEN(nodes);
		const char *env = envs[k];
		struct answer want = expected(flag, workflow, node, env);
		auto_sandbox_resolved got = {0};
		struct err e = ERR_INIT;
		if (resolve(flag, workflow, node, env, &got, &e) < 0)
			fail_msg("flag %s, workflow %s, node %s, env %s: %s", flag, workflow, node, env, e.msg);
		if (!str_eq(sandbox_mode_name(got.spec.mode), want.mode) || !str_eq(got.spec.mode_source, want.source))
			fail_msg("flag %s, workflow %s, node %s, env %s: %s by %s, not %s by %s", flag, workflow, node,
				 env, sandbox_mode_name(got.spec.mode), got.spec.mode_source, want.mode, want.source);
		/* An inactive sandbox has no values, an active one with a node's image that image. */
		if (got.spec.mode == SANDBOX_NONE)
			assert_null(got.spec.image);
		else if (str_eq(node, "image") || str_eq(node, "inline"))
			assert_string_equal(got.spec.image, "image-of-node");
		else if (str_eq(workflow, "image") || str_eq(workflow, "inline"))
			assert_string_equal(got.spec.image, "image-of-work");
		else
			assert_null(got.spec.image);
		combinations++;
	}
	assert_true(combinations >= 900);
}

static void test_bad_words(void **state)
{
	static const struct {
		const char *flag, *workflow, *env, *in_msg, *in_hint;
	} rows[] = {
		{"atuo", NULL, NULL, "cli flag --sandbox: \"atuo\"", "\"auto\""},
		{"yes", NULL, NULL, "no sandbox mode", "auto or none"},
		{"", "image", NULL, "no sandbox mode", NULL},
		{"inline", NULL, NULL, "needs a sandbox: block", "--sandbox=auto"},
		{"inline", "auto", NULL, "needs a sandbox: block", NULL},
		{NULL, NULL, "on", "ITERION_SANDBOX_DEFAULT", NULL},
		{NULL, NULL, "inline", "a variable has none", NULL},
	};
	auto_sandbox_resolved fine = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sandbox_resolved got;
		struct err e = ERR_INIT;
		assert_int_equal(resolve(rows[i].flag, rows[i].workflow, NULL, rows[i].env, &got, &e), -EINVAL);
		assert_int_equal(e.kind, ERR_USAGE);
		if (!strstr(e.msg, rows[i].in_msg) || !e.hint[0] ||
		    (rows[i].in_hint && !strstr(e.hint, rows[i].in_hint)))
			fail_msg("row %zu: %s (%s)", i, e.msg, e.hint);
	}
	/* What does not decide does no harm. */
	assert_int_equal(resolve("auto", NULL, NULL, "bogus", &fine, NULL), 0);
}

static void test_host_state(void **state)
{
	static const struct {
		const char *flag;
		enum host_state workflow, node;
		const char *env;
		enum host_state want;
		const char *source;
	} rows[] = {
		{NULL, HOST_STATE_UNSET, HOST_STATE_UNSET, NULL, HOST_STATE_AUTO, "default"},
		{NULL, HOST_STATE_UNSET, HOST_STATE_UNSET, "", HOST_STATE_AUTO, "default"},
		{NULL, HOST_STATE_UNSET, HOST_STATE_UNSET, "none", HOST_STATE_NONE, "ITERION_SANDBOX_HOST_STATE"},
		{NULL, HOST_STATE_AUTO, HOST_STATE_UNSET, "none", HOST_STATE_AUTO, "workflow sandbox: block"},
		{NULL, HOST_STATE_NONE, HOST_STATE_UNSET, "auto", HOST_STATE_NONE, "workflow sandbox: block"},
		{NULL, HOST_STATE_NONE, HOST_STATE_AUTO, NULL, HOST_STATE_AUTO, "node sandbox: block"},
		{NULL, HOST_STATE_UNSET, HOST_STATE_NONE, "auto", HOST_STATE_NONE, "node sandbox: block"},
		{"none", HOST_STATE_AUTO, HOST_STATE_AUTO, "auto", HOST_STATE_NONE, "cli flag --sandbox-host-state"},
		{"auto", HOST_STATE_NONE, HOST_STATE_UNSET, "none", HOST_STATE_AUTO, "cli flag --sandbox-host-state"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_sandbox_block w = {0};
		auto_sandbox_block n = {0};
		(void)make("image", workflow_source, &w);
		(void)make("env", node_source, &n);
		w.spec.host_state = rows[i].workflow;
		w.spec.host_state_source = xstrdup(workflow_source);
		n.spec.host_state = rows[i].node;
		n.spec.host_state_source = xstrdup(node_source);
		const struct sandbox_inputs in = {
			.flag.host_state = rows[i].flag, .env.host_state = rows[i].env, .workflow = &w, .node = &n};
		auto_sandbox_resolved got = {0};
		assert_int_equal(sandbox_resolve(&in, &got, NULL), 0);
		assert_int_equal(got.spec.host_state, rows[i].want);
		assert_string_equal(got.spec.host_state_source, rows[i].source);
	}
	const struct sandbox_inputs bad = {.flag.host_state = "full"}, bad_env = {.env.host_state = "full"};
	struct sandbox_resolved got;
	struct err e = ERR_INIT;
	assert_int_equal(sandbox_resolve(&bad, &got, &e), -EINVAL);
	assert_true(str_starts(e.msg, "cli flag --sandbox-host-state"));
	assert_int_equal(sandbox_resolve(&bad_env, &got, &e), -EINVAL);
	assert_true(str_starts(e.msg, "ITERION_SANDBOX_HOST_STATE"));
}

static void test_driver_and_default_image(void **state)
{
	static const struct {
		const char *flag, *env, *want_driver, *driver_source, *want_image, *image_source;
	} rows[] = {
		{NULL, NULL, NULL, "what this host has", "builtin:1", "default image of this version"},
		{NULL, "", NULL, "what this host has", "builtin:1", "default image of this version"},
		{NULL, "e", "e", "ITERION_SANDBOX_DRIVER", "e", "ITERION_SANDBOX_DEFAULT_IMAGE"},
		{"f", "e", "f", "cli flag --sandbox-driver", "f", "cli flag --sandbox-default-image"},
		{"f", NULL, "f", "cli flag --sandbox-driver", "f", "cli flag --sandbox-default-image"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct sandbox_inputs in = {.flag = {NULL, NULL, rows[i].flag, rows[i].flag},
						  .env = {NULL, NULL, rows[i].env, rows[i].env},
						  .builtin_image = "builtin:1"};
		auto_sandbox_resolved got = {0};
		assert_int_equal(sandbox_resolve(&in, &got, NULL), 0);
		assert_true(str_eq(got.driver, rows[i].want_driver));
		assert_string_equal(got.driver_source, rows[i].driver_source);
		assert_string_equal(got.default_image, rows[i].want_image);
		assert_string_equal(got.default_image_source, rows[i].image_source);
	}
	const struct sandbox_inputs empty = {.flag.driver = ""};
	struct sandbox_resolved got;
	assert_int_equal(sandbox_resolve(&empty, &got, NULL), -EINVAL);
}

static void test_settle(void **state)
{
	static const struct {
		const char *flag, *workflow, *chosen, *builtin;
		bool host_toolchain;
		const char *image; /* "": an error, NULL: none */
		const char *source;
	} rows[] = {
		{"auto", NULL, NULL, "b:1", false, "b:1", "default image of this version"},
		{"auto", NULL, NULL, "b:1", true, NULL, "none: the host's own toolchain, read-only"},
		{"auto", NULL, "mine:1", "b:1", true, "mine:1", "cli flag --sandbox-default-image"},
		{"auto", NULL, "mine:1", "b:1", false, "mine:1", "cli flag --sandbox-default-image"},
		{"auto", NULL, "-mine", "b:1", false, "", NULL},
		{"auto", NULL, NULL, NULL, false, "", NULL},
		{"auto", NULL, NULL, NULL, true, NULL, "none: the host's own toolchain, read-only"},
		{NULL, "image", "mine:1", "b:1", false, "image-of-work", NULL},
		{NULL, "auto", NULL, "b:1", false, "b:1", "default image of this version"},
		{NULL, "env", NULL, "b:1", false, "", NULL}, /* inline without image */
		{NULL, "env", NULL, "b:1", true, NULL, "none: the host's own toolchain, read-only"},
		{"none", "image", NULL, "b:1", false, NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sandbox_block w;
		bool has = make(rows[i].workflow, workflow_source, &w);
		const struct sandbox_inputs in = {.flag = {rows[i].flag, NULL, NULL, rows[i].chosen},
						  .workflow = has ? &w : NULL,
						  .builtin_image = rows[i].builtin};
		auto_sandbox_resolved got = {0};
		struct err e = ERR_INIT;
		assert_int_equal(sandbox_resolve(&in, &got, &e), 0);
		int r = sandbox_settle(&got, rows[i].host_toolchain, &e);
		bool fails = rows[i].image && !*rows[i].image;
		if (r != (fails ? -EINVAL : 0))
			fail_msg("row %zu: %d %s", i, r, e.msg);
		if (fails)
			assert_true(e.hint[0]);
		else
			assert_true(str_eq(got.spec.image, rows[i].image));
		if (rows[i].source)
			assert_string_equal(strv_get_env(&got.spec.sources, "image"), rows[i].source);
		sandbox_block_done(&w);
	}
}

static void test_builtin_image(void **state)
{
	static const char *const rows[][2] = {
		{"1.2.3", "v1.2.3"}, {"v1.2.3", "v1.2.3"}, {"1.2.3-dev", "edge"}, {"0.1.0+g12ab", "edge"}, {"", "edge"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = sandbox_builtin_image(rows[i][0]);
		assert_true(str_starts(got, "ghcr.io/socialgouv/iterion-sandbox-slim:"));
		assert_true(str_ends(got, rows[i][1]));
	}
}

/* A block with everything that a node may lay over. */
static void make_full(struct sandbox_block *b, const char *source, bool image)
{
	struct sandbox_spec *s = &b->spec;

	(void)make(image ? "image" : "env", source, b);
	s->user = xstrdup("1000");
	s->post_create = xstrdup("make deps");
	s->workspace_folder = xstrdup("/w");
	strv_set_env(&s->env, "X", source);
	strv_set_env(&s->env, "KEEP", "1");
	strv_set_env(&s->sources, "user", source);
	strv_set_env(&s->sources, "env.X", source);
	strv_set_env(&s->sources, "network.rules", source);
	*sandbox_spec_add_mount(s) = (struct sandbox_mount){
		.type = MOUNT_BIND, .source = xstrdup("/a"), .target = xstrdup("/t"), .origin = xstrdup(source)};
	struct sandbox_secret *x = sandbox_spec_add_secret(s);
	x->name = xstrdup("TOKEN");
	x->from = xstrdup("env:TOKEN");
	strv_add(&x->hosts, "a.example");
	s->limits = (struct sandbox_limits){.cpus = 2, .memory = 1 << 30};
	s->network.mode = NETWORK_ALLOWLIST;
	s->network.tls_inspect = TLS_INSPECT_SECRETS;
	strv_add(&s->network.presets, "llm");
	strv_add(&s->network.rules, "a.example");
	b->given.network = b->given.network_mode = b->given.tls_inspect = true;
}

static void test_node_values_over_workflow(void **state)
{
	auto_sandbox_block w = {0};
	auto_sandbox_block n = {0};
	auto_sandbox_resolved got = {0};
	struct err e = ERR_INIT;

	(void)state;
	make_full(&w, workflow_source, true);
	(void)make("env", node_source, &n);
	strv_set_env(&n.spec.sources, "env.X", node_source);
	*sandbox_spec_add_mount(&n.spec) =
		(struct sandbox_mount){.type = MOUNT_TMPFS, .target = xstrdup("/t"), .origin = xstrdup(node_source)};
	*sandbox_spec_add_mount(&n.spec) =
		(struct sandbox_mount){.type = MOUNT_TMPFS, .target = xstrdup("/u"), .origin = xstrdup(node_source)};
	n.spec.limits.cpus = 4;
	n.given.network = true;
	strv_add(&n.spec.network.rules, "!b.example");
	const struct sandbox_inputs in = {.workflow = &w, .node = &n};
	if (sandbox_resolve(&in, &got, &e) < 0)
		fail_msg("%s", e.msg);
	const struct sandbox_spec *s = &got.spec;
	assert_int_equal(s->mode, SANDBOX_INLINE);
	assert_string_equal(s->mode_source, workflow_source);
	assert_string_equal(s->image, "image-of-work");
	assert_string_equal(s->user, "1000");
	assert_string_equal(strv_get_env(&s->env, "X"), node_source);
	assert_string_equal(strv_get_env(&s->env, "KEEP"), "1");
	assert_string_equal(strv_get_env(&s->sources, "env.X"), node_source);
	assert_string_equal(strv_get_env(&s->sources, "user"), workflow_source);
	assert_int_equal(s->n_mounts, 2);
	assert_int_equal(s->mounts[0].type, MOUNT_TMPFS);
	assert_string_equal(s->mounts[0].target, "/t");
	assert_string_equal(s->mounts[1].target, "/u");
	assert_true(s->limits.cpus > 3 && s->limits.memory == 1 << 30);
	assert_int_equal(s->network.mode, NETWORK_ALLOWLIST);
	assert_int_equal(s->network.tls_inspect, TLS_INSPECT_SECRETS);
	assert_int_equal(s->network.rules.n, 2);
	assert_string_equal(s->network.rules.v[1], "!b.example");
	assert_int_equal(s->n_secrets, 1);
}

/* A node's own image starts anew, but not out of the workflow's policy. */
static void test_own_image_keeps_the_policy(void **state)
{
	auto_sandbox_block w = {0};
	auto_sandbox_block n = {0};
	auto_sandbox_resolved got = {0};

	(void)state;
	make_full(&w, workflow_source, true);
	w.spec.host_state = HOST_STATE_NONE;
	w.spec.host_state_source = xstrdup(workflow_source);
	(void)make("image", node_source, &n);
	const struct sandbox_inputs in = {.workflow = &w, .node = &n};
	assert_int_equal(sandbox_resolve(&in, &got, NULL), 0);
	const struct sandbox_spec *s = &got.spec;
	assert_string_equal(s->image, "image-of-node");
	assert_null(s->user);
	assert_null(s->post_create);
	assert_null(s->workspace_folder);
	assert_int_equal(s->env.n, 0);
	assert_int_equal(s->n_mounts, 0);
	assert_null(strv_get_env(&s->sources, "user"));
	assert_int_equal(s->network.mode, NETWORK_ALLOWLIST);
	assert_string_equal(s->network.rules.v[0], "a.example");
	assert_string_equal(strv_get_env(&s->sources, "network.rules"), workflow_source);
	assert_int_equal(s->n_secrets, 1);
	assert_int_equal(s->limits.memory, 1 << 30);
	assert_int_equal(s->host_state, HOST_STATE_NONE);
}

static void test_build_and_image_replace_each_other(void **state)
{
	auto_sandbox_block w = {0};
	auto_sandbox_block n = {0};
	auto_sandbox_resolved one = {0};
	auto_sandbox_resolved two = {0};

	(void)state;
	(void)make("image", workflow_source, &w);
	(void)make("inherit", node_source, &n);
	n.spec.build.dockerfile = xstrdup("Dockerfile");
	strv_add(&n.spec.build.args, "A=1");
	const struct sandbox_inputs in = {.workflow = &w, .node = &n}, turned = {.workflow = &n, .node = &w};
	assert_int_equal(sandbox_resolve(&in, &one, NULL), 0);
	assert_null(one.spec.image);
	assert_string_equal(one.spec.build.args.v[0], "A=1");
	assert_int_equal(sandbox_settle(&one, false, NULL), 0);
	assert_int_equal(sandbox_resolve(&turned, &two, NULL), 0);
	assert_null(two.spec.build.dockerfile);
	assert_int_equal(two.spec.build.args.n, 0);
	assert_int_equal(sandbox_settle(&two, false, NULL), 0);
}

/* Networks: the workflow's over nothing, then the node's over it. mode NULL: none written; rules: one, or NULL. */
static const struct {
	const char *w_mode, *w_rule, *n_mode, *n_rule;
	enum network_inherit inherit;
	const char *want; /* mode and rules; NULL: an error */
} networks[] = {
	{NULL, NULL, "-", NULL, NETWORK_MERGE, "open"},
	{"allowlist", "a.example", "-", NULL, NETWORK_MERGE, "allowlist a.example"},
	{NULL, "a.example", "-", NULL, NETWORK_MERGE, "allowlist a.example"},
	{"open", "a.example", "-", NULL, NETWORK_MERGE, "open a.example"},
	{"allowlist", "a.example", NULL, "b.example", NETWORK_MERGE, "allowlist a.example b.example"},
	{"allowlist", "a.example", NULL, "b.example", NETWORK_APPEND, "allowlist a.example b.example"},
	{"allowlist", "a.example", NULL, "b.example", NETWORK_REPLACE, "allowlist b.example"},
	{"allowlist", "a.example", "allowlist", "b.example", NETWORK_MERGE, "allowlist a.example b.example"},
	{"allowlist", "a.example", "denylist", "b.example", NETWORK_MERGE, NULL},
	{"allowlist", "a.example", "denylist", "b.example", NETWORK_REPLACE, "denylist b.example"},
	{"denylist", "a.example", "allowlist", "b.example", NETWORK_MERGE, NULL},
	{"denylist", "a.example", NULL, "b.example", NETWORK_MERGE, "denylist a.example b.example"},
	{"allowlist", "a.example", "open", NULL, NETWORK_MERGE, NULL},
	{"allowlist", "a.example", "open", NULL, NETWORK_REPLACE, "open"},
	{"allowlist", "a.example", NULL, NULL, NETWORK_REPLACE, "open"},
	{"open", NULL, NULL, "b.example", NETWORK_MERGE, "allowlist b.example"},
	{"open", NULL, "learn", NULL, NETWORK_MERGE, "learn"},
	{"allowlist", NULL, NULL, "b.example", NETWORK_MERGE, "allowlist b.example"},
	{"learn", NULL, NULL, "b.example", NETWORK_MERGE, "learn b.example"},
};

static void set_network(struct sandbox_block *b, const char *mode, const char *rule)
{
	if (str_eq(mode, "-"))
		return;
	b->given.network = true;
	b->given.network_mode = mode != NULL;
	if (mode)
		assert_int_equal(network_mode_parse(mode, &b->spec.network.mode), 0);
	if (rule)
		strv_add(&b->spec.network.rules, rule);
}

static void test_networks(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(networks); i++) {
		auto_sandbox_block w = {0};
		auto_sandbox_block n = {0};
		auto_sandbox_resolved got = {0};
		struct err e = ERR_INIT;
		(void)make("image", workflow_source, &w);
		(void)make("env", node_source, &n);
		set_network(&w, networks[i].w_mode, networks[i].w_rule);
		set_network(&n, networks[i].n_mode, networks[i].n_rule);
		n.spec.network.inherit = networks[i].inherit;
		const struct sandbox_inputs in = {.workflow = &w, .node = &n};
		int r = sandbox_resolve(&in, &got, &e);
		if (!networks[i].want) {
			assert_int_equal(r, -EINVAL);
			assert_non_null(strstr(e.hint, "inherit: replace"));
			continue;
		}
		assert_int_equal(r, 0);
		auto_free char *text = xstrdup(network_mode_name(got.spec.network.mode));
		for (size_t k = 0; k < got.spec.network.rules.n; k++) {
			char *longer = xasprintf("%s %s", text, got.spec.network.rules.v[k]);
			free(text);
			text = longer;
		}
		if (!str_eq(text, networks[i].want))
			fail_msg("row %zu: %s, not %s", i, text, networks[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mode_matrix),
		cmocka_unit_test(test_bad_words),
		cmocka_unit_test(test_host_state),
		cmocka_unit_test(test_driver_and_default_image),
		cmocka_unit_test(test_settle),
		cmocka_unit_test(test_builtin_image),
		cmocka_unit_test(test_node_values_over_workflow),
		cmocka_unit_test(test_own_image_keeps_the_policy),
		cmocka_unit_test(test_build_and_image_replace_each_other),
		cmocka_unit_test(test_networks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
