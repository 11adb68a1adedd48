/* The start of a container: its image, then the container (make.c).
 *
 * The image is built from the workspace's Dockerfile, or named. The container is made at once, and beside that the
 * image is looked at: its digest goes into the record, its environment to every program. When the engine does not have
 * the image, `run` fails for that reason; it is pulled then, and both are done again. The sandbox is ready when the
 * guest is and the look is over. */
#include "args.h"
#include "build.h"
#include "container_priv.h"
#include "proxy_env.h"
#include "words.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/spec.h>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { ANSWER_LIMIT = 1024 * 1024, LOOK_MS = 30 * 1000, PULL_TELL_MS = 500 };

void container_fail(struct container *c, const struct cli_result *r, const char *what)
{
	struct err e = ERR_INIT;
	int bad = words_explain(c->engine, r, c->image, &e);

	(void)err_wrap(&e, bad, "%s", what);
	container_lost(c, &e);
}

int container_step(struct container *c, const struct strv *argv, const struct cli_opts *more, cli_done_cb done,
		   struct err *e)
{
	struct cli_opts o = *more;

	o.argv = (const char *const *)argv->v;
	o.out_limit = ANSWER_LIMIT;
	int r = cli_start(c->loop, &o, done, c, &c->step, e);
	if (r == 0)
		c->busy++;
	return r;
}

int container_step_words(struct container *c, const char *const *words, const struct cli_opts *more, cli_done_cb done,
			 struct err *e)
{
	auto_strv argv = {0};

	strv_add(&argv, c->program);
	for (; *words; words++)
		strv_add(&argv, *words);
	return container_step(c, &argv, more, done, e);
}

bool container_step_ended(struct container *c)
{
	c->step = NULL;
	return !c->over;
}

/* Who the programs are, when that was decided here. */
static void tell_user(const struct container *c)
{
	const struct args_facts f = {.uid = getuid(), .gid = getgid()};

	if (!args_remaps_user(c->p, &f))
		return;
	json_t *d = json_object();
	json_put_int(d, "uid", f.uid);
	json_put_int(d, "gid", f.gid);
	json_put_str(d, "reason",
		     "host_state is auto and no user is named: what programs write there stays the user's");
	container_emit(c, "sandbox_user_remap", d);
}

/* The image is there: what it is and what it gives every program. */
static void take_image(struct container *c, const struct cli_result *r)
{
	struct image_facts facts;

	c->looked = true;
	if (c->base.image_digest || c->base.env.n || image_parse(r->out, r->out_len, &facts) < 0)
		return;
	c->base.image_digest = TAKE_PTR(facts.digest);
	c->base.env = facts.env;
	facts.env = (struct strv){0};
	if (c->p->enforce_network)
		proxy_env_drop(&c->base.env);
	image_facts_done(&facts);
}

static int look(struct container *c, struct err *e);

/* That the engine has no such image is told by `run` too, which then has it pulled. */
static void on_looked(void *arg, const struct cli_result *r)
{
	struct container *c = arg;
	struct err e = ERR_INIT;

	c->look = NULL;
	if (!c->over && cli_ok(r)) {
		take_image(c, r);
		if (c->guest_ready)
			container_ready(c, c->listeners, c->n_listeners);
	} else if (!c->over && words_classify(r->err) != WORDS_IMAGE_NOT_FOUND) {
		container_fail(c, r, "look for the sandbox's image");
	} else if (!c->over && c->pulled && look(c, &e) < 0) {
		container_lost(c, &e);
	}
	container_idle(c);
}

static int look(struct container *c, struct err *e)
{
	const char *const argv[] = {c->program, "image", "inspect", "--format", image_format, c->image, NULL};
	const struct cli_opts o = {.argv = argv, .stdin_fd = -1, .out_limit = ANSWER_LIMIT, .timeout_ms = LOOK_MS};
	int r = cli_start(c->loop, &o, on_looked, c, &c->look, e);

	if (r == 0)
		c->busy++;
	return r;
}

/* The container is made while its image is looked at: neither needs the other, and most images are there. */
static int make_and_look(struct container *c, struct err *e)
{
	int r = c->look ? 0 : look(c, e);

	return r < 0 ? r : container_make(c, e);
}

static void tell_pull(struct container *c, const char *layer)
{
	json_t *d = json_object();

	json_put_str(d, "image", c->image);
	json_put_str(d, "layer", layer);
	json_put_int(d, "current", (long long)c->pull.n_done);
	json_put_int(d, "total", (long long)c->pull.n);
	container_emit(c, "sandbox_pull_progress", d);
}

static void on_pull_line(void *arg, const char *line)
{
	struct container *c = arg;
	const char *layer;
	uint64_t now = clock_ms();

	if (!pull_count_line(&c->pull, line, &layer) || now - c->pull_told_ms < PULL_TELL_MS)
		return;
	c->pull_told_ms = now;
	tell_pull(c, layer);
}

static void on_pulled(void *arg, const struct cli_result *r)
{
	struct container *c = arg;
	struct err e = ERR_INIT;

	if (container_step_ended(c)) {
		c->pulled = true;
		if (!cli_ok(r)) {
			auto_free char *what = xasprintf("pull the image %s", c->image);
			container_fail(c, r, what);
		} else if (make_and_look(c, &e) < 0) {
			container_lost(c, &e);
		}
	}
	container_idle(c);
}

void container_pull(struct container *c)
{
	const char *const pull[] = {"pull", c->image, NULL};
	const struct cli_opts o = {.stdin_fd = -1, .on_line = on_pull_line, .line_arg = c};
	struct err e = ERR_INIT;

	if (container_step_words(c, pull, &o, on_pulled, &e) < 0)
		container_lost(c, &e);
}

static void on_built_event(void *arg, const char *type, json_t *data)
{
	container_emit(arg, type, json_incref(data));
}

static void on_built(void *arg, const char *image, const struct err *why)
{
	struct container *c = arg;
	struct err e = ERR_INIT;

	c->build = NULL;
	if (!c->over && !image) {
		container_lost(c, why);
	} else if (!c->over) {
		c->image = xstrdup(image);
		c->pulled = true; /* a registry does not have it */
		if (make_and_look(c, &e) < 0)
			container_lost(c, &e);
	}
	container_idle(c);
}

static int build(struct container *c, struct err *e)
{
	const struct build_params bp = {
		.loop = c->loop,
		.engine = c->engine,
		.program = c->program,
		.spec = &c->p->spec->build,
		.workspace = c->p->workspace,
		.hidden = c->p->hidden,
		.on_event = on_built_event,
		.done = on_built,
		.arg = c,
	};
	int r = build_start(&bp, &c->build, e);

	if (r == 0)
		c->busy++;
	return r;
}

int container_start(struct container *c, struct err *e)
{
	int r = 0;

	tell_user(c);
	if (engine_is_remote(c->engine))
		r = container_without_guest(c, "the engine is on another machine", e);
	if (r < 0)
		return r;
	return c->image ? make_and_look(c, e) : build(c, e);
}
