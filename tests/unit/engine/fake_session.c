#include "fake_session.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/spawn.h>
#include <base/str.h>
#include <driver/agent.h>
#include <driver/session.h>
#include <errno.h>
#include <sandbox/spec.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_session fake_session;

struct session {
	struct session_params p;
	struct exec *execs;
	uv_idle_t idle; /* answers start and stop from the loop */
	bool idle_open;
	session_done_cb start_done, stop_done;
	void *start_arg, *stop_arg;
};

struct exec {
	struct session *s;
	exec_done_cb done;
	void *arg;
	pid_t pid;
	int pidfd;
	bool lost;
	struct exec_status st;
	uv_poll_t poll;
	uv_idle_t idle;
	struct exec *next;
};

void fake_session_reset(void)
{
	free(fake_session.env);
	fake_session = (struct fake_session){0};
}

static void emit(struct session *s, const char *type)
{
	json_t *d = json_object();

	json_put_str(d, "driver", "fake");
	s->p.on_event(s->p.arg, type, d);
	json_decref(d);
}

int session_new(const struct session_params *p, struct session **ret, struct err *e)
{
	if (fake_session.new_error.kind) {
		err_copy(e, &fake_session.new_error);
		return -ENOTSUP;
	}
	struct session *s = xcalloc(1, sizeof *s);
	s->p = *p;
	fake_session.made++;
	fake_session.late += p->late;
	if (fake_session.early_event)
		emit(s, "sandbox_warning");
	*ret = s;
	return 0;
}

static void on_idle_closed(uv_handle_t *h)
{
	struct session *s = h->data;

	s->idle_open = false;
	if (s->p.spec->mode != SANDBOX_NONE)
		emit(s, "sandbox_stopped");
	s->stop_done(s->stop_arg, NULL);
}

static void on_idle(uv_idle_t *idle)
{
	struct session *s = idle->data;

	uv_idle_stop(idle);
	if (s->stop_done) {
		if (!s->execs)
			uv_close((uv_handle_t *)idle, on_idle_closed);
		return;
	}
	session_done_cb done = TAKE_PTR(s->start_done);
	bool fails = fake_session.start_error.kind && (s->p.late || !fake_session.only_late);
	if (!fails && s->p.spec->mode != SANDBOX_NONE)
		emit(s, "sandbox_started");
	if (done)
		done(s->start_arg, fails ? &fake_session.start_error : NULL);
}

void session_start(struct session *s, session_done_cb done, void *arg)
{
	fake_session.started++;
	s->start_done = done;
	s->start_arg = arg;
	(void)uv_idle_init(s->p.loop, &s->idle);
	s->idle.data = s;
	s->idle_open = true;
	(void)uv_idle_start(&s->idle, on_idle);
}

static void on_exec_closed(uv_handle_t *h)
{
	struct exec *x = h->data, **p = &x->s->execs;
	struct session *s = x->s;

	while (*p != x)
		p = &(*p)->next;
	*p = x->next;
	if (x->pidfd >= 0)
		close(x->pidfd);
	x->done(x->arg, &x->st);
	free(x);
	if (s->stop_done && !s->execs)
		(void)uv_idle_start(&s->idle, on_idle);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
	struct exec *x = poll->data;
	struct spawn_status st = {0};

	(void)status;
	(void)events;
	if (spawn_reap(x->pid, &st) == 0)
		return;
	x->st = (struct exec_status){
		.end = x->lost	     ? EXEC_LOST
		       : st.signaled ? EXEC_SIGNALED
				     : EXEC_EXITED,
		.code = st.code,
		.core = st.core,
	};
	uv_close((uv_handle_t *)poll, on_exec_closed);
}

static void on_not_run(uv_idle_t *idle)
{
	uv_close((uv_handle_t *)idle, on_exec_closed);
}

static void keep_env(const char *const *env)
{
	auto_buf b = BUF_INIT(1 << 20);

	for (; *env; env++)
		(void)buf_printf(&b, "%s\n", *env);
	free(fake_session.env);
	fake_session.env = buf_steal(&b);
}

