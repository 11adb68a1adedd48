/* Running an engine's or a cluster's command-line program.
 *
 * Two pipes and a pidfd on the loop. The program's end is what counts, not that of its pipes: a helper that it leaves
 * behind (podman's conmon) may hold them for as long as the container lives. What stands in the pipes at the end is
 * read, and no more is waited for. Both texts are bounded, and what goes past is read and dropped, so that a program
 * which says too much never stops. */
#include "cli.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 16 * 1024, LINE_MAX_LEN = 4096 };

struct stream {
	struct cli *owner;
	int fd;
	uv_poll_t poll;
	struct buf text;
	struct buf line; /* the line that is coming, when anybody wants lines */
	bool cut;
	bool tail; /* keeps the end of the text, not its beginning */
};

struct cli {
	pid_t pid;
	int pidfd;
	uv_poll_t exit;
	uv_timer_t timeout;
	struct stream out, err;
	struct spawn_status status;
	bool timed_out;
	bool ended;
	unsigned open_handles;
	void (*on_line)(void *arg, const char *line);
	void *line_arg;
	void (*on_out)(void *arg, const char *data, size_t len);
	void *out_arg;
	cli_done_cb done;
	void *arg;
};

bool cli_ok(const struct cli_result *r)
{
	return !r->timed_out && !r->status.signaled && r->status.code == 0;
}

static void keep(struct stream *s, const char *data, size_t len)
{
	if (s->tail && s->text.len + len > s->text.max) {
		if (len > s->text.max) {
			data += len - s->text.max;
			len = s->text.max;
		}
		buf_consume(&s->text, s->text.len + len - s->text.max);
		s->cut = true;
	}
	size_t room = s->text.max - s->text.len;
	s->cut |= len > room;
	(void)buf_add(&s->text, data, MIN(len, room));
}

static void end_line(struct stream *s)
{
	if (s->line.len)
		s->owner->on_line(s->owner->line_arg, buf_str(&s->line));
	buf_clear(&s->line);
}

static void pass_lines(struct stream *s, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n' || data[i] == '\r')
			end_line(s);
		else if (data[i])
			(void)buf_putc(&s->line, data[i]);
	}
}

/* Reads what is there; false at the end of the pipe. */
static bool drain(struct stream *s)
{
	char chunk[CHUNK];

	for (;;) {
		ssize_t n = read(s->fd, chunk, sizeof chunk);
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		keep(s, chunk, (size_t)n);
		if (s->owner->on_line)
			pass_lines(s, chunk, (size_t)n);
		if (s->owner->on_out && !s->tail)
			s->owner->on_out(s->owner->out_arg, chunk, (size_t)n);
	}
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct stream *s = poll->data;

	(void)events;
	if (status < 0 || !drain(s))
		uv_poll_stop(poll);
}

static void cli_free(struct cli *c)
{
	close_quietly(c->pidfd);
	close_quietly(c->out.fd);
	close_quietly(c->err.fd);
	buf_done(&c->out.text);
	buf_done(&c->err.text);
	buf_done(&c->out.line);
	buf_done(&c->err.line);
	free(c);
}

static void finish(struct cli *c)
{
	const struct cli_result r = {
		.status = c->status,
		.timed_out = c->timed_out,
		.out_cut = c->out.cut,
		.out = buf_str(&c->out.text),
		.out_len = c->out.text.len,
		.err = buf_str(&c->err.text),
		.err_len = c->err.text.len,
	};

	c->done(c->arg, &r);
	cli_free(c);
}

static void on_closed(uv_handle_t *h)
{
	struct cli *c = h->data;

	if (--c->open_handles == 0)
		finish(c);
}

static void on_stream_closed(uv_handle_t *h)
{
	const struct stream *s = h->data;

	if (--s->owner->open_handles == 0)
		finish(s->owner);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
	struct cli *c = poll->data;
	struct stream *const streams[] = {&c->out, &c->err};

	(void)status;
	(void)events;
	if (c->ended || spawn_reap(c->pid, &c->status) == 0)
		return;
	c->ended = true;
	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		(void)drain(streams[i]);
		if (c->on_line)
			end_line(streams[i]);
		uv_close((uv_handle_t *)&streams[i]->poll, on_stream_closed);
	}
	uv_close((uv_handle_t *)&c->exit, on_closed);
	uv_close((uv_handle_t *)&c->timeout, on_closed);
}

