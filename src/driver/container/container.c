/* The docker and podman drivers: a sandbox made by a container engine, through its command-line program.
 *
 * One code path; what differs is in the engines' table (engine.c). start.c makes the container; from then on the guest
 * inside serves execs over the channel as in every sandbox, and the engine has no part in them. The container's death
 * shows as the channel's end. Stopping is one `rm --force`, which kills PID 1 and waits for nothing; it is tried even
 * when the container is not known to exist. When the engine does not answer any more, the guest is told to end by
 * itself.
 *
 * What runs on the loop is counted (busy): a stop is over when the last of it is gone. */
#include "container_priv.h"
#include "../guest_path.h"
#include "args.h"
#include "build.h"
#include "control.h"
#include "leftovers.h"
#include "mounts.h"
#include "remote.h"
#include "words.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/log.h>
#include <base/mem.h>
#include <base/str.h>
#include <guest/protocol.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REMOVE_MS = 60 * 1000, MADE_MS = 10 * 1000 };

void container_name(struct container *c)
{
	static unsigned n_made;

	free(c->name);
	c->name = args_name(c->p->run_id, ++n_made);
}

void container_emit(const struct container *c, const char *type, json_t *data)
{
	if (c->cb.on_event)
		c->cb.on_event(c->cb.arg, type, data);
	json_decref(data);
}

void container_warn(const struct container *c, const char *code, const char *message)
{
	json_t *d = json_object();

	json_put_str(d, "code", code);
	json_put_str(d, "message", message);
	container_emit(c, "sandbox_warning", d);
}

void container_lost(struct container *c, const struct err *e)
{
	if (c->over)
		return;
	c->over = true;
	if (c->step && !c->step_makes)
		cli_signal(c->step, SIGKILL);
	engine_exec_lose_all(c);
	c->cb.on_lost(c->cb.arg, e);
}

static void on_channel_freed(void *arg)
{
	const struct container *c = arg;

	c->stopped(c->stopped_arg, c->killed);
}

static void check_stopped(struct container *c)
{
	if (!c->stopped || c->busy > 0)
		return;
	if (c->channel)
		channel_free(TAKE_PTR(c->channel), on_channel_freed, c);
	else
		c->stopped(c->stopped_arg, c->killed);
}

void container_idle(struct container *c)
{
	c->busy--;
	check_stopped(c);
}

static void on_removed(void *arg, const struct cli_result *r)
{
	struct container *c = arg;

	if (!cli_ok(r) && words_classify(r->err) != WORDS_NO_CONTAINER) {
		struct err e = ERR_INIT;
		(void)words_explain(c->engine, r, NULL, &e);
		log_warn("remove the container %s: %s. It ends by itself; remove it with `%s rm -f %s`.", c->name,
			 e.msg, c->engine->program, c->name);
		if (c->channel)
			channel_end(c->channel);
	}
	container_close_control(c);
	container_idle(c);
}

static void on_control_freed(void *arg)
{
	container_idle(arg);
}

void container_close_control(struct container *c)
{
	if (c->control)
		control_free(TAKE_PTR(c->control), on_control_freed, c);
}

void container_remove(struct container *c)
{
	auto_strv argv = {0};
	struct err e = ERR_INIT;

	/* A guest that has connected runs in a container that is made, whatever `run` has still to say. */
	bool half_made = c->step_makes && !c->ready;
	if (!c->made || !c->stopped || c->removing || half_made)
		return;
	c->removing = true;
	strv_add(&argv, c->program);
	for (size_t i = 0; i < ARRAY_LEN(c->engine->remove) && c->engine->remove[i]; i++)
		strv_add(&argv, c->engine->remove[i]);
	strv_add(&argv, c->name);
	const struct cli_opts o = {
		.argv = (const char *const *)argv.v, .stdin_fd = -1, .out_limit = 4096, .timeout_ms = REMOVE_MS};
	if (cli_start(c->loop, &o, on_removed, c, NULL, &e) == 0) {
		c->busy++;
		return;
	}
	log_warn("remove the container %s: %s", c->name, e.msg);
	container_close_control(c);
	if (c->channel)
		channel_end(c->channel);
}

static void on_swept(void *arg, size_t n, const struct err *e)
{
	(void)e;
	if (n)
		log_info("removed %zu container%s of runs that were killed", n, n == 1 ? "" : "s");
	container_idle(arg);
}

void container_ready(struct container *c, const int *listeners, size_t n)
{
	if (!c->looked) {
		c->guest_ready = true;
		for (size_t i = 0; i < n; i++)
			c->listeners[i] = listeners[i];
		c->n_listeners = n;
		return;
	}
	c->guest_ready = false;
	c->n_listeners = 0;
	c->ready = true;
	/* What killed runs left is removed beside this run's work; only its end waits for it. */
	if (leftovers_sweep(c->loop, c->engine, c->program, on_swept, c, NULL) == 0)
		c->busy++;
	c->cb.on_ready(c->cb.arg, listeners, n);
}

static int start(struct sandbox *s, uv_loop_t *loop, const struct sandbox_callbacks *cb, struct err *e)
{
	struct container *c = (struct container *)s;

	c->loop = loop;
	c->cb = *cb;
	return container_start(c, e);
}

static int exec_container(struct sandbox *s, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
			  struct err *e)
{
	struct container *c = (struct container *)s;

	if (c->over || !c->ready)
		return err_set(e, ERR_SANDBOX, ESHUTDOWN, "start %s: the sandbox has ended", o->argv[0]);
	return !c->channel     ? engine_exec_start(c, o, done, arg, ret, e)
	       : c->counters.n ? limited_exec(c->channel, &c->counters, &c->p->spec->limits, o, done, arg, ret, e)
			       : channel_exec(c->channel, o, done, arg, ret, e);
}

