/* The native driver: a sandbox made of Linux namespaces, for root and for ordinary users.
 *
 * sandbox_new makes the plan and the process, which then builds its sandbox while we go on; start watches its control
 * channel and its pidfd. Stopping is killing PID 1: the kernel ends everything in its namespace before the pidfd says
 * so. With limits (hold.c) its cgroups are removed when it is freed: nothing runs in them by then. */
#include "../channel.h"
#include "../guest_path.h"
#include "../limited.h"
#include "../ops.h"
#include "../proxy_env.h"
#include "child.h"
#include "hold.h"
#include "hold_choose.h"
#include "image.h"
#include "late.h"
#include "plan.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/spawn.h>
#include <guest/protocol.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where the proxy listens inside. Nothing else is there to be in its way; a fixed number keeps logs comparable. */
enum { PROXY_PORT = 47128 };

struct native {
	struct sandbox base;
	struct sandbox_callbacks cb;
	struct channel *channel;
	pid_t pid;
	int pidfd;
	int terminals; /* the sandbox's /dev/pts, -1: none yet */
	struct sandbox_limits limits;
	struct hold *hold; /* NULL: no limits */
	struct limit_counters counters;
	struct native_image image; /* held as long as it lives */
	uv_poll_t exit;
	bool watching;
	bool attached;	   /* the channel is the loop's */
	bool channel_gone; /* the loop has let go of it */
	bool closing;
	bool killed; /* programs still ran when it was stopped */
	bool reaped;
	bool lost;
	struct err why;
	void (*stopped)(void *arg, bool killed);
	void *stopped_arg;
};

static void kill_init(const struct native *n)
{
	/* Our own child: until it is reaped its number belongs to nobody else. */
	if (!n->reaped)
		(void)kill(n->pid, SIGKILL);
}

/* The last word, at most once, and not for an end that was asked for. */
static void report_lost(struct native *n, const struct err *e)
{
	if (n->lost || n->stopped)
		return;
	n->lost = true;
	n->why = *e;
	/* Before the reaping, after which the cgroup is removed. */
	if (n->hold)
		limited_explain_end(&n->counters, &n->limits, &n->why);
	kill_init(n);
	n->cb.on_lost(n->cb.arg, &n->why);
}

static void warn(void *arg, const char *message)
{
	const struct native *n = arg;
	auto_json d = json_object();

	json_put_str(d, "code", "limits");
	json_put_str(d, "message", message);
	if (n->cb.on_event)
		n->cb.on_event(n->cb.arg, "sandbox_warning", d);
}

static void on_channel_ready(void *arg, int terminals, const int *listeners, size_t count)
{
	struct native *n = arg;

	n->terminals = terminals;
	if (n->hold) {
		hold_entered(n->hold);
		hold_counters(n->hold, &n->counters);
		hold_warnings(n->hold, warn, n);
	}
	native_image_tell(&n->image, &n->cb);
	n->cb.on_ready(n->cb.arg, listeners, count);
}

static void on_channel_closed(void *arg, const struct err *e)
{
	report_lost(arg, e);
}

static void on_ended_closed(uv_handle_t *h)
{
	const struct native *n = h->data;

	if (n->stopped)
		n->stopped(n->stopped_arg, n->killed);
}

static void check_stopped(struct native *n)
{
	/* Each of the two may come last, and both may come from within the other's call. */
	if (!n->stopped || !n->reaped || !n->channel_gone || n->closing)
		return;
	n->closing = true;
	uv_close((uv_handle_t *)&n->exit, on_ended_closed);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
	struct native *n = poll->data;
	struct spawn_status st;
	struct err e = ERR_INIT;

	(void)status;
	(void)events;
	if (spawn_reap(n->pid, &st) == 0)
		return;
	n->reaped = true;
	uv_poll_stop(poll);
	/* Its last words may still be in the channel: they are read first, and explain better than its exit. */
	if (!n->stopped && !n->lost)
		channel_drain(n->channel);
	(void)err_set(&e, ERR_SANDBOX, ECHILD, "the sandbox's init ended");
	err_hint(&e, "It was killed from outside or ran out of memory: see the kernel's log.");
	report_lost(n, &e);
	check_stopped(n);
}

