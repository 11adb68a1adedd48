/* The kubernetes driver: a sandbox is one pod of its own beside the runner's, through kubectl.
 *
 * start.c makes it and its network policy and brings the agent up; inside.c gets it ready; from then on programs run by
 * the agent's one connection (mux.c), and no call of the API is made for one. The pod's death shows as the connection's
 * end and by the watch.
 *
 * Stopping begins with the programs' end, then what changed in the workspace comes back, then the guest is told to end
 * and with it everything inside, and the objects are removed, even when they are not known to exist. The removal is not
 * waited for longer than the API takes to accept it: nothing runs in the pod any more.
 *
 * What runs on the loop is counted (busy): a stop is over when the last of it is gone. */
#include "kube_priv.h"
#include "../guest_path.h"
#include "kubectl.h"
#include "leftovers.h"
#include "pod_spec.h"
#include "words.h"

#include <base/cleanup.h>
#include <base/id.h>
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

enum { MARK_SIZE = 7, REMOVE_MS = 60 * 1000, MADE_MS = 10 * 1000, LEAVE_MS = 30 * 60 * 1000 };

void kube_warn(const struct kube *k, const char *code, const char *message)
{
	json_t *d = json_object();

	json_put_str(d, "code", code);
	json_put_str(d, "message", message);
	if (k->cb.on_event)
		k->cb.on_event(k->cb.arg, "sandbox_warning", d);
	json_decref(d);
}

static void signal_cli(struct cli *c, int sig)
{
	if (c)
		cli_signal(c, sig);
}

void kube_lost(struct kube *k, const struct err *e)
{
	/* Once it is stopped nobody asks any more. */
	if (k->over || k->stopped)
		return;
	k->over = true;
	k->inside = false;
	uv_timer_stop(&k->patience);
	/* Before the programs end, so that the reason is what the run ends with. */
	k->cb.on_lost(k->cb.arg, e);
	signal_cli(k->watch, SIGKILL);
	signal_cli(k->events, SIGKILL);
	transfer_cancel_all(k);
	if (k->mux)
		mux_close(k->mux);
	signal_cli(k->agent, SIGKILL);
}

static void check_stopped(struct kube *k)
{
	if (k->stopped && k->busy == 0)
		k->stopped(k->stopped_arg, k->killed);
}

void kube_idle(struct kube *k)
{
	k->busy--;
	check_stopped(k);
}

static void on_idle(void *arg)
{
	kube_idle(arg);
}

static void on_patience_closed(uv_handle_t *h)
{
	kube_idle(h->data);
}

static void on_swept(void *arg, size_t n, const struct err *e)
{
	(void)e;
	if (n)
		log_info("removed %zu pod%s of runs that were killed", n, n == 1 ? "" : "s");
	kube_idle(arg);
}

void kube_ready(struct kube *k)
{
	int listener = TAKE_FD(k->listener);

	k->ready = true;
	uv_timer_stop(&k->patience);
	/* What killed runs left is removed beside this run's work; only its end waits for it. */
	if (kube_leftovers_sweep(k->loop, k->program, on_swept, k, NULL) == 0)
		k->busy++;
	k->cb.on_ready(k->cb.arg, &listener, listener >= 0);
}

static int start(struct sandbox *s, uv_loop_t *loop, const struct sandbox_callbacks *cb, struct err *e)
{
	struct kube *k = (struct kube *)s;

	k->loop = loop;
	k->cb = *cb;
	return kube_start(k, e);
}

static int exec_kube(struct sandbox *s, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		     struct err *e)
{
	struct kube *k = (struct kube *)s;

	if (k->over || !k->ready)
		return err_set(e, ERR_SANDBOX, ESHUTDOWN, "start %s: the sandbox has ended", o->argv[0]);
	return mux_exec(k->mux, o, false, done, arg, ret, e);
}

/* The agent makes one inside; ours is between it and the user. */
static int open_terminal(struct sandbox *s)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

	(void)s;
	return fd < 0 ? -errno : fd;
}

/* The last of what the stop began; from here everything lets go by itself. */
static void let_go(struct kube *k)
{
	k->over = true;
	k->inside = false;
	signal_cli(k->watch, SIGKILL);
	signal_cli(k->events, SIGKILL);
	signal_cli(k->agent, SIGKILL);
	transfer_cancel_all(k);
	kube_inside_done(k);
	if (k->patience_open) {
		k->patience_open = false;
		uv_close((uv_handle_t *)&k->patience, on_patience_closed);
	}
	if (k->mux) {
		k->busy++;
		mux_free(TAKE_PTR(k->mux), on_idle, k);
	}
}

static void on_removed(void *arg, const struct cli_result *r)
{
	struct kube *k = arg;
	struct err e = ERR_INIT;

	/* Without a policy there is none to remove, and perhaps no right to do so. */
	if (!cli_ok(r) && (k->p->enforce_network || kube_classify(r->err) != KUBE_FORBIDDEN)) {
		(void)kube_explain(r, &e);
		log_warn("remove the pod %s: %s. It ends by itself; remove it with `kubectl delete pod %s`.", k->name,
			 e.msg, k->name);
	}
	let_go(k);
	kube_idle(k);
}

