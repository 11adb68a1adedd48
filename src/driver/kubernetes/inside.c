/* What happens in a pod between the guest's ready and the session's, and again before its end.
 *
 * In: the image's environment is read, the relay to the proxy started (its port inside is the proxy's outside, so the
 * programs' variables are those of every sandbox), and the run's attachments and the workspace are sent, all at once.
 * Out: what changed in the workspace, and the run's own files, come back. The list of what was sent was made inside and
 * is kept here, unread. The run store within a workspace is neither sent nor can it be written on the way back. */
#include "kube_priv.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/log.h>
#include <base/mem.h>
#include <base/str.h>
#include <guest/protocol.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENV_LIMIT = 1024 * 1024, LIST_LIMIT = 1024 * 1024 * 1024 };

static const char *const no_env[] = {NULL};

static void task_over(struct kube *k, const struct err *e)
{
	if (e && k->failure.kind == ERR_NONE)
		err_copy(&k->failure, e);
	if (--k->tasks > 0)
		return;
	if (k->stopped)
		kube_remove(k);
	else if (k->failure.kind != ERR_NONE)
		kube_lost(k, &k->failure);
	else if (!k->over)
		kube_ready(k);
}

/* Entries that end with a NUL each; what is no NAME=value is left out. */
static void read_env(struct kube *k)
{
	auto_buf b = BUF_INIT(ENV_LIMIT);

	if (kube_memory_rewind(k->env_fd) < 0 || fd_read_all(k->env_fd, &b) < 0)
		return;
	for (size_t at = 0; at < b.len;) {
		const char *entry = b.data + at;
		auto_free char *name = xstrndup(entry, strcspn(entry, "="));
		if (strchr(entry, '=') && str_is_identifier(name))
			strv_add(&k->base.env, entry);
		at += strlen(entry) + 1;
	}
}

static void on_environ(void *arg, const struct exec_status *st)
{
	struct kube *k = arg;
	struct err e = ERR_INIT;

	if (st->end == EXEC_EXITED && st->code == 0) {
		read_env(k);
		task_over(k, NULL);
	} else {
		(void)err_set(&e, ERR_SANDBOX, ECHILD, "read the environment of the sandbox's image");
		err_hint(&e, "The guest could not be started again inside; see `kubectl describe pod`.");
		task_over(k, &e);
	}
	kube_idle(k);
}

static int ask_environ(struct kube *k, struct err *e)
{
	static const char *const argv[] = {GUEST_PATH, "environ", NULL};
	struct exec *x;

	k->env_fd = kube_memory(ENV_LIMIT);
	if (k->env_fd < 0)
		return err_sys(e, -k->env_fd, "make room for the image's environment");
	const struct exec_opts o = {.argv = argv, .env = no_env, .cwd = "/", .stdio = {-1, k->env_fd, -1}};
	int r = mux_exec(k->mux, &o, true, on_environ, k, &x, e);
	k->busy += r == 0;
	return r;
}

static void on_relay_closed(uv_handle_t *h)
{
	struct kube *k = h->data;

	close_quietly(TAKE_FD(k->ready_fd));
	kube_idle(k);
}

static void close_relay(struct kube *k)
{
	if (!k->relay_open)
		return;
	k->relay_open = false;
	uv_close((uv_handle_t *)&k->relay_poll, on_relay_closed);
}

static void on_relay_words(uv_poll_t *poll, int status, int events)
{
	struct kube *k = poll->data;
	char word[16];

	(void)status;
	(void)events;
	ssize_t n = read(k->ready_fd, word, sizeof word);
	if (n < 0 && errno == EAGAIN)
		return;
	close_relay(k);
	/* Its end tells what else there is to say. */
	if (n <= 0)
		return;
	k->relay_ready = true;
	task_over(k, NULL);
}

static void on_relay_ended(void *arg, const struct exec_status *st)
{
	struct kube *k = arg;
	struct err e = ERR_INIT;

	close_relay(k);
	(void)err_set(&e, ERR_SANDBOX, ECHILD, "the sandbox's way to the egress proxy %s (%s %d)",
		      k->relay_ready ? "ended" : "could not be opened",
		      st->end == EXEC_SIGNALED ? "signal" : "exit code", st->code);
	err_hint(&e, "A program inside may have killed it; the sandbox was ended, since it has no network any more.");
	if (!k->relay_ready)
		task_over(k, &e);
	else if (st->end != EXEC_LOST && !k->stopped)
		kube_lost(k, &e);
	kube_idle(k);
}

