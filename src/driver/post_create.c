/* post_create: `sh -c COMMAND` in the workspace. Its stdout and stderr share one pipe, of which the last 4 KiB are kept
 * for the message when it fails. As for nodes, its end is the end of the shell, not of what it left in the background:
 * what stands in the pipe then is read, and no more is waited for. */
#include "post_create.h"
#include "session_priv.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAIL = 4096, CHUNK = 16 * 1024 };

struct hook {
	struct session *session;
	session_done_cb done;
	void *arg;
	uv_poll_t poll;
	int out; /* our end of the pipe */
	struct buf tail;
	uint64_t begin_ns;
	struct err why; /* kind ERR_NONE: it succeeded */
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

static void on_poll_closed(uv_handle_t *handle)
{
	struct hook *h = handle->data;

	h->done(h->arg, h->why.kind == ERR_NONE ? NULL : &h->why);
	close_quietly(h->out);
	buf_done(&h->tail);
	free(h);
}

static void explain(struct hook *h, const struct exec_status *st)
{
	const char *how = st->end == EXEC_EXITED ? "exit code" : st->end == EXEC_SIGNALED ? "signal" : "errno";

	if (st->end == EXEC_LOST)
		(void)err_set(&h->why, ERR_SANDBOX, ECHILD, "post_create: the sandbox ended under it");
	else
		(void)err_set(&h->why, ERR_SANDBOX, EIO, "post_create failed with %s %d; its last words: %s", how,
			      st->code, h->tail.len ? buf_str(&h->tail) : "none");
	err_hint(&h->why, "Run the command with `iterion sandbox exec -- sh -c '…'` to see what it needs.");
}

static void emit(const struct hook *h, const struct exec_status *st)
{
	const struct session *s = h->session;

	if (!s->p.on_event)
		return;
	auto_json d = json_object();
	json_put_str(d, "name", "post_create");
	json_put(d, "duration_ms", json_real((double)((clock_ns() - h->begin_ns) / 1000u) / 1000.0));
	json_put_int(d, "exit_code",
		     st->end == EXEC_EXITED	? st->code
		     : st->end == EXEC_SIGNALED ? 128 + st->code
						: 127);
	s->p.on_event(s->p.arg, "sandbox_post_create", d);
}

static void on_ended(void *arg, const struct exec_status *st)
{
	struct hook *h = arg;

	(void)drain(h);
	emit(h, st);
	if (st->end != EXEC_EXITED || st->code != 0)
		explain(h, st);
	uv_poll_stop(&h->poll);
	uv_close((uv_handle_t *)&h->poll, on_poll_closed);
}

static int start(struct hook *h, struct err *e)
{
	struct session *s = h->session;
	const char *const argv[] = {"sh", "-c", s->spec.post_create, NULL};
	auto_strv env = {0};
	int fds[2];
	struct exec *x;

	strv_set_env(&env, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	strv_set_env(&env, "HOME", session_home(s));
	for (size_t i = 0; i < s->spec.env.n; i++)
		strv_add(&env, s->spec.env.v[i]);
	session_add_env(s, &env);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe for post_create");
	h->out = fds[0];
	auto_fd write_end = fds[1];
	int r = fd_set_nonblock(h->out, true);
	if (r == 0)
		r = uv_poll_init(s->p.loop, &h->poll, h->out);
	if (r < 0)
		return err_sys(e, -r, "watch the output of post_create");
	h->poll.data = h;
	const struct exec_opts o = {.argv = argv,
				    .env = (const char *const *)env.v,
				    .cwd = s->workspace_target,
				    .stdio = {-1, write_end, write_end}};
	r = s->sandbox->ops->exec(s->sandbox, &o, on_ended, h, &x, e);
	if (r == 0)
		(void)uv_poll_start(&h->poll, UV_READABLE, on_output);
	return r;
}

void post_create_run(struct session *s, session_done_cb done, void *arg)
{
	struct hook *h = xcalloc(1, sizeof *h);

	*h = (struct hook){.session = s, .done = done, .arg = arg, .out = -1, .begin_ns = clock_ns()};
	h->tail = BUF_INIT(TAIL);
	if (start(h, &h->why) == 0)
		return;
	if (h->poll.data) {
		uv_close((uv_handle_t *)&h->poll, on_poll_closed);
		return;
	}
	done(arg, &h->why);
	close_quietly(h->out);
	free(h);
}
