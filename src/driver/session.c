/* A sandbox for the length of a run: driver, proxy and events put together.
 *
 * session_new does what has to be done while the process is small: it checks that the driver can do what the spec asks
 * for, forks the proxy and lets the driver fork the sandbox. session_start then waits, on the loop, for both to prove
 * themselves: the proxy that it is confined, the guest that the sandbox is closed. The listening sockets go from the
 * guest through here to the proxy; no copy stays. When either dies the other is ended too: a sandbox without its proxy
 * has no egress at all, which is the safe side, but the run cannot go on. */
#include "host_paths.h"
#include "ops.h"
#include "post_create.h"
#include "proxy_env.h"
#include "session_inspect.h"
#include "session_priv.h"
#include "sources.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DRAIN_MS = 1000 };

static void fail_start(struct session *s, const struct err *e)
{
	session_done_cb done = TAKE_PTR(s->start_done);

	s->state = SESSION_FAILED;
	done(s->start_arg, e);
}

/* The sandbox or the proxy died. */
static void lost(struct session *s, const struct err *e)
{
	if (s->state == SESSION_STARTING) {
		fail_start(s, e);
		return;
	}
	if (s->state != SESSION_RUNNING)
		return;
	s->state = SESSION_FAILED;
	s->was_lost = true;
	s->p.on_lost(s->p.arg, e);
}

static void started(struct session *s)
{
	session_done_cb done = TAKE_PTR(s->start_done);

	s->state = SESSION_RUNNING;
	done(s->start_arg, NULL);
}

static void on_post_create(void *arg, const struct err *e)
{
	struct session *s = arg;

	/* Cancelled meanwhile: the start has been answered already. */
	if (s->state != SESSION_STARTING)
		return;
	if (e)
		fail_start(s, e);
	else
		started(s);
}

static void check_started(struct session *s);

static void on_verified(void *arg, const struct err *e)
{
	struct session *s = arg;

	sources_free(TAKE_PTR(s->sources));
	if (s->state != SESSION_STARTING)
		return;
	if (e)
		fail_start(s, e);
	else
		check_started(s);
}

static void check_started(struct session *s)
{
	if (s->state != SESSION_STARTING || !s->sandbox_ready || (s->proxy && !s->proxy_ready))
		return;
	if (s->sources) {
		sources_verify(s->sources, s, on_verified, s);
		return;
	}
	s->was_started = true;
	session_emit_started(s);
	session_emit_host_state(s);
	session_emit_warnings(s);
	if (post_create_wanted(&s->spec) && s->spec.mode != SANDBOX_NONE)
		post_create_run(s, on_post_create, s);
	else
		started(s);
}

/* The port that programs inside dial is the one the guest listens on. */
static uint16_t port_of(int listener)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} u = {0};
	socklen_t len = sizeof u;

	if (getsockname(listener, &u.sa, &len) < 0)
		return 0;
	return ntohs(u.sa.sa_family == AF_INET6 ? u.v6.sin6_port : u.v4.sin_port);
}

static void on_sandbox_ready(void *arg, const int *listeners, size_t n)
{
	struct session *s = arg;
	struct err e = ERR_INIT;
	int r = 0;

	s->offered = s->sandbox->proxy_host != NULL;
	s->proxy_port = s->sandbox->proxy_port;
	for (size_t i = 0; i < n; i++) {
		if (i == 0 && s->proxy_port == 0)
			s->proxy_port = port_of(listeners[i]);
		if (s->proxy && r == 0)
			r = proxy_add_listener(s->proxy, listeners[i]);
		else
			close_quietly(listeners[i]);
	}
	if (r < 0) {
		(void)err_sys(&e, -r, "hand the sandbox's listening sockets to the egress proxy");
		err_hint(&e, "The proxy has ended; see the run's log.");
		lost(s, &e);
		return;
	}
	s->sandbox_ready = true;
	s->ready_ns = clock_ns();
	check_started(s);
}

static void on_sandbox_event(void *arg, const char *type, json_t *data)
{
	const struct session *s = arg;

	if (s->p.on_event)
		s->p.on_event(s->p.arg, type, data);
}

static void on_sandbox_lost(void *arg, const struct err *e)
{
	lost(arg, e);
}

static void on_proxy_ready(void *arg, const struct err *e)
{
	struct session *s = arg;

	if (e) {
		lost(s, e);
		return;
	}
	s->proxy_ready = true;
	check_started(s);
}

static void on_proxy_lost(void *arg, const struct err *e)
{
	lost(arg, e);
}

static void on_blocked(void *arg, const struct proxy_blocked *b)
{
	session_emit_blocked(arg, b);
}

