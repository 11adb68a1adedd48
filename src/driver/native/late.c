/* A sandbox whose image is fetched first.
 *
 * It stands in the place of the real one until that exists, and hands everything on to it from then: the session knows
 * one sandbox from beginning to end. Until then a stop ends the fetch, and nothing else is asked of it. */
#include "late.h"
#include "../ops.h"
#include "image.h"

#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <stdlib.h>

struct late {
	struct sandbox base;
	const struct sandbox_params *p;
	struct sandbox_callbacks cb;
	uv_loop_t *loop;
	struct native_fetch *fetch; /* under way */
	struct sandbox *real;	    /* NULL: not yet */
	void (*stopped)(void *arg, bool killed);
	void *stopped_arg;
};

static void on_progress(void *arg, const char *layer, unsigned long long current, unsigned long long total)
{
	const struct late *l = arg;
	auto_json d = json_object();

	json_put_str(d, "image", l->p->spec->image);
	json_put_str(d, "layer", layer);
	json_put_int(d, "current", (long long)current);
	json_put_int(d, "total", (long long)total);
	if (l->cb.on_event && !l->stopped)
		l->cb.on_event(l->cb.arg, "sandbox_pull_progress", d);
}

/* What the real one knows of its image is looked for here. */
static void on_ready(void *arg, const int *listeners, size_t n)
{
	struct late *l = arg;

	l->base.image_digest = l->real->image_digest;
	l->base.env = l->real->env;
	l->cb.on_ready(l->cb.arg, listeners, n);
}

static void on_lost(void *arg, const struct err *e)
{
	const struct late *l = arg;

	l->cb.on_lost(l->cb.arg, e);
}

static void on_event(void *arg, const char *type, json_t *data)
{
	const struct late *l = arg;

	if (l->cb.on_event)
		l->cb.on_event(l->cb.arg, type, data);
}

static int make(struct late *l, struct err *e)
{
	const struct sandbox_callbacks cb = {.on_ready = on_ready, .on_lost = on_lost, .on_event = on_event, .arg = l};
	struct native_image image = {.image.hold = -1};

	int r = native_image_find(l->p, &image, e);
	if (r == -ENOENT) {
		r = err_set(e, ERR_SANDBOX, ENOENT,
			    "image %s: it was removed from the store, or changed, right after it "
			    "was fetched",
			    l->p->spec->image);
		err_hint(e, "Run it again when nobody prunes the store or writes the image.");
	}
	if (r == 0) {
		r = native_new(l->p, &image, &l->real, e);
		native_image_done(&image);
	}
	return r < 0 ? r : l->real->ops->start(l->real, l->loop, &cb, e);
}

static void on_fetched(void *arg, const struct err *e)
{
	struct late *l = arg;
	struct err why = ERR_INIT;

	l->fetch = NULL;
	if (l->stopped)
		l->stopped(l->stopped_arg, false);
	else if (e)
		l->cb.on_lost(l->cb.arg, e);
	else if (make(l, &why) < 0)
		l->cb.on_lost(l->cb.arg, &why);
}

static int start(struct sandbox *s, uv_loop_t *loop, const struct sandbox_callbacks *cb, struct err *e)
{
	struct late *l = (struct late *)s;
	const struct native_fetch_callbacks fetch = {.on_progress = on_progress, .on_done = on_fetched, .arg = l};

	l->loop = loop;
	l->cb = *cb;
	return native_fetch_start(loop, l->p, &fetch, &l->fetch, e);
}

static int exec_late(struct sandbox *s, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		     struct err *e)
{
	const struct late *l = (struct late *)s;

	return l->real->ops->exec(l->real, o, done, arg, ret, e);
}

static int open_terminal(struct sandbox *s)
{
	const struct late *l = (struct late *)s;

	return l->real->ops->open_terminal(l->real);
}

static void stop(struct sandbox *s, void (*done)(void *arg, bool killed), void *arg)
{
	struct late *l = (struct late *)s;

	if (l->real) {
		l->real->ops->stop(l->real, done, arg);
	} else if (l->fetch) {
		l->stopped = done;
		l->stopped_arg = arg;
		native_fetch_kill(l->fetch);
	} else {
		done(arg, false);
	}
}

static void free_late(struct sandbox *s)
{
	struct late *l = (struct late *)s;

	if (l->real)
		l->real->ops->free(l->real);
	free(l);
}

static const struct sandbox_ops ops = {
	.start = start, .exec = exec_late, .open_terminal = open_terminal, .stop = stop, .free = free_late};

int late_new(const struct sandbox_params *p, struct sandbox **ret, struct err *e)
{
	struct native_image image = {.image.hold = -1};

	int r = native_image_find(p, &image, e);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0) {
		r = native_new(p, &image, ret, e);
		native_image_done(&image);
		return r;
	}
	struct late *l = xcalloc(1, sizeof *l);
	l->base.ops = &ops;
	l->p = p;
	*ret = &l->base;
	return 0;
}