static int start_relay(struct kube *k, struct err *e)
{
	auto_free char *port = xasprintf("%u", k->port);
	const char *const program = GUEST_PATH;
	const char *const argv[] = {program, "relay", port, getenv("ITERION_POD_IP"), port, NULL};
	struct exec *x;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe for the sandbox's relay");
	k->ready_fd = fds[0];
	auto_fd write_end = fds[1];
	int r = uv_poll_init(k->loop, &k->relay_poll, k->ready_fd);
	if (r < 0)
		return err_sys(e, -r, "watch the sandbox's relay");
	k->relay_poll.data = k;
	k->relay_open = true;
	k->busy++;
	(void)uv_poll_start(&k->relay_poll, UV_READABLE, on_relay_words);
	const struct exec_opts o = {.argv = argv, .env = no_env, .cwd = "/", .stdio = {-1, write_end, -1}};
	r = mux_exec(k->mux, &o, true, on_relay_ended, k, &x, e);
	k->busy += r == 0;
	return r;
}

/* What of the workspace stays here, as the path below it; NULL: nothing. */
static const char *store_inside(const struct kube *k)
{
	return k->p->hidden ? k->p->hidden + strlen(k->p->workspace) + 1 : NULL;
}

static void on_sent(struct kube *k, const struct err *e, unsigned long long files, unsigned long long bytes,
		    unsigned long long gone, unsigned long long skipped)
{
	(void)gone;
	if (!e)
		log_info("sent %llu files, %llu bytes to the sandbox", files, bytes);
	if (!e && skipped && !k->over) {
		auto_free char *message =
			xasprintf("%llu entries were not sent to the sandbox: they may not be read, changed "
				  "meanwhile, or are no files, folders or links",
				  skipped);
		kube_warn(k, "workspace_incomplete", message);
	}
	task_over(k, e);
}

static int send_files(struct kube *k, struct err *e)
{
	const struct transfer_opts workspace = {.outside = k->p->workspace,
						.within = k->p->workspace_target,
						.without = store_inside(k),
						.list = k->list_fd};
	const struct transfer_opts attachments = {
		.outside = k->p->attachments, .within = GUEST_ATTACHMENTS, .list = -1};

	if (k->p->attachments) {
		int r = transfer_in(k, &attachments, on_sent, e);
		if (r < 0)
			return r;
		k->tasks++;
	}
	int r = transfer_in(k, &workspace, on_sent, e);
	k->tasks += r == 0;
	return r;
}

void kube_enter(struct kube *k)
{
	struct err e = ERR_INIT;

	k->list_fd = kube_memory(LIST_LIMIT);
	int r = k->list_fd < 0 ? err_sys(&e, -k->list_fd, "make room for the list of files") : 0;
	/* Itself, so that nothing is ready before all of it was begun. */
	k->tasks = 1;
	if (r == 0) {
		r = ask_environ(k, &e);
		k->tasks += r == 0;
	}
	if (r == 0 && k->listener >= 0) {
		r = start_relay(k, &e);
		k->tasks += r == 0;
	}
	if (r == 0)
		r = send_files(k, &e);
	task_over(k, r < 0 ? &e : NULL);
}

/* A run whose work did not come back must say so. */
static void on_brought(struct kube *k, const struct err *e, unsigned long long files, unsigned long long bytes,
		       unsigned long long gone, unsigned long long skipped)
{
	if (e) {
		log_error("%s. %s", e->msg, e->hint);
		kube_warn(k, "workspace_lost", e->msg);
	} else if (skipped) {
		auto_free char *message = xasprintf("%llu entries were not brought back from the sandbox: they may not "
						    "be replaced, or changed meanwhile",
						    skipped);
		kube_warn(k, "workspace_incomplete", message);
	}
	if (!e)
		log_info("brought back %llu files, %llu bytes from the sandbox, removed %llu", files, bytes, gone);
	task_over(k, NULL);
}

static void bring(struct kube *k, const struct transfer_opts *o)
{
	struct err e = ERR_INIT;

	k->tasks++;
	if (transfer_out(k, o, on_brought, &e) < 0)
		on_brought(k, &e, 0, 0, 0, 0);
}

void kube_leave(struct kube *k)
{
	const struct transfer_opts workspace = {.outside = k->p->workspace,
						.within = k->p->workspace_target,
						.without = store_inside(k),
						.list = k->list_fd};
	const struct transfer_opts files = {
		.outside = k->p->artifact_files, .within = GUEST_ARTIFACT_FILES, .list = -1};

	k->tasks = 1;
	if (kube_memory_rewind(k->list_fd) == 0)
		bring(k, &workspace);
	if (k->p->artifact_files)
		bring(k, &files);
	task_over(k, NULL);
}

void kube_inside_done(struct kube *k)
{
	close_relay(k);
	close_quietly(TAKE_FD(k->env_fd));
	close_quietly(TAKE_FD(k->list_fd));
}
