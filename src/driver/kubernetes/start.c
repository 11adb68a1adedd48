/* The start of a pod: its objects, the watch that tells of it, the agent's connection.
 *
 * `create` takes both objects by stdin. Then one `get --watch` follows the pod for as long as it lives: each change
 * comes as an event, so nothing is asked twice. When the container runs, one `exec -i` brings the agent up; its stdin
 * and stdout are one socket of ours, with the guest's own bytes in front when the pod has to be given them.
 *
 * Two things tell of an end: the connection, at once and without a reason, and the watch, with the reason and perhaps a
 * little later. So the connection's end waits a while for the watch. */
#include "kube_priv.h"
#include "../container/labels.h"
#include "kubectl.h"
#include "pod_spec.h"
#include "words.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/spec.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	CREATE_MS = 60 * 1000,
	START_MS = 30 * 60 * 1000,
	REASON_MS = 5 * 1000,
	GUEST_LIMIT = 64 * 1024 * 1024,
	TRIES = 3,
	LINGER_MS = 60 * 1000,
	BACKLOG = 512,
};

static void lose(struct kube *k, int r, struct err *e, const char *what)
{
	(void)err_wrap(e, r, "%s", what);
	kube_lost(k, e);
}

/* --- the listening socket for the proxy --- */

static int open_listener(struct kube *k, struct err *e)
{
	const char *address = getenv("ITERION_POD_IP");
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} u = {0};

	if (address && inet_pton(AF_INET, address, &u.v4.sin_addr) == 1) {
		u.v4.sin_family = AF_INET;
	} else if (address && inet_pton(AF_INET6, address, &u.v6.sin6_addr) == 1) {
		u.v6.sin6_family = AF_INET6;
	} else {
		int r = err_set(e, ERR_SANDBOX, EDESTADDRREQ, "start the sandbox: ITERION_POD_IP %s",
				address && *address ? "is no address" : "is not set");
		err_hint(e, "The pod reaches the egress proxy at the runner's own address: set the variable by the "
			    "downward API (status.podIP), as examples/kubernetes/job.yaml does, or use network.mode: "
			    "open.");
		return r;
	}
	socklen_t len = u.sa.sa_family == AF_INET6 ? sizeof u.v6 : sizeof u.v4;
	auto_fd fd = socket(u.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, &u.sa, len) < 0 || listen(fd, BACKLOG) < 0 || getsockname(fd, &u.sa, &len) < 0) {
		int r = err_sys(e, errno, "listen on the runner's address %s for the sandbox", address);
		err_hint(e, "ITERION_POD_IP must be an address of the pod or machine that runs iterion.");
		return r;
	}
	k->port = ntohs(u.sa.sa_family == AF_INET6 ? u.v6.sin6_port : u.v4.sin_port);
	k->listener = TAKE_FD(fd);
	return 0;
}

/* --- the agent --- */

static void on_mux_ready(void *arg)
{
	struct kube *k = arg;

	if (k->over || k->stopped)
		return;
	k->inside = true;
	kube_enter(k);
}

static void on_mux_closed(void *arg, int r, const struct err *e)
{
	struct kube *k = arg;

	k->inside = false;
	transfer_cancel_all(k);
	if (r != -ECONNRESET) {
		kube_lost(k, e);
		return;
	}
	k->hung_up = true;
	kube_await_reason(k);
}

static void on_patience_over(uv_timer_t *timer)
{
	struct kube *k = timer->data;
	struct err e = ERR_INIT;

	if (k->agent_words && *k->agent_words) {
		lose(k, kube_explain_text(k->agent_words, &e), &e, "the connection to the sandbox's pod ended");
		return;
	}
	(void)err_set(&e, ERR_SANDBOX, ECONNRESET, "the connection to the sandbox's pod ended");
	err_hint(&e,
		 "A program inside killed its agent, or the API server ended the connection; the pod's own end would "
		 "have been told.");
	kube_lost(k, &e);
}

void kube_await_reason(struct kube *k)
{
	if (k->over || k->stopped)
		return;
	/* The loop's clock may stand since long ago. */
	uv_update_time(k->loop);
	(void)uv_timer_start(&k->patience, on_patience_over, REASON_MS, 0);
}

static int start_agent(struct kube *k, struct err *e);

/* The kubelet tells of a container a moment before it lets anybody in. */
static bool is_too_early(const struct kube *k, const char *words)
{
	return !k->inside && k->agent_failures < TRIES && strstr(words, "container not found");
}