static void on_secret_blocked(void *arg, const struct proxy_secret_blocked *b)
{
	session_emit_secret_blocked(arg, b);
}

static void on_summary(void *arg, const struct proxy_host_total *t, size_t n)
{
	session_emit_summary(arg, t, n);
}

static int make_policy(struct session *s, struct err *e)
{
	const struct sandbox_network *n = &s->spec.network;

	return policy_new(n->mode, (const char *const *)n->presets.v, (const char *const *)n->rules.v, &s->policy, e);
}

static int start_proxy(struct session *s, struct err *e)
{
	const struct sandbox_network *n = &s->spec.network;

	id_hex(s->token, (PROXY_TOKEN_SIZE - 1) / 2);
	struct proxy_params pp = {
		.policy = s->policy,
		.token = s->token,
		.resolve = s->p.resolve,
		.learn = n->mode == NETWORK_LEARN,
		.strict_sni = n->strict_sni,
	};
	return session_inspects(s) ? session_inspect_start(s, &pp, e) : proxy_new(&pp, &s->proxy, e);
}

/* The folder in the workspace that commands take for the store when none is named. */
static char *workspace_store(const struct session *s)
{
	auto_free char *path = path_join(s->p.workspace, ".iterion");
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) ? TAKE_PTR(path) : NULL;
}

/* What of the store lies in the workspace and is to be hidden, by the path that links lead to: a store that was named
 * by a link is no other one. A workspace that is the store itself has its runs hidden. With a store elsewhere it is the
 * workspace's own, which holds other runs. NULL: nothing. */
static char *find_hidden(const struct session *s)
{
	auto_free char *store = s->p.store_dir ? realpath(s->p.store_dir, NULL) : NULL;

	if (!store && s->planned && s->p.store_dir)
		store = path_clean(s->p.store_dir);
	if (!store || !path_within(store, s->p.workspace))
		return workspace_store(s);
	if (!str_eq(store, s->p.workspace))
		return TAKE_PTR(store);
	auto_free char *runs = path_join(store, "runs");
	return access(runs, F_OK) == 0 ? TAKE_PTR(runs) : NULL;
}

/* Paths inside, and what the driver needs to know. */
static int fill_params(struct session *s, struct err *e)
{
	const struct sandbox_spec *spec = &s->spec;

	/* A copy on another machine has nothing of the host's path. */
	const char *own = s->driver->caps.remote ? "/workspace" : s->p.workspace;
	s->workspace_target = path_clean(spec->workspace_folder ? spec->workspace_folder : own);
	if (!s->workspace_target)
		return err_set(e, ERR_INPUT, EINVAL, "workspace_folder %s: not an absolute path",
			       spec->workspace_folder);
	s->hidden = find_hidden(s);
	auto_free char *own_store = workspace_store(s);
	s->had_store = own_store != NULL;
	if (s->p.artifact_files)
		s->artifact_files = s->planned ? path_clean(s->p.artifact_files) : realpath(s->p.artifact_files, NULL);
	if (s->p.artifact_files && !s->artifact_files)
		return err_sys(e, errno, "open the run's folder %s", s->p.artifact_files);
	if (s->p.attachments)
		s->attachments = s->planned ? path_clean(s->p.attachments) : realpath(s->p.attachments, NULL);
	if (s->p.attachments && !s->attachments)
		return err_sys(e, errno, "open the run's attachments %s", s->p.attachments);
	s->params = (struct sandbox_params){
		.spec = &s->spec,
		.workspace = s->p.workspace,
		.workspace_target = s->workspace_target,
		.home = s->home,
		.hidden = s->hidden,
		.host_state = &s->host_state,
		.artifact_files = s->artifact_files,
		.attachments = s->attachments,
		.run_id = s->p.run_id,
		.run_name = s->p.run_name,
		.enforce_network = spec->network.mode != NETWORK_OPEN,
		.deadline_s = s->p.deadline_s,
	};
	return 0;
}

static int choose_driver(struct session *s, struct err *e)
{
	if (s->spec.mode == SANDBOX_NONE) {
		s->driver = &driver_noop;
		return 0;
	}
	const char *reason;
	bool bare = !s->spec.image && !s->spec.build.dockerfile;
	int r = driver_choose(s->p.driver, bare, &s->driver, &reason, e);
	if (r < 0)
		return r;
	/* Where no home can be shared, sharing it is nobody's wish unless somebody wrote it. */
	if (s->driver->caps.remote && sandbox_host_state_is_default(&s->spec)) {
		s->spec.host_state = HOST_STATE_NONE;
		free(s->spec.host_state_source);
		s->spec.host_state_source = xasprintf("default of the %s driver", driver_name(s->driver));
	}
	return session_check_caps(s, e);
}

