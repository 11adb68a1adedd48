/* From flags, a file and the environment to the sandbox that a command starts: the one place where the resolver's
 * inputs are gathered, so that every command with these flags comes to the same answer. */
#include "sandbox_flags.h"
#include "network_flags.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <config.h>
#include <driver/driver.h>
#include <dsl/ast.h>
#include <dsl/node.h>
#include <sandbox/block.h>
#include <sandbox/devcontainer.h>
#include <sandbox/vars.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

const char *const sandbox_mode_words[] = {"auto", "inline", "none", NULL};
const char *const host_state_words[] = {"auto", "none", NULL};

/* A bad variable of the environment is the user's to mend, like a bad flag. */
static int as_usage(int r, struct err *e)
{
	if (r < 0 && e && e->kind != ERR_INPUT)
		err_set_kind(e, ERR_USAGE);
	return r;
}

/* The blocks of the workflow and of one of its nodes (NULL: the run as a whole). */
struct blocks {
	struct sandbox_block workflow, node;
	bool has_workflow, has_node;
};

static void blocks_done(struct blocks *b)
{
	sandbox_block_done(&b->workflow);
	sandbox_block_done(&b->node);
}

static int load_blocks(const struct sandbox_flags *f, const struct dsl_file *file, const struct dsl_node *node,
		       const char *workspace, struct blocks *ret, struct err *e)
{
	const struct dsl_sandbox *w = file && file->workflow ? file->workflow->sandbox : NULL;
	const struct dsl_sandbox *n = node ? node->sandbox : NULL;
	const struct sandbox_vars v = {
		.env = (const char *const *)environ,
		.workspace = f->project ? f->project : workspace,
		.container_workspace = w ? w->workspace_folder.s : NULL,
	};
	int r = 0;

	ret->has_workflow = w != NULL;
	ret->has_node = n != NULL;
	if (w)
		r = sandbox_block_load(file->name, w, &v, "workflow sandbox: block", &ret->workflow, e);
	if (r == 0 && file && n)
		r = sandbox_block_load(file->name, n, &v, "node sandbox: block", &ret->node, e);
	return r;
}

/* What --network, --preset and --rule add to what the file says. */
static void add_network(struct sandbox_network *n, const struct network_flags *f)
{
	bool more = f->presets.n || f->rules.n;

	if (f->mode)
		(void)network_mode_parse(f->mode, &n->mode);
	else if (more && n->mode == NETWORK_OPEN)
		n->mode = NETWORK_ALLOWLIST;
	for (size_t i = 0; i < f->presets.n; i++)
		strv_add(&n->presets, f->presets.v[i]);
	for (size_t i = 0; i < f->rules.n; i++)
		strv_add(&n->rules, f->rules.v[i]);
}

/* The driver decides whether an image is needed. noop runs the host's own programs, in its way. */
static int settle(const struct sandbox_flags *f, struct sandbox_choice *c, struct err *e)
{
	const struct driver *d;
	const char *reason;

	if (c->resolved.spec.mode == SANDBOX_NONE) {
		/* Nothing is made with it, but a name that is wrong is wrong. */
		int known = f->driver ? driver_choose(f->driver, false, &d, &reason, e) : 0;
		if (known < 0)
			return known;
		c->driver = "noop";
		c->driver_reason = "no sandbox is asked for";
		return as_usage(sandbox_settle(&c->resolved, true, e), e);
	}
	const struct sandbox_spec *spec = &c->resolved.spec;
	/* A block without an image asks for the host's own programs; in mode auto a container has the default image. */
	bool bare = spec->mode == SANDBOX_INLINE && !spec->image && !spec->build.dockerfile;
	int r = driver_choose(c->resolved.driver, bare, &d, &reason, e);
	if (r < 0)
		return r;
	c->driver = driver_name(d);
	c->driver_reason = c->resolved.driver ? c->resolved.driver_source : reason;
	bool host_toolchain = driver_caps(d)->host_toolchain || str_eq(c->driver, "noop");
	return as_usage(sandbox_settle(&c->resolved, host_toolchain, e), e);
}

/* The repository's devcontainer.json, when the sandbox is one of mode auto or the user named it. */
static int load_devcontainer(const struct sandbox_flags *f, const struct sandbox_inputs *in, const char *workspace,
			     struct sandbox_block *ret, bool *ret_there, struct err *e)
{
	enum sandbox_mode mode;
	int r = as_usage(sandbox_decide_mode(in, &mode, e), e);

