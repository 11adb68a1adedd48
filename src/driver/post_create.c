/* The commands of a sandbox's start: those of devcontainer.json in their order, and the block's post_create (`sh -c
 * COMMAND`) behind postCreateCommand, which it is the counterpart of. A stage is over when all its commands have ended
 * well; the first that fails ends the start, and the session takes the sandbox away from the others.
 *
 * A command's stdout and stderr share one pipe, of which the last 4 KiB are kept for the message when it fails. As for
 * nodes, its end is the end of the program, not of what it left in the background: what stands in the pipe then is
 * read, and no more is waited for.
 *
 * The list lives until the last command has ended, which may be after the session has its answer; from then on it emits
 * events but says no more. */
#include "post_create.h"
#include "session_priv.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <driver/limits.h>
#include <sandbox/devcontainer.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAIL = 4096, CHUNK = 16 * 1024 };

/* The stages with post_create among them. */
enum step { ON_CREATE, UPDATE_CONTENT, POST_CREATE, BLOCK_POST_CREATE, POST_START, STEPS };

struct list {
	struct session *session;
	session_done_cb done; /* NULL: it was called */
	void *arg;
	unsigned step; /* the next one */
	size_t running;
};

struct hook {
	struct list *list;
	char *name;
	uv_poll_t poll;
	int out; /* our end of the pipe */
	struct buf tail;
	uint64_t begin_ns;
};

static void keep_tail(struct hook *h, const char *data, size_t len)
{
	if (len >= TAIL) {
		data += len - TAIL;
		len = TAIL;
	}
	if (h->tail.len + len > TAIL)
		buf_consume(&h->tail, h->tail.len + len - TAIL);
	(void)buf_add(&h->tail, data, len);
}

/* Reads what is there; false at the end of the pipe. */
static bool drain(struct hook *h)
{
	char chunk[CHUNK];

	for (;;) {
		ssize_t n = read(h->out, chunk, sizeof chunk);
		if (n > 0)
			keep_tail(h, chunk, (size_t)n);
		else
			return n < 0 && (errno == EAGAIN || errno == EINTR);
	}
}

static void on_output(uv_poll_t *poll, int status, int events)
{
	struct hook *h = poll->data;

	(void)events;
	if (status < 0 || !drain(h))
		uv_poll_stop(poll);
}

static void hook_free(struct hook *h)
{
	close_quietly(h->out);
	buf_done(&h->tail);
	free(h->name);
	free(h);
}

static void on_poll_closed(uv_handle_t *handle)
{
	hook_free(handle->data);
}

static void explain(const struct hook *h, const struct exec_status *st, struct err *e)
{
	const char *how = st->end == EXEC_EXITED ? "exit code" : st->end == EXEC_SIGNALED ? "signal" : "errno";

	if (st->end == EXEC_LOST)
		(void)err_set(e, ERR_SANDBOX, ECHILD, "%s: the sandbox ended under it", h->name);
	else
		(void)err_set(e, ERR_SANDBOX, EIO, "%s failed with %s %d; its last words: %s", h->name, how, st->code,
			      h->tail.len ? buf_str(&h->tail) : "none");
	limits_explain(st, e);
	err_hint(e, "Run the command with `iterion sandbox exec -- sh -c '…'` to see what it needs.");
}

static void emit(const struct hook *h, const struct exec_status *st)
{
	const struct session *s = h->list->session;

	if (!s->p.on_event)
		return;
	auto_json d = json_object();
	json_put_str(d, "name", h->name);
	json_put(d, "duration_ms", json_real((double)((clock_ns() - h->begin_ns) / 1000u) / 1000.0));
	json_put_int(d, "exit_code",
		     st->end == EXEC_EXITED	? st->code
		     : st->end == EXEC_SIGNALED ? 128 + st->code
						: 127);
	s->p.on_event(s->p.arg, "sandbox_post_create", d);
}

static void answer(struct list *l, const struct err *e)
{
	session_done_cb done = TAKE_PTR(l->done);

	if (done)
		done(l->arg, e);
}

static void advance(struct list *l);

static void on_ended(void *arg, const struct exec_status *st)
{
	struct hook *h = arg;
	struct list *l = h->list;

	(void)drain(h);
	emit(h, st);
	if (st->end != EXEC_EXITED || st->code != 0) {
		struct err why = ERR_INIT;
		explain(h, st, &why);
		answer(l, &why);
	}
	uv_poll_stop(&h->poll);
	uv_close((uv_handle_t *)&h->poll, on_poll_closed);
	/* Only now: the answer may have stopped the sandbox, and with it, from in there, all others of the list. */
	l->running--;
	advance(l);
}