int session_exec(struct session *s, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		 struct err *e)
{
	union {
		const char *const *is;
		char *const *wanted;
	} argv = {.is = o->argv}, env = {.is = o->env};
	const struct spawn_opts so = {
		.file = o->argv[0],
		.argv = argv.wanted,
		.envp = env.wanted,
		.stdio = {o->stdio[0], o->stdio[1], o->stdio[2]},
		.cwd = o->cwd ? o->cwd : s->p.workspace,
		.own_group = true,
		.death_signal = SIGKILL,
	};
	struct exec *x = xcalloc(1, sizeof *x);

	keep_env(o->env);
	*x = (struct exec){.s = s, .done = done, .arg = arg, .pidfd = -1, .next = s->execs};
	s->execs = x;
	*ret = x;
	int r = spawn_start(&so, &x->pid, &x->pidfd, e);
	if (r < 0) {
		x->st = (struct exec_status){.end = EXEC_NOT_FOUND, .code = -r};
		(void)uv_idle_init(s->p.loop, &x->idle);
		x->idle.data = x;
		(void)uv_idle_start(&x->idle, on_not_run);
		return 0;
	}
	(void)uv_poll_init(s->p.loop, &x->poll, x->pidfd);
	x->poll.data = x;
	(void)uv_poll_start(&x->poll, UV_READABLE, on_ended);
	if (++fake_session.execs == fake_session.lose_at) {
		struct err lost = ERR_INIT;
		(void)err_set(&lost, ERR_SANDBOX, ECONNRESET, "the sandbox ended by itself");
		err_hint(&lost, "look");
		x->lost = true;
		kill(-x->pid, SIGKILL);
		s->p.on_lost(s->p.arg, &lost);
	}
	return 0;
}

void exec_signal(struct exec *x, int sig)
{
	if (x->pid > 0)
		kill(-x->pid, sig);
}

void exec_resize(struct exec *x, unsigned rows, unsigned cols)
{
	(void)x;
	(void)rows;
	(void)cols;
}

const char *session_workspace(const struct session *s)
{
	return s->p.workspace;
}

const char *session_artifact_files(const struct session *s)
{
	return s->p.artifact_files;
}

const char *session_attachments(const struct session *s)
{
	return s->p.attachments;
}

const struct strv *session_image_env(const struct session *s)
{
	static const struct strv none;

	(void)s;
	return &none;
}

const char *session_home(const struct session *s)
{
	return s->p.home ? s->p.home : "/inside";
}

const char *session_driver(const struct session *s)
{
	(void)s;
	return "fake";
}

void session_stop(struct session *s, session_done_cb done, void *arg)
{
	struct err cancelled = ERR_INIT;

	if (s->stop_done)
		return;
	fake_session.stopped++;
	s->stop_done = done;
	s->stop_arg = arg;
	for (struct exec *x = s->execs; x; x = x->next) {
		x->lost = true;
		exec_signal(x, SIGKILL);
	}
	(void)err_set(&cancelled, ERR_CANCELLED, ECANCELED, "start: cancelled");
	session_done_cb start_done = TAKE_PTR(s->start_done);
	if (start_done)
		start_done(s->start_arg, &cancelled);
	(void)uv_idle_start(&s->idle, on_idle);
}

void session_free(struct session *s)
{
	if (!s)
		return;
	fake_session.freed++;
	free(s);
}

/* What only agents that talk to a model need; no test of the engine has one. */
int session_guest(const struct session *s, char **ret, struct err *e)
{
	(void)s;
	(void)ret;
	return err_set(e, ERR_SANDBOX, ENOENT, "the fake session has no guest");
}

int egress_check_host(const struct session *s, const char *host, uint16_t port, struct egress *ret, struct err *e)
{
	(void)s;
	(void)port;
	(void)ret;
	return err_set(e, ERR_NETWORK, EACCES, "the fake session reaches no %s", host);
}

int egress_check_address(const struct egress *g, const struct sockaddr *sa, socklen_t len, struct err *e)
{
	(void)g;
	(void)sa;
	(void)len;
	return err_set(e, ERR_NETWORK, EACCES, "the fake session reaches nothing");
}

bool egress_is_open(const struct session *s)
{
	(void)s;
	return false;
}

const char *const *session_resolve(const struct session *s)
{
	(void)s;
	return NULL;
}

const char *session_secret(const struct session *s, const char *name)
{
	(void)s;
	(void)name;
	return NULL;
}

static void ignore_event(void *arg, const char *type, json_t *data)
{
	(void)arg;
	(void)type;
	(void)data;
}

static void ignore_lost(void *arg, const struct err *e)
{
	(void)arg;
	(void)e;
}

static void no_error(void *arg, const struct err *e)
{
	(void)arg;
	if (e)
		abort();
}

struct session *fake_session_open(uv_loop_t *loop, const char *workspace)
{
	static const struct sandbox_spec spec = {.mode = SANDBOX_NONE};
	const struct session_params p = {
		.loop = loop, .spec = &spec, .workspace = workspace, .on_event = ignore_event, .on_lost = ignore_lost};
	struct session *s = NULL;

	fake_session_reset();
	if (session_new(&p, &s, NULL) < 0)
		abort();
	session_start(s, no_error, NULL);
	uv_run(loop, UV_RUN_NOWAIT);
	return s;
}

void fake_session_close(struct session *s, uv_loop_t *loop)
{
	session_stop(s, no_error, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	session_free(s);
	fake_session_reset();
}