int session_settle(struct session *s, struct err *e)
{
	int r = choose_driver(s, e);

	if (r == 0 && s->driver->caps.mounts && !s->driver->caps.remote)
		host_paths_add_git(&s->p, &s->spec);
	if (r == 0 && s->driver != &driver_noop)
		r = host_paths_check(&s->p, &s->spec, e);
	if (r == 0 && s->driver->caps.host_state && s->spec.host_state != HOST_STATE_NONE)
		r = host_paths_state(&s->p, &s->host_state, e);
	if (r == 0)
		r = fill_params(s, e);
	if (r == 0 && s->driver->check)
		r = s->driver->check(&s->params, &s->offered, e);
	if (r == 0 && s->params.enforce_network && s->driver->caps.network_policy)
		r = make_policy(s, e);
	return r < 0 ? r : session_inspect_settle(s, e);
}

static int prepare(struct session *s, struct err *e)
{
	int r = session_settle(s, e);

	if (r == 0)
		r = host_paths_make_covers(&s->host_state, e);
	if (r == 0 && s->driver->caps.mounts)
		r = host_paths_cover_own_store(&s->p, s->workspace_target, s->hidden, &s->host_state, e);
	if (r == 0 && s->policy)
		r = start_proxy(s, e);
	s->prepared_ns = clock_ns();
	return r < 0 || s->p.late ? r : s->driver->sandbox_new(&s->params, &s->sandbox, e);
}

struct session *session_alloc(const struct session_params *p)
{
	struct session *s = xcalloc(1, sizeof *s);

	s->p = *p;
	sandbox_spec_copy(&s->spec, p->spec);
	s->begin_ns = clock_ns();
	s->home = p->home ? path_clean(p->home) : NULL;
	/* The home of accounts that have none is "/", which is no folder to make writable or to share. */
	if (s->home && str_eq(s->home, "/")) {
		free(TAKE_PTR(s->home));
		s->p.home = NULL;
	}
	return s;
}