/* What a command's programs find: the container's own variables, those that are for execs only, and the proxy's. */
static void make_env(const struct session *s, struct strv *own, struct strv *env)
{
	const struct strv *image = session_image_env(s);

	for (size_t i = 0; i < image->n; i++)
		strv_add(own, image->v[i]);
	if (!strv_get_env(own, "PATH"))
		strv_set_env(own, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	if (session_home(s))
		strv_set_env(own, "HOME", session_home(s));
	for (size_t i = 0; i < s->spec.env.n; i++) {
		auto_free char *name = xstrndup(s->spec.env.v[i], strcspn(s->spec.env.v[i], "="));
		strv_set_env(own, name, strchr(s->spec.env.v[i], '=') + 1);
	}
	for (size_t i = 0; i < own->n; i++)
		strv_add(env, own->v[i]);
	devcontainer_apply_remote_env(env, &s->spec.remote_env);
	session_add_env(s, env);
}

/* The pipe and the watch on it. */
static int watch(struct hook *h, int *ret_write_end, struct err *e)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe for %s", h->name);
	h->out = fds[0];
	*ret_write_end = fds[1];
	int r = fd_set_nonblock(h->out, true);
	if (r == 0)
		r = uv_poll_init(h->list->session->p.loop, &h->poll, h->out);
	if (r < 0)
		return err_sys(e, -r, "watch the output of %s", h->name);
	h->poll.data = h;
	return 0;
}

static int exec_command(struct hook *h, const struct strv *argv, struct err *e)
{
	struct session *s = h->list->session;
	auto_strv own = {0};
	auto_strv env = {0};
	auto_strv words = {0};
	auto_fd write_end = -1;
	struct exec *x;

	make_env(s, &own, &env);
	for (size_t i = 0; i < argv->n; i++)
		strv_take(&words, devcontainer_expand_env(&own, argv->v[i]));
	int r = watch(h, &write_end, e);
	if (r < 0)
		return r;
	const struct exec_opts o = {.argv = (const char *const *)words.v,
				    .env = (const char *const *)env.v,
				    .cwd = s->workspace_target,
				    .stdio = {-1, write_end, write_end}};
	r = s->sandbox->ops->exec(s->sandbox, &o, on_ended, h, &x, e);
	if (r == 0)
		(void)uv_poll_start(&h->poll, UV_READABLE, on_output);
	return r;
}

static int start(struct list *l, const char *name, const struct strv *argv, struct err *e)
{
	struct hook *h = xcalloc(1, sizeof *h);

	*h = (struct hook){.list = l, .name = xstrdup(name), .out = -1, .begin_ns = clock_ns()};
	h->tail = BUF_INIT(TAIL);
	int r = exec_command(h, argv, e);
	if (r == 0)
		l->running++;
	else if (h->poll.data)
		uv_close((uv_handle_t *)&h->poll, on_poll_closed);
	else
		hook_free(h);
	return r;
}

static int start_block(struct list *l, struct err *e)
{
	auto_strv argv = {0};

	if (!l->session->spec.post_create)
		return 0;
	strv_add(&argv, "sh");
	strv_add(&argv, "-c");
	strv_add(&argv, l->session->spec.post_create);
	return start(l, "post_create", &argv, e);
}

static int start_step(struct list *l, enum step step, struct err *e)
{
	static const enum sandbox_stage stages[STEPS] = {
		[ON_CREATE] = STAGE_ON_CREATE,
		[UPDATE_CONTENT] = STAGE_UPDATE_CONTENT,
		[POST_CREATE] = STAGE_POST_CREATE,
		[POST_START] = STAGE_POST_START,
	};

	if (step == BLOCK_POST_CREATE)
		return start_block(l, e);
	const struct sandbox_hook *h = &l->session->spec.lifecycle.stages[stages[step]];
	int r = 0;
	for (size_t i = 0; r == 0 && i < h->n; i++)
		r = start(l, h->v[i].name, &h->v[i].argv, e);
	return r;
}

/* Starts what comes next when nothing runs, and ends the list behind the last. */
static void advance(struct list *l)
{
	struct err why = ERR_INIT;

	/* Counts itself as running, for the same reason. */
	l->running++;
	while (l->running == 1 && l->done && l->step < STEPS)
		if (start_step(l, (enum step)l->step++, &why) < 0)
			answer(l, &why);
	l->running--;
	if (l->running > 0)
		return;
	answer(l, NULL);
	free(l);
}

bool post_create_wanted(const struct sandbox_spec *spec)
{
	return spec->post_create || !lifecycle_empty(&spec->lifecycle);
}

void post_create_run(struct session *s, session_done_cb done, void *arg)
{
	struct list *l = xcalloc(1, sizeof *l);

	*l = (struct list){.session = s, .done = done, .arg = arg};
	advance(l);
}
