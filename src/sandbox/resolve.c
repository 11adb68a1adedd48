/* Which sandbox a run or a node gets.
 *
 * Everybody's say is an input of one struct, so that this is a pure function and its table can be tested whole. Mode:
 * the node's block, then --sandbox, then the workflow's block, then ITERION_SANDBOX_DEFAULT, then none. Two statements
 * of one wish do not override each other: --sandbox=auto over a block that describes a sandbox keeps the block, and so
 * does a node's auto. Values come from devcontainer.json, with the workflow's block laid over it and the node's over
 * both; flags and environment name modes and defaults, never values.
 *
 * A node that brings an image of its own starts anew but for what the workflow allows (network, secrets, limits, host
 * state): a node must not get out of its workflow's network policy by naming another image.
 *
 * Every decision keeps a phrase that says whose it was. Words of flags and variables are looked at only when they
 * decide, so a bad variable that a flag overrides does no harm. */
#include "overlay.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/resolve.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char flag_mode[] = "cli flag --sandbox";
static const char env_mode[] = "ITERION_SANDBOX_DEFAULT";
static const char workflow_block[] = "workflow sandbox: block";
static const char node_block[] = "node sandbox: block";
static const char by_default[] = "default";

struct decision {
	enum sandbox_mode mode;
	const char *source;
};

static const char *given(const char *word)
{
	return word && *word ? word : NULL;
}

static bool has_origin(const struct sandbox_block *b)
{
	return b->spec.image || b->spec.build.dockerfile;
}

/* Whether the workflow's block describes a sandbox: also when it gives no mode. */
static bool is_inline(const struct sandbox_block *b)
{
	return b && (b->given.mode ? b->spec.mode == SANDBOX_INLINE : true);
}

/* A mode as a flag or variable names it. */
static int parse_mode(const char *word, const char *source, enum sandbox_mode *ret, struct err *e)
{
	static const char *const words[] = {"auto", "none", "inherit", "inline"};

	if (sandbox_mode_parse(word, ret) == 0)
		return 0;
	const char *near = str_nearest(word, words, ARRAY_LEN(words));
	int r = err_set(e, ERR_USAGE, EINVAL, "%s: \"%.60s\" is no sandbox mode", source, word);
	if (near)
		err_hint(e, "did you mean \"%s\"?", near);
	else
		err_hint(e, "write auto or none");
	return r;
}

static int decide_by_flag(const struct sandbox_inputs *in, struct decision *ret, struct err *e)
{
	enum sandbox_mode mode;

	if (!in->flag.mode)
		return 0;
	int r = parse_mode(in->flag.mode, flag_mode, &mode, e);
	if (r < 0)
		return r;
	if (mode == SANDBOX_INLINE && !is_inline(in->workflow)) {
		r = err_set(e, ERR_USAGE, EINVAL, "%s: inline needs a sandbox: block in the workflow", flag_mode);
		err_hint(e, "write the block, or use --sandbox=auto");
		return r;
	}
	if (mode == SANDBOX_AUTO && is_inline(in->workflow))
		*ret = (struct decision){SANDBOX_INLINE, workflow_block};
	else
		*ret = (struct decision){mode, flag_mode};
	return 0;
}

static int decide_by_env(const struct sandbox_inputs *in, struct decision *ret, struct err *e)
{
	const char *word = given(in->env.mode);
	enum sandbox_mode mode;

	if (!word)
		return 0;
	int r = parse_mode(word, env_mode, &mode, e);
	if (r < 0)
		return r;
	if (mode == SANDBOX_INLINE) {
		r = err_set(e, ERR_USAGE, EINVAL, "%s: inline needs a block, and a variable has none", env_mode);
		err_hint(e, "set it to auto or none");
		return r;
	}
	*ret = (struct decision){mode, env_mode};
	return 0;
}