static int start(struct sandbox *s, uv_loop_t *loop, const struct sandbox_callbacks *cb, struct err *e)
{
	struct native *n = (struct native *)s;
	const struct channel_callbacks channel_cb = {
		.on_ready = on_channel_ready, .on_closed = on_channel_closed, .arg = n};

	n->cb = *cb;
	int r = uv_poll_init(loop, &n->exit, n->pidfd);
	if (r < 0)
		return err_sys(e, -r, "watch the sandbox");
	n->watching = true;
	n->exit.data = n;
	(void)uv_poll_start(&n->exit, UV_READABLE, on_ended);
	r = channel_attach(n->channel, loop, &channel_cb, e);
	n->attached = r == 0;
	return r;
}

static int exec_native(struct sandbox *s, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		       struct err *e)
{
	const struct native *n = (struct native *)s;

	return n->hold ? limited_exec(n->channel, &n->counters, &n->limits, o, done, arg, ret, e)
		       : channel_exec(n->channel, o, done, arg, ret, e);
}

static void on_channel_freed(void *arg)
{
	struct native *n = arg;

	n->channel_gone = true;
	check_stopped(n);
}

static void reap_now(struct native *n)
{
	while (waitpid(n->pid, NULL, 0) < 0 && errno == EINTR)
		;
	n->reaped = true;
}

static void stop(struct sandbox *s, void (*done)(void *arg, bool killed), void *arg)
{
	struct native *n = (struct native *)s;
	struct channel *c = TAKE_PTR(n->channel);

	n->stopped = done;
	n->stopped_arg = arg;
	n->killed = channel_busy(c);
	kill_init(n);
	if (!n->watching) {
		/* start could not even watch it, so nothing on the loop will say that it ended. */
		channel_free(c, NULL, NULL);
		reap_now(n);
		done(arg, n->killed);
		return;
	}
	n->channel_gone = !n->attached;
	channel_free(c, n->attached ? on_channel_freed : NULL, n);
	check_stopped(n);
}

static void free_native(struct sandbox *s)
{
	struct native *n = (struct native *)s;

	if (!n->reaped) {
		kill_init(n);
		reap_now(n);
	}
	if (n->channel)
		channel_free(n->channel, NULL, NULL);
	close_quietly(n->pidfd);
	close_quietly(n->terminals);
	hold_free(n->hold);
	free(n->base.image_digest);
	strv_done(&n->base.env);
	native_image_done(&n->image);
	free(n);
}