int session_new(const struct session_params *p, struct session **ret, struct err *e)
{
	struct session *s = session_alloc(p);
	int r = prepare(s, e);
	if (r < 0) {
		session_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* The time until now was nobody's wait. */
static int make_late(struct session *s, struct err *e)
{
	s->begin_ns = s->prepared_ns = clock_ns();
	return s->driver->sandbox_new(&s->params, &s->sandbox, e);
}

void session_start(struct session *s, session_done_cb done, void *arg)
{
	const struct sandbox_callbacks cb = {
		.on_ready = on_sandbox_ready, .on_lost = on_sandbox_lost, .on_event = on_sandbox_event, .arg = s};
	const struct proxy_callbacks proxy_cb = {.on_blocked = on_blocked,
						 .on_secret_blocked = on_secret_blocked,
						 .on_summary = on_summary,
						 .on_lost = on_proxy_lost,
						 .arg = s};
	struct err e = ERR_INIT;
	int r = 0;

	s->state = SESSION_STARTING;
	s->start_done = done;
	s->start_arg = arg;
	if (s->proxy) {
		r = proxy_attach(s->proxy, s->p.loop, &proxy_cb, on_proxy_ready, s, &e);
		s->proxy_attached = r == 0;
	}
	if (r == 0 && !s->sandbox)
		r = make_late(s, &e);
	s->sandbox_started = s->sandbox != NULL;
	if (r == 0 && s->driver->mounts_by_path)
		r = sources_open(s, &s->sources, &e);
	if (r == 0 && s->sandbox)
		r = s->sandbox->ops->start(s->sandbox, s->p.loop, &cb, &e);
	if (r < 0)
		fail_start(s, &e);
}

void session_add_env(const struct session *s, struct strv *env)
{
	if (s->proxy)
		proxy_env_add(env, s->sandbox->proxy_host, s->proxy_port, s->token, !s->sandbox->without_guest);
	session_inspect_env(s, env);
}

int session_exec(struct session *s, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		 struct err *e)
{
	auto_strv env = {0};
	struct exec_opts x = *o;

	if (s->state != SESSION_RUNNING)
		return err_set(e, ERR_SANDBOX, ESHUTDOWN, "start %s: the sandbox is not running", o->argv[0]);
	for (const char *const *v = o->env; *v; v++)
		strv_add(&env, *v);
	session_add_env(s, &env);
	static const char *const none[] = {NULL};
	x.env = env.n ? (const char *const *)env.v : none;
	if (!x.cwd)
		x.cwd = s->workspace_target;
	return s->sandbox->ops->exec(s->sandbox, &x, done, arg, ret, e);
}

int session_open_terminal(struct session *s, int *ret_outer, int *ret_inner, struct err *e)
{
	auto_fd outer = s->state == SESSION_RUNNING ? s->sandbox->ops->open_terminal(s->sandbox) : -ESHUTDOWN;
	int r = outer < 0 ? outer : 0;

	if (r == 0 && unlockpt(outer) < 0)
		r = -errno;
	/* By descriptor, not by name: the pair of this very devpts (TIOCGPTPEER, ioctl_tty(2)). */
	int inner = r == 0 ? ioctl(outer, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
	if (r == 0 && inner < 0)
		r = -errno;
	if (r < 0) {
		(void)err_sys(e, -r, "make a terminal for the program");
		err_hint(e, "The limit may be used up (kernel.pty.max); end other terminals, or run without one.");
		return r;
	}
	*ret_outer = TAKE_FD(outer);
	*ret_inner = inner;
	return 0;
}

void exec_signal(struct exec *x, int sig)
{
	x->ops->signal(x, sig);
}

void exec_resize(struct exec *x, unsigned rows, unsigned cols)
{
	x->ops->resize(x, rows, cols);
}

const char *session_workspace(const struct session *s)
{
	return s->workspace_target;
}

const char *session_home(const struct session *s)
{
	/* What is shared of the user's home stands at its own path; without that, HOME is the image's user's. */
	bool image = s->spec.image || s->spec.build.dockerfile;
	if (image && (s->spec.host_state == HOST_STATE_NONE || !s->home))
		return NULL;
	return s->home ? s->home : "/";
}

const struct strv *session_image_env(const struct session *s)
{
	static const struct strv none = {0};

	return s->sandbox ? &s->sandbox->env : &none;
}

const char *session_artifact_files(const struct session *s)
{
	return s->p.artifact_files && s->driver->artifact_files ? s->driver->artifact_files : s->p.artifact_files;
}

const char *session_attachments(const struct session *s)
{
	return s->p.attachments && s->driver->attachments ? s->driver->attachments : s->p.attachments;
}

const char *session_driver(const struct session *s)
{
	return driver_name(s->driver);
}

static void check_stopped(struct session *s)
{
	if (s->sandbox_stopping || s->proxy_stopping)
		return;
	auto_free char *planted = s->had_store || s->driver == &driver_noop ? NULL : workspace_store(s);
	if (planted)
		session_emit_planted(s, planted);
	session_emit_stopped(s);
	s->state = SESSION_STOPPED;
	s->stop_done(s->stop_arg, NULL);
}

static void on_sandbox_stopped(void *arg, bool killed)
{
	struct session *s = arg;

	s->was_killed = killed;
	s->sandbox_stopping = false;
	check_stopped(s);
}

static void on_proxy_stopped(void *arg)
{
	struct session *s = arg;

	s->proxy_stopping = false;
	check_stopped(s);
}

void session_stop(struct session *s, session_done_cb done, void *arg)
{
	if (s->state == SESSION_STOPPING)
		return;
	s->stop_done = done;
	s->stop_arg = arg;
	s->emit_stopped = s->was_started;
	if (s->start_done) {
		struct err e = ERR_INIT;
		(void)err_set(&e, ERR_CANCELLED, ECANCELED, "start the sandbox: the run was cancelled");
		fail_start(s, &e);
	}
	s->state = SESSION_STOPPING;
	/* Both at once: neither waits for the other. Each counts before either may answer. */
	s->sandbox_stopping = s->sandbox_started;
	s->proxy_stopping = s->proxy_attached;
	if (s->sandbox_started)
		s->sandbox->ops->stop(s->sandbox, on_sandbox_stopped, s);
	if (s->proxy_attached)
		proxy_stop(s->proxy, DRAIN_MS, on_proxy_stopped, s);
	if (!s->sandbox_started && !s->proxy_attached)
		check_stopped(s);
}

void session_free(struct session *s)
{
	if (!s)
		return;
	if (s->sandbox)
		s->sandbox->ops->free(s->sandbox);
	proxy_free(s->proxy);
	session_inspect_done(s);
	policy_free(s->policy);
	sandbox_spec_done(&s->spec);
	host_state_done(&s->host_state);
	explicit_bzero(s->token, sizeof s->token);
	free(s->workspace_target);
	free(s->home);
	free(s->hidden);
	free(s->artifact_files);
	free(s->attachments);
	sources_free(s->sources);
	free(s);
}