	if (r < 0)
		return r;
	if (f->devcontainer && mode == SANDBOX_NONE && !str_eq(f->devcontainer, "none")) {
		r = err_set(e, ERR_USAGE, EINVAL, "--devcontainer: no sandbox is asked for that it could describe");
		err_hint(e, "add --sandbox=auto");
		return r;
	}
	if (mode != SANDBOX_AUTO && (!f->devcontainer || mode == SANDBOX_NONE))
		return 0;
	/* noop makes no container that a file could describe; it runs the host's programs as they are. */
	const char *driver = f->driver ? f->driver : in->env.driver;
	if (!f->devcontainer && driver && str_eq(driver, "noop"))
		return 0;
	return devcontainer_take(workspace, f->devcontainer, (const char *const *)environ,
				 in->workflow ? in->workflow->spec.workspace_folder : NULL, ret, ret_there, e);
}

static const char *set_in_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

struct sandbox_env sandbox_env_now(void)
{
	return (struct sandbox_env){
		.mode = set_in_env("ITERION_SANDBOX_DEFAULT"),
		.host_state = set_in_env("ITERION_SANDBOX_HOST_STATE"),
		.driver = set_in_env("ITERION_SANDBOX_DRIVER"),
		.default_image = set_in_env("ITERION_SANDBOX_DEFAULT_IMAGE"),
	};
}

/* What flags and environment say. */
static struct sandbox_inputs inputs(const struct sandbox_flags *f, const char *builtin_image)
{
	const struct sandbox_env env = f->env ? *f->env : sandbox_env_now();

	return (struct sandbox_inputs){
		.flag =
			{
				.mode = f->mode,
				.host_state = f->host_state,
				.driver = f->driver,
				.default_image = f->default_image,
			},
		.env =
			{
				.mode = env.mode,
				.host_state = env.host_state,
				.driver = env.driver,
				.default_image = env.default_image,
			},
		.builtin_image = builtin_image,
	};
}

static int resolve(const struct sandbox_flags *f, const struct network_flags *network, const struct blocks *blocks,
		   const char *workspace, struct sandbox_choice *ret, struct err *e)
{
	auto_sandbox_block devcontainer = {0};
	auto_free char *image = sandbox_builtin_image(ITERION_VERSION);
	struct sandbox_inputs in = inputs(f, image);

	in.workflow = blocks->has_workflow ? &blocks->workflow : NULL;
	in.node = blocks->has_node ? &blocks->node : NULL;
	int r = load_devcontainer(f, &in, workspace, &devcontainer, &ret->has_devcontainer, e);
	in.devcontainer = ret->has_devcontainer ? &devcontainer : NULL;
	if (r == 0)
		r = as_usage(sandbox_resolve(&in, &ret->resolved, e), e);
	if (r < 0)
		return r;
	if (network)
		add_network(&ret->resolved.spec.network, network);
	return settle(f, ret, e);
}

int sandbox_flags_resolve(const struct sandbox_flags *f, const struct network_flags *network,
			  const struct dsl_file *file, const char *workspace, struct sandbox_choice *ret, struct err *e)
{
	__attribute__((cleanup(blocks_done))) struct blocks blocks = {0};
	int r = load_blocks(f, file, NULL, workspace, &blocks, e);

	return r < 0 ? r : resolve(f, network, &blocks, workspace, ret, e);
}

int sandbox_flags_resolve_node(const struct sandbox_flags *f, const struct dsl_file *file, const struct dsl_node *node,
			       const char *workspace, struct sandbox_choice *ret, struct err *e)
{
	__attribute__((cleanup(blocks_done))) struct blocks blocks = {0};
	int r = load_blocks(f, file, node, workspace, &blocks, e);

	if (r == 0)
		r = resolve(f, NULL, &blocks, workspace, ret, e);
	return r < 0 ? err_wrap(e, r, "node %s", node->name.s) : 0;
}

int sandbox_flags_defaults(const struct sandbox_flags *f, struct sandbox_resolved *ret, struct err *e)
{
	auto_free char *image = sandbox_builtin_image(ITERION_VERSION);
	const struct sandbox_inputs in = inputs(f, image);

	return as_usage(sandbox_resolve(&in, ret, e), e);
}

void sandbox_choice_done(struct sandbox_choice *c)
{
	sandbox_resolved_done(&c->resolved);
}
