/* Starting the runner and speaking with it.
 *
 * Three pipes: lines to it, lines from it, and its standard error, of which the end is kept for messages. What it
 * writes is hostile: a line is bounded, and what waits to be read by it is too. As elsewhere the end of the program is
 * the end, not that of its pipes, which a program that it started may hold; what stands in the pipe by then is still
 * taken, since its last words are the most important ones. */
#include "runner.h"

#include "stream/lines.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/session.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 * 1024, QUEUE_MAX = 64 * 1024 * 1024, TAIL = 2048 };

struct runner {
	struct runner_callbacks cb;
	struct exec *exec; /* NULL once it ended */
	struct exec_status status;
	uv_pipe_t in, out, err; /* our ends */
	unsigned open;
	bool silent, unused, closing;
	struct lines lines;
	struct buf tail;
	char chunk[CHUNK];
};

static void runner_free(struct runner *l)
{
	lines_done(&l->lines);
	buf_done(&l->tail);
	free(l);
}

/* The last line of its standard error. */
static void last_words(const struct runner *l, struct buf *to)
{
	const char *end = buf_str(&l->tail) + l->tail.len, *line;

	while (end > buf_str(&l->tail) && strchr(" \r\n\t", end[-1]))
		end--;
	for (line = end; line > buf_str(&l->tail) && line[-1] != '\n';)
		line--;
	(void)text_neutralise(to, line, (size_t)(end - line));
}

static void on_closed(uv_handle_t *h)
{
	struct runner *l = h->data;
	auto_buf words = BUF_INIT(4 * TAIL);

	if (--l->open > 0)
		return;
	last_words(l, &words);
	const struct runner_end end = {
		.status = l->status, .torn = l->lines.rest.len > 0, .stderr_text = buf_str(&words)};
	if (!l->unused)
		l->cb.on_end(l->cb.arg, &end);
	runner_free(l);
}

static bool on_line(void *arg, const char *line, size_t len)
{
	struct runner *l = arg;

	if (!l->silent && len > 0)
		l->cb.on_line(l->cb.arg, line, len);
	return !l->silent;
}

static void take(struct runner *l, const char *data, size_t len)
{
	if (l->silent || lines_feed(&l->lines, data, len, on_line, l) == 0)
		return;
	l->silent = true;
	l->cb.on_too_long(l->cb.arg);
}

static void take_err(struct runner *l, const char *data, size_t len)
{
	size_t keep = MIN(len, (size_t)TAIL);

	if (l->tail.len + keep > TAIL)
		buf_consume(&l->tail, l->tail.len + keep - TAIL);
	(void)buf_add(&l->tail, data + len - keep, keep);
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret)
{
	struct runner *l = h->data;

	(void)size;
	*ret = uv_buf_init(l->chunk, CHUNK);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct runner *l = s->data;

	if (n < 0)
		(void)uv_read_stop(s);
	else if (s == (uv_stream_t *)&l->out)
		take(l, b->base, (size_t)n);
	else
		take_err(l, b->base, (size_t)n);
}

/* What stands in a pipe now. */
static void drain(struct runner *l, uv_pipe_t *p, void (*to)(struct runner *l, const char *data, size_t len))
{
	uv_os_fd_t fd;
	size_t total = 0;

	if (uv_fileno((const uv_handle_t *)p, &fd) < 0)
		return;
	while (total < 4 * RUNNER_LINE_MAX) {
		ssize_t n = read(fd, l->chunk, CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		to(l, l->chunk, (size_t)n);
		total += (size_t)n;
	}
}

static void close_pipes(struct runner *l)
{
	if (l->closing)
		return;
	l->closing = true;
	uv_close((uv_handle_t *)&l->in, on_closed);
	uv_close((uv_handle_t *)&l->out, on_closed);
	uv_close((uv_handle_t *)&l->err, on_closed);
}

static void on_ended(void *arg, const struct exec_status *st)
{
	struct runner *l = arg;

	l->exec = NULL;
	l->status = *st;
	drain(l, &l->out, take);
	drain(l, &l->err, take_err);
	close_pipes(l);
}

/* fds[0] ours, fds[1] the program's. */
static int open_pipe(uv_loop_t *loop, struct runner *l, uv_pipe_t *p, bool to_program, int *ret_theirs, struct err *e)
{
	int fds[2];

	(void)uv_pipe_init(loop, p, 0);
	p->data = l;
	l->open++;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe to claw's runner");
	int ours = fds[to_program ? 1 : 0];
	int r = uv_pipe_open(p, ours);
	if (r < 0) {
		close_quietly(fds[0]);
		close_quietly(fds[1]);
		return err_sys(e, -r, "watch a pipe to claw's runner");
	}
	*ret_theirs = fds[to_program ? 0 : 1];
	return 0;
}

int runner_start(uv_loop_t *loop, struct session *session, const char *const *argv, const char *const *env,
		 const char *cwd, const struct runner_callbacks *cb, struct runner **ret, struct err *e)
{
	struct runner *l = xcalloc(1, sizeof *l);
	auto_fd in = -1;
	auto_fd out = -1;
	auto_fd err = -1;

	l->cb = *cb;
	l->tail = BUF_INIT(2 * TAIL);
	lines_init(&l->lines, RUNNER_LINE_MAX - 1);
	int r = open_pipe(loop, l, &l->in, true, &in, e);
	/* All three are made before the first error is looked at: closing is then the same whatever failed. */
	int r_out = open_pipe(loop, l, &l->out, false, &out, e), r_err = open_pipe(loop, l, &l->err, false, &err, e);
	r = r < 0 ? r : r_out < 0 ? r_out : r_err;
	const struct exec_opts o = {.argv = argv, .env = env, .cwd = cwd, .stdio = {in, out, err}};
	if (r == 0)
		r = session_exec(session, &o, on_ended, l, &l->exec, e);
	if (r < 0) {
		l->unused = true;
		close_pipes(l);
		return r;
	}
	(void)uv_read_start((uv_stream_t *)&l->out, on_alloc, on_read);
	(void)uv_read_start((uv_stream_t *)&l->err, on_alloc, on_read);
	*ret = l;
	return 0;
}

struct sending {
	uv_write_t req;
	char *text;
};

static void on_written(uv_write_t *req, int status)
{
	struct sending *s = req->data;

	(void)status; /* its end, which follows, says more */
	free(s->text);
	free(s);
}

int runner_send(struct runner *l, const json_t *envelope)
{
	if (l->closing)
		return 0;
	char *text = json_compact(envelope);
	size_t len = strlen(text);
	if (len + 1 > RUNNER_LINE_MAX) {
		free(text);
		return -EMSGSIZE;
	}
	if (uv_stream_get_write_queue_size((const uv_stream_t *)&l->in) + len > QUEUE_MAX) {
		free(text);
		return -ENOBUFS;
	}
	text[len] = '\n'; /* in place of the NUL: the length goes with it */
	struct sending *s = xcalloc(1, sizeof *s);
	s->text = text;
	s->req.data = s;
	const uv_buf_t b = uv_buf_init(text, (unsigned)len + 1);
	if (uv_write(&s->req, (uv_stream_t *)&l->in, &b, 1, on_written) < 0) {
		free(text);
		free(s);
	}
	return 0;
}

void runner_stop(struct runner *l)
{
	l->silent = true;
}

void runner_signal(struct runner *l, int sig)
{
	if (l->exec)
		exec_signal(l->exec, sig);
}