/* In the container's own devpts, so that the terminal has a name there; without a guest the engine makes one inside and
 * ours is between it and us. */
static int open_terminal(struct sandbox *s)
{
	const struct container *c = (struct container *)s;
	int fd = c->channel ? openat(c->terminals, "ptmx", O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
			    : open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

static void stop(struct sandbox *s, void (*done)(void *arg, bool killed), void *arg)
{
	struct container *c = (struct container *)s;

	c->stopped = done;
	c->stopped_arg = arg;
	c->killed = c->channel && channel_busy(c->channel);
	c->over = true;
	/* Itself, so that nothing below ends the stop before all of it was begun. */
	c->busy++;
	if (c->step && !c->step_makes)
		cli_signal(c->step, SIGKILL);
	if (c->look)
		cli_signal(c->look, SIGKILL);
	if (c->build)
		build_cancel(c->build);
	/* Cut off half-way it might make the container after it was removed, so it is waited for, but not for long. */
	if (c->step_makes)
		cli_limit(c->step, MADE_MS);
	if (c->control)
		control_hold(c->control);
	if (!c->made)
		container_close_control(c);
	engine_exec_lose_all(c);
	if (c->channel)
		channel_close(c->channel);
	container_remove(c);
	container_idle(c);
}

static void free_container(struct sandbox *s)
{
	struct container *c = (struct container *)s;

	if (c->channel)
		channel_free(c->channel, NULL, NULL);
	for (size_t i = 0; i < c->n_listeners; i++)
		close_quietly(c->listeners[i]);
	close_quietly(c->env_fd);
	close_quietly(c->terminals);
	limit_counters_close(&c->counters);
	pull_count_done(&c->pull);
	free(c->base.image_digest);
	free(c->base.proxy_host);
	strv_done(&c->base.env);
	free(c->program);
	free(c->guest);
	free(c->name);
	free(c->image);
	free(c);
}

static const struct sandbox_ops ops = {
	.start = start, .exec = exec_container, .open_terminal = open_terminal, .stop = stop, .free = free_container};

static int container_new(const struct container_engine *en, const struct sandbox_params *p, struct sandbox **ret,
			 struct err *e)
{
	auto_free char *program = NULL;
	auto_free char *guest = NULL;

	int r = engine_find(en, &program, e);
	if (r == 0)
		r = guest_path_find(&guest, e);
	if (r < 0)
		return r;
	if (!p->spec->image && !p->spec->build.dockerfile) {
		r = err_set(e, ERR_INPUT, EINVAL, "make the sandbox: the %s driver needs an image", en->name);
		err_hint(e, "Add image: or build: to the sandbox block, or use --sandbox-driver=native.");
		return r;
	}
	struct container *c = xcalloc(1, sizeof *c);
	*c = (struct container){
		.base = {.ops = &ops},
		.engine = en,
		.p = p,
		.program = TAKE_PTR(program),
		.guest = TAKE_PTR(guest),
		.image = p->spec->image ? xstrdup(p->spec->image) : NULL,
		.env_fd = -1,
		.terminals = -1,
	};
	container_name(c);
	*ret = &c->base;
	return 0;
}

#define CONTAINER_DRIVER(id)                                                                                           \
	static int id##_probe(struct err *e)                                                                           \
	{                                                                                                              \
		return engine_probe(&engine_##id, e);                                                                  \
	}                                                                                                              \
	static int id##_new(const struct sandbox_params *p, struct sandbox **ret, struct err *e)                       \
	{                                                                                                              \
		return container_new(&engine_##id, p, ret, e);                                                         \
	}                                                                                                              \
	static int id##_check(const struct sandbox_params *p, bool *ret_offered, struct err *e)                        \
	{                                                                                                              \
		return remote_check(&engine_##id, p, ret_offered, e);                                                  \
	}                                                                                                              \
	static int id##_sweep(size_t *ret_n, struct err *e)                                                            \
	{                                                                                                              \
		return leftovers_sweep_now(&engine_##id, ret_n, e);                                                    \
	}                                                                                                              \
	static int id##_mounts(const struct sandbox_params *p, json_t *list, struct err *e)                            \
	{                                                                                                              \
		return container_list_mounts(&engine_##id, p, list, e);                                                \
	}                                                                                                              \
	static int id##_list(json_t *rows, struct err *e)                                                              \
	{                                                                                                              \
		return leftovers_list_now(&engine_##id, rows, e);                                                      \
	}                                                                                                              \
	const struct driver driver_##id = {                                                                            \
		.name = #id,                                                                                           \
		.mounts_by_path = true,                                                                                \
		.caps = {.image = true,                                                                                \
			 .run_args = true,                                                                             \
			 .build = true,                                                                                \
			 .mounts = true,                                                                               \
			 .host_state = true,                                                                           \
			 .user = true,                                                                                 \
			 .network_policy = true,                                                                       \
			 .secrets = true,                                                                              \
			 .limits = true},                                                                              \
		.artifact_files = GUEST_ARTIFACT_FILES,                                                                \
		.attachments = GUEST_ATTACHMENTS,                                                                      \
		.probe = id##_probe,                                                                                   \
		.sandbox_new = id##_new,                                                                               \
		.check = id##_check,                                                                                   \
		.sweep = id##_sweep,                                                                                   \
		.list_mounts = id##_mounts,                                                                            \
		.list = id##_list,                                                                                     \
	}

CONTAINER_DRIVER(docker);
CONTAINER_DRIVER(podman);