/* The pair is made in the sandbox's own devpts, so that it has a name there (ttyname(3)) and none here. */
static int open_terminal(struct sandbox *s)
{
	const struct native *n = (struct native *)s;
	int fd = openat(n->terminals, "ptmx", O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

static const struct sandbox_ops ops = {
	.start = start, .exec = exec_native, .open_terminal = open_terminal, .stop = stop, .free = free_native};

static int make_plan(const struct sandbox_params *p, const struct native_image *image, const char *guest,
		     struct plan **ret, struct err *e)
{
	const struct plan_facts facts = {
		.workspace = p->workspace,
		.workspace_target = p->workspace_target,
		.home = p->home,
		.guest = guest,
		.artifact_files = p->artifact_files,
		.attachments = p->attachments,
		.host_state = p->host_state,
		.hidden = p->hidden,
		.certificates = p->certificates,
		.uid = image ? image->user.uid : getuid(),
		.gid = image ? image->user.gid : getgid(),
		.host_network = !p->enforce_network,
		.layers = image ? &image->image.layers : NULL,
		.passwd = image ? image->passwd : NULL,
		.group = image ? image->group : NULL,
	};
	struct plan *plan = plan_new();

	int r = image ? plan_image_view(plan, p->spec, &facts, e) : plan_host_view(plan, p->spec, &facts, e);
	if (r < 0)
		plan_free(plan);
	else
		*ret = plan;
	return r;
}

/* The guest's checks: an image's root can be written. */
static struct guest_config guest_settings(const struct sandbox_params *p)
{
	return (struct guest_config){
		.checks = GUEST_CHECK_CONFINED | GUEST_CHECK_OWN_PIDS |
			  (p->spec->image ? 0u : GUEST_CHECK_ROOT_READONLY) |
			  (p->enforce_network ? GUEST_CHECK_NO_NETWORK : 0u),
		.listen_port = p->enforce_network ? PROXY_PORT : 0,
	};
}

static void take_image(struct native *n, struct native_image *image, bool enforce_network)
{
	n->image = *image;
	*image = (struct native_image){.image.hold = -1};
	n->base.image_digest = n->image.image.digest ? xstrdup(n->image.image.digest) : NULL;
	native_image_env(&n->image, &n->base.env);
	if (enforce_network)
		proxy_env_drop(&n->base.env);
}

int native_new(const struct sandbox_params *p, struct native_image *image, struct sandbox **ret, struct err *e)
{
	const struct confine_ids own = {.uid = getuid(), .gid = getgid(), .host_uid = getuid(), .host_gid = getgid()};
	auto_free char *guest = NULL;
	struct plan *plan = NULL;
	int control;

	int r = guest_path_find(&guest, e);
	if (r == 0)
		r = make_plan(p, image, guest, &plan, e);
	if (r < 0)
		return r;
	struct native *n = xcalloc(1, sizeof *n);
	n->base.ops = &ops;
	n->terminals = -1;
	n->limits = p->spec->limits;
	n->hold = hold_new(&n->limits, p->run_id, !child_is_privileged());
	if (n->hold)
		hold_counters(n->hold, &n->counters);
	n->image.image.hold = -1;
	const struct child_params child = {
		.plan = plan,
		.hold = n->hold,
		.user_namespace = !child_is_privileged(),
		.own_network = p->enforce_network,
		.ids = image ? native_image_ids(image) : own,
	};
	r = child_start(&child, &n->pid, &n->pidfd, &control, e);
	plan_free(plan);
	if (r < 0) {
		hold_free(n->hold);
		free(n);
		return r;
	}
	if (image)
		take_image(n, image, p->enforce_network);
	const struct guest_config cfg = guest_settings(p);
	n->channel = channel_new(control, &cfg);
	*ret = &n->base;
	return 0;
}

static int sandbox_new(const struct sandbox_params *p, struct sandbox **ret, struct err *e)
{
	return p->spec->image ? late_new(p, ret, e) : native_new(p, NULL, ret, e);
}

static int list_mounts(const struct sandbox_params *p, json_t *list, struct err *e)
{
	static const char *const types[] = {[STEP_BIND] = "bind",
					    [STEP_WRITABLE] = "tmpfs",
					    [STEP_PROC] = "proc",
					    [STEP_DEVPTS] = "devpts",
					    [STEP_COVER] = "cover"};
	/* The mounts are the same whatever is in the image, which need not be here. */
	const struct native_image unseen = {.user = {.uid = getuid(), .gid = getgid()}, .image.hold = -1};
	auto_free char *guest = NULL;
	struct plan *plan = NULL;

	int r = guest_path_find(&guest, e);
	if (r == 0)
		r = make_plan(p, p->spec->image ? &unseen : NULL, guest, &plan, e);
	for (size_t i = 0; r == 0 && plan && i < plan->n; i++) {
		const struct step *s = &plan->v[i];
		if (s->kind < ARRAY_LEN(types) && types[s->kind])
			mount_list_add(list, types[s->kind], s->source, s->target,
				       s->flags & STEP_RO || s->kind == STEP_COVER);
	}
	plan_free(plan);
	return r;
}

static int sweep(size_t *ret_n, struct err *e)
{
	(void)e;
	*ret_n = hold_sweep();
	return 0;
}

const struct driver driver_native = {
	.name = "native",
	.caps = {.image = true,
		 .image_user = true,
		 .mounts = true,
		 .host_state = true,
		 .network_policy = true,
		 .limits = true,
		 .secrets = true,
		 .host_toolchain = true},
	.probe = child_probe,
	.doubtful = child_doubtful,
	.artifact_files = GUEST_ARTIFACT_FILES,
	.attachments = GUEST_ATTACHMENTS,
	.sandbox_new = sandbox_new,
	.sweep = sweep,
	.list_mounts = list_mounts,
	.limits = hold_describe,
};
