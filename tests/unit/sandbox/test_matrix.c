/* Which sandbox comes of every combination of flag, blocks, environment, devcontainer.json, default image and driver.
 * The tables below are written from the specification, as rows of which the first that matches decides; nothing of the
 * resolver is used to make them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/block.h>
#include <sandbox/resolve.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char by_flag[] = "cli flag --sandbox", by_env[] = "ITERION_SANDBOX_DEFAULT", by_default[] = "default";
static const char by_workflow[] = "workflow sandbox: block", by_node[] = "node sandbox: block";
static const char by_file[] = "devcontainer.json";

/* One combination; "" is not given. */
struct combination {
	const char *flag, *workflow, *node, *env, *file, *image, *driver;
};
static const char *const flags[] = {"", "none", "auto"};
/* "auto-env" and "env" give a variable, "image" an image, "inline" the mode and no more. */
static const char *const workflows[] = {"", "none", "auto", "auto-env", "inline", "image", "env"};
static const char *const nodes[] = {"", "none", "auto", "image", "env"};
static const char *const envs[] = {"", "none", "auto"};
static const char *const files[] = {"", "env", "image"};
static const char *const images[] = {"", "chosen:1"};
/* "host": it runs the host's own programs; "engine": it needs an image. */
static const char *const drivers[] = {"host", "engine"};

/* A pattern is "*", or words separated by '|'; "-" is not given. */
static bool matches(const char *pattern, const char *value)
{
	size_t len = strlen(value);

	if (str_eq(pattern, "*"))
		return true;
	if (!*value) {
		value = "-";
		len = 1;
	}
	for (const char *p = pattern; *p; p += *p == '|') {
		size_t n = strcspn(p, "|");
		if (n == len && strncmp(p, value, n) == 0)
			return true;
		p += n;
	}
	return false;
}

/* Node block > --sandbox > workflow block > ITERION_SANDBOX_DEFAULT > none; auto keeps a block that describes more. */
static const struct {
	const char *node, *flag, *workflow, *env;
	const char *mode, *source;
} mode_rules[] = {
	{"none", "*", "*", "*", "none", by_node},
	{"image", "*", "*", "*", "inline", by_node},
	{"auto", "*", "inline|image|env", "*", "inline", by_node},
	{"auto", "*", "*", "*", "auto", by_node},
	{"*", "none", "*", "*", "none", by_flag},
	{"*", "auto", "inline|image|env", "*", "inline", by_workflow},
	{"*", "auto", "*", "*", "auto", by_flag},
	{"*", "-", "none", "*", "none", by_workflow},
	{"*", "-", "auto|auto-env", "*", "auto", by_workflow},
	{"*", "-", "inline|image|env", "*", "inline", by_workflow},
	{"*", "-", "-", "none", "none", by_env},
	{"*", "-", "-", "auto", "auto", by_env},
	/* Nobody spoke of sandboxes but the node. */
	{"env", "-", "-", "-", "inline", by_node},
	{"-", "-", "-", "-", "none", by_default},
};

/* The image by the mode; NULL: none, "!": an error. devcontainer.json counts in mode auto only. */
static const struct {
	const char *mode, *node, *workflow, *file, *image, *driver;
	const char *want, *source;
} image_rules[] = {
	{"none", "*", "*", "*", "*", "*", NULL, NULL},
	{"*", "image", "*", "*", "*", "*", "image-of-node", by_node},
	{"*", "*", "image", "*", "*", "*", "image-of-workflow", by_workflow},
	{"auto", "*", "*", "image", "*", "*", "image-of-file", by_file},
	{"auto", "*", "*", "*", "chosen:1", "*", "chosen:1", "cli flag --sandbox-default-image"},
	{"auto|inline", "*", "*", "*", "*", "host", NULL, "none: the host's own toolchain, read-only"},
	{"auto", "*", "*", "*", "-", "engine", "builtin:1", "default image of this version"},
	{"inline", "*", "*", "*", "*", "engine", "!", NULL},
};

static void set(struct sandbox_block *b, const char *field, const char *source)
{
	strv_set_env(&b->spec.sources, field, source);
}

static bool make(const char *kind, const char *who, const char *source, struct sandbox_block *ret)
{
	*ret = (struct sandbox_block){0};
	if (!*kind)
		return false;
	const char *mode = str_eq(kind, "auto-env") ? "auto" : kind;
	ret->given.mode = sandbox_mode_parse(mode, &ret->spec.mode) == 0;
	if (str_eq(kind, "image")) {
		ret->spec.image = xasprintf("image-of-%s", who);
		set(ret, "image", source);
	}
	if (str_ends(kind, "env"))
		strv_set_env(&ret->spec.env, who, "1");
	ret->spec.mode_source = xstrdup(source);
	return true;
}

/* As a command does it: the mode first, since devcontainer.json is looked for in mode auto only; then all of it; then,
 * by what the driver can, the image. */
static int resolve(const struct combination *c, struct sandbox_resolved *ret, struct err *e)
{
	struct sandbox_block w, n, f;
	enum sandbox_mode mode;
	struct sandbox_inputs in = {
		.flag = {.mode = *c->flag ? c->flag : NULL, .default_image = *c->image ? c->image : NULL},
		.env.mode = c->env,
		.builtin_image = "builtin:1",
	};

	in.workflow = make(c->workflow, "workflow", by_workflow, &w) ? &w : NULL;
	in.node = make(c->node, "node", by_node, &n) ? &n : NULL;
	bool there = make(c->file, "file", by_file, &f);
	int r = sandbox_decide_mode(&in, &mode, e);
	if (r == 0 && there && mode == SANDBOX_AUTO)
		in.devcontainer = &f;
	if (r == 0)
		r = sandbox_resolve(&in, ret, e);
	if (r == 0)
		r = sandbox_settle(ret, str_eq(c->driver, "host"), e);
	sandbox_block_done(&w);
	sandbox_block_done(&n);
	sandbox_block_done(&f);
	return r;
}