void kube_remove(struct kube *k)
{
	auto_free char *pod = xasprintf("pod/%s", k->name);
	auto_free char *policy = xasprintf("networkpolicy/%s", k->name);
	const char *const words[] = {"delete",
				     "--wait=false",
				     "--ignore-not-found",
				     "--grace-period=1",
				     pod,
				     k->p->enforce_network ? policy : NULL,
				     NULL};
	const struct cli_opts o = {.stdin_fd = -1, .timeout_ms = REMOVE_MS};
	struct err e = ERR_INIT;

	/* Cut off half-way `create` might make the pod after it was removed. */
	if (k->removing || k->step)
		return;
	k->removing = true;
	if (k->mux)
		mux_end(k->mux);
	if (!k->made) {
		let_go(k);
		return;
	}
	if (kubectl_start(k->loop, k->program, words, &o, on_removed, k, NULL, &e) == 0) {
		k->busy++;
		return;
	}
	log_warn("remove the pod %s: %s", k->name, e.msg);
	let_go(k);
}

static void on_leave_too_long(uv_timer_t *timer)
{
	transfer_cancel_all(timer->data);
	kube_remove(timer->data);
}

static void stop(struct sandbox *s, void (*done)(void *arg, bool killed), void *arg)
{
	struct kube *k = (struct kube *)s;

	k->stopped = done;
	k->stopped_arg = arg;
	/* Itself, so that nothing below ends the stop before all of it was begun. */
	k->busy++;
	k->killed = k->mux && mux_busy(k->mux);
	if (k->mux)
		mux_lose_execs(k->mux);
	if (k->step)
		cli_limit(k->step, MADE_MS);
	if (k->ready && k->inside) {
		uv_update_time(k->loop);
		(void)uv_timer_start(&k->patience, on_leave_too_long, LEAVE_MS, 0);
		kube_leave(k);
	} else {
		transfer_cancel_all(k);
		kube_remove(k);
	}
	kube_idle(k);
}

static void free_kube(struct sandbox *s)
{
	struct kube *k = (struct kube *)s;

	close_quietly(k->listener);
	close_quietly(k->env_fd);
	close_quietly(k->list_fd);
	pod_stream_done(&k->stream);
	pod_stream_done(&k->event_stream);
	free(k->base.image_digest);
	strv_done(&k->base.env);
	free(k->agent_words);
	free(k->program);
	free(k->guest);
	free(k->name);
	free(k);
}

static const struct sandbox_ops ops = {
	.start = start, .exec = exec_kube, .open_terminal = open_terminal, .stop = stop, .free = free_kube};

static int kube_new(const struct sandbox_params *p, struct sandbox **ret, struct err *e)
{
	char mark[MARK_SIZE];
	auto_free char *program = NULL;
	auto_free char *guest = NULL;

	int r = kubectl_find(&program, e);
	if (r == 0)
		r = guest_path_find(&guest, e);
	if (r < 0)
		return r;
	id_hex(mark, (MARK_SIZE - 1) / 2);
	struct kube *k = xcalloc(1, sizeof *k);
	*k = (struct kube){
		.base = {.ops = &ops},
		.p = p,
		.program = TAKE_PTR(program),
		.guest = TAKE_PTR(guest),
		.name = pod_name(p->run_id, mark),
		.listener = -1,
		.env_fd = -1,
		.ready_fd = -1,
		.list_fd = -1,
		.stream = POD_STREAM_INIT,
		.event_stream = POD_STREAM_INIT,
	};
	*ret = &k->base;
	return 0;
}

/* In a cluster runs are pods. */
static bool is_wanted(void)
{
	const char *mode = getenv("ITERION_MODE");

	return (mode && str_eq(mode, "cloud")) || kubectl_in_cluster();
}

/* Nothing of this machine is mounted: the folders are empty ones of the pod, and the workspace is copied into it. */
static int list_mounts(const struct sandbox_params *p, json_t *list, struct err *e)
{
	(void)e;
	mount_list_add(list, "emptyDir", NULL, GUEST_DIR, getenv("ITERION_GUEST_IMAGE") != NULL);
	mount_list_add(list, "emptyDir", p->workspace, p->workspace_target, false);
	if (p->artifact_files)
		mount_list_add(list, "emptyDir", NULL, GUEST_ARTIFACT_FILES, false);
	if (p->attachments)
		mount_list_add(list, "emptyDir", p->attachments, GUEST_ATTACHMENTS, false);
	for (size_t i = 0; i < p->spec->n_mounts; i++) {
		const struct sandbox_mount *m = &p->spec->mounts[i];
		mount_list_add(list, mount_type_name(m->type), m->source, m->target, m->readonly);
	}
	return 0;
}

const struct driver driver_kubernetes = {
	.name = "kubernetes",
	.caps = {.image = true, .mounts = true, .user = true, .network_policy = true, .limits = true, .remote = true},
	.artifact_files = GUEST_ARTIFACT_FILES,
	.attachments = GUEST_ATTACHMENTS,
	.probe = kubectl_probe,
	.wanted = is_wanted,
	.check_spec = pod_check,
	.sandbox_new = kube_new,
	.sweep = kube_leftovers_sweep_now,
	.list_mounts = list_mounts,
	.list = kube_leftovers_list_now,
};