static void on_agent_ended(void *arg, const struct cli_result *r)
{
	struct kube *k = arg;
	struct err e = ERR_INIT;

	k->agent = NULL;
	free(k->agent_words);
	k->agent_words = xstrdup(r->err);
	if (!k->over && !k->stopped && is_too_early(k, r->err)) {
		k->agent_failures++;
		mux_free(TAKE_PTR(k->mux), NULL, NULL);
		k->hung_up = false;
		uv_timer_stop(&k->patience);
		int bad = start_agent(k, &e);
		if (bad < 0)
			lose(k, bad, &e, "start the sandbox's agent");
	} else if (!k->over && kube_classify(r->err) == KUBE_FORBIDDEN) {
		lose(k, kube_explain(r, &e), &e, "start the sandbox's agent");
	}
	kube_idle(k);
}

/* The guest's own bytes, for a pod that does not have them. */
static int read_guest(const struct kube *k, char **ret, size_t *ret_len, struct err *e)
{
	*ret = NULL;
	*ret_len = 0;
	if (getenv("ITERION_GUEST_IMAGE"))
		return 0;
	int r = file_read(AT_FDCWD, k->guest, GUEST_LIMIT, ret, ret_len, e);
	return r < 0 ? err_wrap(e, r, "read the guest program") : 0;
}

static int start_agent(struct kube *k, struct err *e)
{
	const struct mux_callbacks cb = {.on_ready = on_mux_ready, .on_closed = on_mux_closed, .arg = k};
	const struct guest_config cfg = {
		.checks = GUEST_CHECK_OWN_PIDS | GUEST_CHECK_CONTAINED,
		.ways = GUEST_WAY_OWN_ENV,
		.linger_ms = LINGER_MS,
	};
	const char *agent[POD_AGENT_WORDS];
	char text[POD_AGENT_TEXT];
	char *prefix;
	size_t len;
	int fds[2];

	int r = read_guest(k, &prefix, &len, e);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
		free(prefix);
		return err_sys(e, errno, "make a socket for the sandbox's agent");
	}
	auto_fd theirs = fds[1];
	pod_agent(len, agent, text);
	k->mux = mux_new(fds[0], prefix, len, &cfg);
	const char *words[] = {"exec", "-i",	 k->name,  "--container", POD_CONTAINER,
			       "--",   agent[0], agent[1], agent[2],	  NULL};
	const struct cli_opts o = {.stdin_fd = theirs, .out_fd = theirs};
	r = kubectl_start(k->loop, k->program, words, &o, on_agent_ended, k, &k->agent, e);
	k->busy += r == 0;
	return r < 0 ? r : mux_attach(k->mux, k->loop, &cb, e);
}

/* --- the watch --- */

static int start_watch(struct kube *k, struct err *e);

static void on_news(void *arg, const json_t *event)
{
	struct kube *k = arg;
	struct pod_news n;
	struct err e = ERR_INIT;

	if (k->over || k->stopped || pod_read(event, &n) < 0)
		return;
	k->watch_failures = 0;
	memcpy(k->waits, n.waits, sizeof k->waits);
	if (n.digest[0] && !k->base.image_digest)
		k->base.image_digest = xstrdup(n.digest);
	if (n.phase == POD_FAILED || n.phase == POD_GONE) {
		kube_lost(k, &n.why);
	} else if (n.phase == POD_RUNNING && !k->mux) {
		if (k->events)
			cli_signal(k->events, SIGKILL);
		int r = start_agent(k, &e);
		if (r < 0)
			lose(k, r, &e, "start the sandbox's agent");
	}
}

static void on_watch_data(void *arg, const char *data, size_t len)
{
	struct kube *k = arg;
	struct err e = ERR_INIT;

	if (k->over || k->stopped || pod_stream_feed(&k->stream, data, len, on_news, k) == 0)
		return;
	(void)err_set(&e, ERR_PROTOCOL, EPROTO, "watch the sandbox's pod: kubectl printed something else than JSON");
	err_hint(&e, "kubectl must be of version 1.20 or later.");
	kube_lost(k, &e);
}

/* The API server ends each watch after some time; that is no failure. */
static void on_watch_ended(void *arg, const struct cli_result *r)
{
	struct kube *k = arg;
	struct err e = ERR_INIT;
	int bad = 0;

	k->watch = NULL;
	pod_stream_done(&k->stream);
	k->stream = POD_STREAM_INIT;
	if (!k->over && !k->stopped && (kube_classify(r->err) == KUBE_NOT_FOUND || ++k->watch_failures > TRIES))
		bad = kube_explain(r, &e);
	else if (!k->over && !k->stopped)
		bad = start_watch(k, &e);
	if (bad < 0)
		lose(k, bad, &e, "watch the sandbox's pod");
	kube_idle(k);
}