/* The mode without the node's block; INHERIT never comes out. */
static int decide_run(const struct sandbox_inputs *in, struct decision *ret, struct err *e)
{
	struct decision d = {SANDBOX_INHERIT, NULL};

	int r = decide_by_flag(in, &d, e);
	if (r == 0 && d.mode == SANDBOX_INHERIT && in->workflow)
		d = (struct decision){is_inline(in->workflow) ? SANDBOX_INLINE : in->workflow->spec.mode,
				      workflow_block};
	if (r == 0 && d.mode == SANDBOX_INHERIT)
		r = decide_by_env(in, &d, e);
	if (r < 0)
		return r;
	*ret = d.mode == SANDBOX_INHERIT ? (struct decision){SANDBOX_NONE, by_default} : d;
	return 0;
}

static struct decision decide_node(const struct sandbox_inputs *in, struct decision run)
{
	const struct sandbox_block *n = in->node;

	if (n->given.mode && n->spec.mode == SANDBOX_INHERIT)
		return run;
	if (n->given.mode && n->spec.mode == SANDBOX_AUTO && is_inline(in->workflow) && !has_origin(n))
		return (struct decision){SANDBOX_INLINE, node_block};
	if (n->given.mode)
		return (struct decision){n->spec.mode, node_block};
	/* Without a mode: its own image makes it a sandbox of its own; anything else changes the run's, or makes one
	 * when nobody said anything about sandboxes. */
	if (has_origin(n) || run.source == by_default)
		return (struct decision){SANDBOX_INLINE, node_block};
	return run;
}

bool sandbox_host_state_is_default(const struct sandbox_spec *s)
{
	return s->host_state_source && str_eq(s->host_state_source, by_default);
}

static int decide_host_state(const struct sandbox_inputs *in, struct sandbox_spec *s, struct err *e)
{
	const char *word = in->flag.host_state, *source = "cli flag --sandbox-host-state";

	if (!word && s->host_state != HOST_STATE_UNSET)
		return 0;
	if (!word) {
		word = given(in->env.host_state);
		source = "ITERION_SANDBOX_HOST_STATE";
	}
	if (!word) {
		word = "auto";
		source = by_default;
	}
	if (host_state_parse(word, &s->host_state) < 0) {
		int r = err_set(e, ERR_USAGE, EINVAL, "%s: \"%.60s\" is no host state", source, word);
		err_hint(e,
			 "write auto to share ~/.iterion, ~/.claude and package caches with the sandbox, none not to");
		return r;
	}
	free(s->host_state_source);
	s->host_state_source = xstrdup(source);
	return 0;
}

/* Flag, then environment, then the fallback; NULL when there is none. */
static const char *choose(const char *flag, const char *flag_source, const char *env, const char *env_source,
			  const char *fallback, const char *fallback_source, const char **ret_source)
{
	if (flag) {
		*ret_source = flag_source;
		return flag;
	}
	*ret_source = given(env) ? env_source : fallback_source;
	return given(env) ? env : fallback;
}

static int choose_names(const struct sandbox_inputs *in, struct sandbox_resolved *ret, struct err *e)
{
	if ((in->flag.driver && !*in->flag.driver) || (in->flag.default_image && !*in->flag.default_image)) {
		int r = err_set(e, ERR_USAGE, EINVAL, "%s: it is empty",
				in->flag.driver && !*in->flag.driver ? "--sandbox-driver" : "--sandbox-default-image");
		err_hint(e, "give it a value, or leave the flag out");
		return r;
	}
	const char *driver = choose(in->flag.driver, "cli flag --sandbox-driver", in->env.driver,
				    "ITERION_SANDBOX_DRIVER", NULL, "what this host has", &ret->driver_source);
	const char *image = choose(in->flag.default_image, "cli flag --sandbox-default-image", in->env.default_image,
				   "ITERION_SANDBOX_DEFAULT_IMAGE", in->builtin_image, "default image of this version",
				   &ret->default_image_source);
	ret->driver = driver ? xstrdup(driver) : NULL;
	ret->default_image = image ? xstrdup(image) : NULL;
	ret->default_image_chosen = image && image != in->builtin_image;
	return 0;
}