static size_t mode_rule(const struct combination *c)
{
	for (size_t i = 0; i < ARRAY_LEN(mode_rules); i++)
		if (matches(mode_rules[i].node, c->node) && matches(mode_rules[i].flag, c->flag) &&
		    matches(mode_rules[i].workflow, c->workflow) && matches(mode_rules[i].env, c->env))
			return i;
	fail_msg("no rule for the mode");
	return 0;
}

static size_t image_rule(const struct combination *c, const char *mode)
{
	for (size_t i = 0; i < ARRAY_LEN(image_rules); i++)
		if (matches(image_rules[i].mode, mode) && matches(image_rules[i].node, c->node) &&
		    matches(image_rules[i].workflow, c->workflow) && matches(image_rules[i].file, c->file) &&
		    matches(image_rules[i].image, c->image) && matches(image_rules[i].driver, c->driver))
			return i;
	fail_msg("no rule for the image");
	return 0;
}

/* Whose variables are there: a node's own image starts anew. */
static void check_env(const struct combination *c, const struct sandbox_spec *s, const char *shown)
{
	bool none = s->mode == SANDBOX_NONE, anew = str_eq(c->node, "image");
	const struct {
		const char *name;
		bool want;
	} rows[] = {
		{"node", !none && str_eq(c->node, "env")},
		{"workflow", !none && !anew && str_ends(c->workflow, "env")},
		{"file", s->mode == SANDBOX_AUTO && !anew && str_eq(c->file, "env")},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((strv_get_env(&s->env, rows[i].name) != NULL) != rows[i].want)
			fail_msg("%s: the variable of the %s is %s", shown, rows[i].name,
				 rows[i].want ? "missing" : "there");
}

static void check(const struct combination *c, unsigned *mode_used, unsigned *image_used)
{
	char shown[256];
	size_t m = mode_rule(c), k = image_rule(c, mode_rules[m].mode);
	bool fails = str_eq(image_rules[k].want, "!");
	auto_sandbox_resolved got = {0};
	struct err e = ERR_INIT;

	(void)snprintf(shown, sizeof shown, "flag '%s' workflow '%s' node '%s' env '%s' file '%s' image '%s' driver %s",
		       c->flag, c->workflow, c->node, c->env, c->file, c->image, c->driver);
	mode_used[m]++;
	image_used[k]++;
	int r = resolve(c, &got, &e);
	if ((r < 0) != fails)
		fail_msg("%s: %d %s", shown, r, e.msg);
	if (fails) {
		if (r != -EINVAL || !strstr(e.msg, "image") || !*e.hint)
			fail_msg("%s: %s (%s)", shown, e.msg, e.hint);
		return;
	}
	const struct sandbox_spec *s = &got.spec;
	if (!str_eq(sandbox_mode_name(s->mode), mode_rules[m].mode) || !str_eq(s->mode_source, mode_rules[m].source))
		fail_msg("%s: %s by %s", shown, sandbox_mode_name(s->mode), s->mode_source);
	if (!str_eq(s->image, image_rules[k].want) ||
	    !str_eq(strv_get_env(&s->sources, "image"), image_rules[k].source))
		fail_msg("%s: image %s by %s", shown, s->image ? s->image : "none",
			 strv_get_env(&s->sources, "image") ? strv_get_env(&s->sources, "image") : "nobody");
	check_env(c, s, shown);
}

static void test_every_combination(void **state)
{
	static const struct {
		const char *const *v;
		size_t n;
	} axes[] = {
		{flags, ARRAY_LEN(flags)},     {workflows, ARRAY_LEN(workflows)}, {nodes, ARRAY_LEN(nodes)},
		{envs, ARRAY_LEN(envs)},       {files, ARRAY_LEN(files)},	  {images, ARRAY_LEN(images)},
		{drivers, ARRAY_LEN(drivers)},
	};
	unsigned mode_used[ARRAY_LEN(mode_rules)] = {0}, image_used[ARRAY_LEN(image_rules)] = {0};
	size_t total = 1;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(axes); i++)
		total *= axes[i].n;
	for (size_t i = 0; i < total; i++) {
		const char *word[ARRAY_LEN(axes)];
		size_t rest = i;
		for (size_t a = 0; a < ARRAY_LEN(axes); a++) {
			word[a] = axes[a].v[rest % axes[a].n];
			rest /= axes[a].n;
		}
		const struct combination c = {word[0], word[1], word[2], word[3], word[4], word[5], word[6]};
		check(&c, mode_used, image_used);
	}
	assert_int_equal(total, 3780);
	/* A rule that nothing reaches says nothing. */
	for (size_t i = 0; i < ARRAY_LEN(mode_rules); i++)
		if (!mode_used[i])
			fail_msg("mode rule %zu decides nothing", i);
	for (size_t i = 0; i < ARRAY_LEN(image_rules); i++)
		if (!image_used[i])
			fail_msg("image rule %zu decides nothing", i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_combination),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