static int start_watch(struct kube *k, struct err *e)
{
	const char *const words[] = {"get", "pod", k->name, "--watch", "--output-watch-events", "--output=json", NULL};
	const struct cli_opts o = {.stdin_fd = -1, .out_limit = 1, .on_out = on_watch_data, .out_arg = k};
	int r = kubectl_start(k->loop, k->program, words, &o, on_watch_ended, k, &k->watch, e);

	k->busy += r == 0;
	return r;
}

static void on_event(void *arg, const json_t *event)
{
	struct kube *k = arg;
	struct err why = ERR_INIT;

	if (!k->over && !k->mux && pod_read_event(event, &why))
		kube_lost(k, &why);
}

static void on_event_data(void *arg, const char *data, size_t len)
{
	struct kube *k = arg;

	if (pod_stream_feed(&k->event_stream, data, len, on_event, k) < 0 && k->events)
		cli_signal(k->events, SIGKILL);
}

/* An account that may not see events does without. */
static void on_events_ended(void *arg, const struct cli_result *r)
{
	struct kube *k = arg;

	(void)r;
	k->events = NULL;
	kube_idle(k);
}

static int start_events(struct kube *k, struct err *e)
{
	auto_free char *which = xasprintf("--field-selector=involvedObject.name=%s", k->name);
	const char *const words[] = {"get", "events", which, "--watch", "--output-watch-events", "--output=json", NULL};
	const struct cli_opts o = {.stdin_fd = -1, .out_limit = 1, .on_out = on_event_data, .out_arg = k};
	int r = kubectl_start(k->loop, k->program, words, &o, on_events_ended, k, &k->events, e);

	k->busy += r == 0;
	return r;
}

/* --- the objects --- */

static void on_created(void *arg, const struct cli_result *r)
{
	struct kube *k = arg;
	struct err e = ERR_INIT;
	int bad = 0;

	k->step = NULL;
	if (k->stopped) {
		kube_remove(k);
	} else if (cli_ok(r)) {
		bad = start_watch(k, &e);
		if (bad == 0)
			bad = start_events(k, &e);
	} else {
		k->made = kube_classify(r->err) != KUBE_NAME_IN_USE;
		bad = kube_explain(r, &e);
	}
	if (bad < 0)
		lose(k, bad, &e, "start the sandbox");
	kube_idle(k);
}

static int write_objects(const struct kube *k, struct err *e)
{
	char owner[OWNER_SIZE];

	label_owner(owner);
	const struct pod_facts f = {
		.name = k->name,
		.owner = owner,
		.guest_image = getenv("ITERION_GUEST_IMAGE"),
		.runner_name = getenv("ITERION_POD_NAME"),
		.runner_uid = getenv("ITERION_POD_UID"),
		.proxy_address = k->listener >= 0 ? getenv("ITERION_POD_IP") : NULL,
		.proxy_port = k->port,
	};
	auto_json objects = pod_objects(k->p, &f);
	auto_free char *text = json_compact(objects);
	auto_fd fd = memfd_create("iterion-pod", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? err_sys(e, -r, "write down the sandbox's pod") : TAKE_FD(fd);
}

static int create(struct kube *k, struct err *e)
{
	static const char *const words[] = {"create", "--filename=-", NULL};
	auto_fd objects = write_objects(k, e);
	const struct cli_opts o = {.stdin_fd = objects, .timeout_ms = CREATE_MS};

	if (objects < 0)
		return objects;
	int r = kubectl_start(k->loop, k->program, words, &o, on_created, k, &k->step, e);
	k->busy += r == 0;
	k->made = r == 0;
	return r;
}

static void on_start_too_long(uv_timer_t *timer)
{
	struct kube *k = timer->data;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_SANDBOX, ETIMEDOUT, "start the sandbox: its pod was not ready within %d minutes%s%s",
		      START_MS / 60000, *k->waits ? "; it waited: " : "", k->waits);
	err_hint(&e, "See `kubectl describe pod %s`: an image may be slow to pull, or a volume not come.", k->name);
	kube_lost(k, &e);
}

int kube_start(struct kube *k, struct err *e)
{
	(void)uv_timer_init(k->loop, &k->patience);
	k->patience.data = k;
	k->patience_open = true;
	k->busy++;
	(void)uv_timer_start(&k->patience, on_start_too_long, START_MS, 0);
	int r = k->p->enforce_network ? open_listener(k, e) : 0;
	return r < 0 ? r : create(k, e);
}