static int merge_blocks(const struct sandbox_inputs *in, struct sandbox_block *ret, struct err *e)
{
	int r = in->devcontainer ? sandbox_overlay(ret, in->devcontainer, e) : 0;

	if (r == 0 && in->workflow)
		r = sandbox_overlay(ret, in->workflow, e);
	if (r < 0 || !in->node)
		return r;
	if (has_origin(in->node) && !(in->node->given.mode && in->node->spec.mode == SANDBOX_INHERIT))
		sandbox_overlay_drop_content(ret);
	return sandbox_overlay(ret, in->node, e);
}

static int decide(const struct sandbox_inputs *in, struct decision *ret, struct err *e)
{
	int r = decide_run(in, ret, e);

	if (r == 0 && in->node)
		*ret = decide_node(in, *ret);
	return r;
}

int sandbox_decide_mode(const struct sandbox_inputs *in, enum sandbox_mode *ret, struct err *e)
{
	struct decision d;
	int r = decide(in, &d, e);

	if (r == 0)
		*ret = d.mode;
	return r;
}

static int fill(const struct sandbox_inputs *in, struct sandbox_resolved *ret, struct err *e)
{
	auto_sandbox_block merged = {0};
	struct decision d;

	int r = decide(in, &d, e);
	/* Of a sandbox that is not made nothing else matters, also not whether it could be. */
	if (r == 0 && d.mode != SANDBOX_NONE)
		r = merge_blocks(in, &merged, e);
	if (r == 0)
		r = decide_host_state(in, &merged.spec, e);
	if (r == 0)
		r = choose_names(in, ret, e);
	if (r < 0)
		return r;
	merged.spec.mode = d.mode;
	free(merged.spec.mode_source);
	merged.spec.mode_source = xstrdup(d.source);
	ret->spec = merged.spec;
	merged.spec = (struct sandbox_spec){0};
	return 0;
}

int sandbox_resolve(const struct sandbox_inputs *in, struct sandbox_resolved *ret, struct err *e)
{
	struct sandbox_resolved out = {0};
	int r = fill(in, &out, e);

	if (r < 0) {
		sandbox_resolved_done(&out);
		return r;
	}
	*ret = out;
	return 0;
}

int sandbox_settle(struct sandbox_resolved *r, bool host_toolchain, struct err *e)
{
	struct sandbox_spec *s = &r->spec;
	bool bare = s->mode != SANDBOX_NONE && !s->image && !s->build.dockerfile;

	if (bare && s->mode == SANDBOX_AUTO && r->default_image && (r->default_image_chosen || !host_toolchain)) {
		s->image = xstrdup(r->default_image);
		strv_set_env(&s->sources, "image", r->default_image_source);
	} else if (bare && host_toolchain) {
		strv_set_env(&s->sources, "image", "none: the host's own toolchain, read-only");
	} else if (bare && s->mode == SANDBOX_AUTO) {
		int bad = err_set(e, ERR_SANDBOX, EINVAL, "sandbox: mode auto found no image");
		err_hint(e, "give one with --sandbox-default-image or ITERION_SANDBOX_DEFAULT_IMAGE");
		return bad;
	}
	return sandbox_spec_check(s, host_toolchain, e);
}

void sandbox_resolved_done(struct sandbox_resolved *r)
{
	sandbox_spec_done(&r->spec);
	free(r->driver);
	free(r->default_image);
	*r = (struct sandbox_resolved){0};
}

char *sandbox_builtin_image(const char *version)
{
	const char *digits = version + (*version == 'v');

	/* A release is numbers and dots; anything behind them (-dev, +g1234) was never published. */
	if (!*digits || digits[strspn(digits, "0123456789.")])
		return xstrdup("ghcr.io/socialgouv/iterion-sandbox-slim:edge");
	return xasprintf("ghcr.io/socialgouv/iterion-sandbox-slim:v%s", digits);
}