static void on_timeout(uv_timer_t *timer)
{
	struct cli *c = timer->data;

	c->timed_out = true;
	cli_signal(c, SIGKILL);
}

void cli_signal(struct cli *c, int sig)
{
	/* Our own child and its group: until it is reaped their number belongs to nobody else. */
	if (!c->ended)
		(void)kill(-c->pid, sig);
}

void cli_limit(struct cli *c, unsigned timeout_ms)
{
	if (c->ended)
		return;
	/* The loop's clock may stand since long ago. */
	uv_update_time(c->timeout.loop);
	(void)uv_timer_start(&c->timeout, on_timeout, timeout_ms, 0);
}

static int make_pipe(struct stream *s, int *ret_write_end, struct err *e)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe");
	s->fd = fds[0];
	*ret_write_end = fds[1];
	int r = fd_set_nonblock(s->fd, true);
	return r < 0 ? err_sys(e, -r, "make a pipe") : 0;
}

static int spawn(struct cli *c, const struct cli_opts *o, struct err *e)
{
	auto_fd out = -1;
	auto_fd err = -1;

	int r = make_pipe(&c->out, &out, e);
	if (r == 0)
		r = make_pipe(&c->err, &err, e);
	if (r < 0)
		return r;
	const struct spawn_opts so = {
		.file = o->argv[0],
		.argv = spawn_words(o->argv),
		.envp = environ,
		.stdio = {o->stdin_fd, o->out_fd > 0 ? o->out_fd : out, err},
		.cwd = o->cwd,
		.own_group = true,
		.death_signal = SIGKILL,
	};
	return spawn_start(&so, &c->pid, &c->pidfd, e);
}

/* Cannot fail half-way: a descriptor that epoll takes once it takes again, and the three are such. */
static int watch(struct cli *c, uv_loop_t *loop, const struct cli_opts *o)
{
	struct stream *const streams[] = {&c->out, &c->err};
	int r = uv_poll_init(loop, &c->exit, c->pidfd);

	if (r < 0)
		return r;
	(void)uv_timer_init(loop, &c->timeout);
	c->exit.data = c->timeout.data = c;
	c->open_handles = 4;
	(void)uv_poll_start(&c->exit, UV_READABLE, on_ended);
	if (o->timeout_ms)
		cli_limit(c, o->timeout_ms);
	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		(void)uv_poll_init(loop, &streams[i]->poll, streams[i]->fd);
		streams[i]->poll.data = streams[i];
		(void)uv_poll_start(&streams[i]->poll, UV_READABLE, on_readable);
	}
	return 0;
}

int cli_start(uv_loop_t *loop, const struct cli_opts *o, cli_done_cb done, void *arg, struct cli **ret, struct err *e)
{
	struct cli *c = xcalloc(1, sizeof *c);

	*c = (struct cli){
		.pidfd = -1,
		.done = done,
		.arg = arg,
		.on_line = o->on_line,
		.line_arg = o->line_arg,
		.on_out = o->on_out,
		.out_arg = o->out_arg,
	};
	c->out = (struct stream){.owner = c, .fd = -1, .text = BUF_INIT(o->out_limit), .line = BUF_INIT(LINE_MAX_LEN)};
	c->err = (struct stream){
		.owner = c, .fd = -1, .text = BUF_INIT(CLI_ERR_TAIL), .line = BUF_INIT(LINE_MAX_LEN), .tail = true};
	int r = spawn(c, o, e);
	if (r == 0) {
		r = watch(c, loop, o);
		if (r < 0) {
			(void)err_sys(e, -r, "watch %s", o->argv[0]);
			(void)kill(-c->pid, SIGKILL);
			while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
	}
	if (r < 0) {
		cli_free(c);
		return r;
	}
	if (ret)
		*ret = c;
	return 0;
}

int cli_run(const struct cli_opts *o, cli_done_cb done, void *arg, struct err *e)
{
	uv_loop_t loop;
	int r = uv_loop_init(&loop);

	if (r < 0)
		return err_sys(e, -r, "make a loop for %s", o->argv[0]);
	r = cli_start(&loop, o, done, arg, NULL, e);
	if (r == 0)
		(void)uv_run(&loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&loop);
	return r;
}
