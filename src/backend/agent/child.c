/* An agent's program, its three pipes, and lines out of what it prints.
 *
 * What comes is hostile: a line is bounded, so is what is kept of the standard error (its end), and a turn of the loop
 * takes a bounded number of bytes, so that a flood does not keep other nodes and signals waiting. The end of the
 * program is the end of the run, not the end of the pipes, which something that it left behind may hold open; what it
 * wrote itself stands in the pipe by then and is read to the end. Keys are overwritten before a line is looked at, so
 * that nothing above can put one into an event, an output or an error. */
#include "child.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <driver/session.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
	READ_CHUNK = 64 * 1024,
	TURN = 1024 * 1024,		/* bytes in one go */
	STDERR_SHOWN = 4 * 1024,	/* of its end */
	STDERR_KEPT = 2 * STDERR_SHOWN, /* so that no key is cut where it would show */
	SECRET_MIN = 8,			/* shorter words stand everywhere by chance */
	LAST_MAX = 8 * 1024 * 1024	/* bytes taken behind the end: more does not fit into a pipe */
};

enum pipe_use { IN, OUT, ERR, N_PIPES };

struct channel {
	struct agent_child *owner;
	uv_poll_t poll;
	bool open; /* the handle is initialised */
	int fd, theirs;
};

struct agent_child {
	struct agent_child_opts o;
	struct agent_child_callbacks cb;
	struct exec *exec; /* NULL once it ended */
	struct agent_child_end end;
	struct channel pipes[N_PIPES];
	unsigned open; /* handles that are not closed yet */
	size_t written;
	struct buf line, err;
};

void agent_hide(const struct strv *secrets, char *data, size_t len)
{
	for (size_t i = 0; len > 0 && secrets && i < secrets->n; i++) {
		size_t n = strlen(secrets->v[i]);
		char *at = data;
		while (n >= SECRET_MIN && (at = memmem(at, len - (size_t)(at - data), secrets->v[i], n))) {
			memset(at, '*', n);
			at += n;
		}
	}
}

void agent_child_signal(struct agent_child *c, int sig)
{
	if (c->exec)
		exec_signal(c->exec, sig);
}

static void child_free(struct agent_child *c)
{
	for (size_t i = 0; i < N_PIPES; i++) {
		close_quietly(TAKE_FD(c->pipes[i].fd));
		close_quietly(TAKE_FD(c->pipes[i].theirs));
	}
	buf_done(&c->line);
	buf_done(&c->err);
	free(c);
}

static void answer(struct agent_child *c)
{
	auto_buf shown = BUF_INIT(8 * STDERR_SHOWN);

	agent_hide(c->o.secrets, c->err.data, c->err.len);
	if (c->err.len > STDERR_SHOWN)
		buf_consume(&c->err, c->err.len - STDERR_SHOWN);
	(void)text_neutralise(&shown, buf_str(&c->err), c->err.len);
	c->end.stderr_text = buf_str(&shown);
	c->cb.on_end(c->cb.arg, &c->end);
	child_free(c);
}

static void on_closed(uv_handle_t *h)
{
	struct channel *ch = h->data;
	struct agent_child *c = ch->owner;

	close_quietly(TAKE_FD(ch->fd));
	/* The input may be closed long before the rest. */
	if (--c->open == 0 && !c->exec)
		answer(c);
}

static void channel_close(struct channel *ch)
{
	if (!ch->open)
		return;
	ch->open = false;
	uv_close((uv_handle_t *)&ch->poll, on_closed);
}

static void give_line(struct agent_child *c, char *line, size_t len)
{
	if (len > 0 && line[len - 1] == '\r')
		len--;
	if (len == 0)
		return;
	line[len] = '\0';
	agent_hide(c->o.secrets, line, len);
	c->cb.on_line(c->cb.arg, line, len);
}

/* Hands on every whole line that stands in the buffer; from is where the new bytes begin. */
static void take_lines(struct agent_child *c, size_t from)
{
	size_t start = 0;
	const char *end;

	while (c->line.len > from && (end = memchr(c->line.data + from, '\n', c->line.len - from))) {
		size_t at = (size_t)(end - c->line.data);
		give_line(c, c->line.data + start, at - start);
		start = from = at + 1;
	}
	buf_consume(&c->line, start);
	if (c->line.len <= c->o.line_max)
		return;
	c->end.too_long = true;
	buf_done(&c->line);
	agent_child_signal(c, SIGKILL);
}

static void take(struct agent_child *c, enum pipe_use use, const char *data, size_t len)
{
	if (use == ERR) {
		(void)buf_add(&c->err, data, len);
		if (c->err.len > STDERR_KEPT)
			buf_consume(&c->err, c->err.len - STDERR_KEPT);
	} else if (!c->end.too_long) {
		size_t from = c->line.len;
		(void)buf_add(&c->line, data, len);
		take_lines(c, from);
	}
}

/* Reads at most max bytes: 0 when the pipe is empty or max was reached, -EPIPE at its end. */
static int read_some(struct channel *ch, enum pipe_use use, size_t max)
{
	char chunk[READ_CHUNK];

	while (max > 0) {
		ssize_t n = read(ch->fd, chunk, MIN(max, sizeof chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -EPIPE;
		take(ch->owner, use, chunk, (size_t)n);
		max -= (size_t)n;
	}
	return 0;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct channel *ch = poll->data;
	enum pipe_use use = ch == &ch->owner->pipes[OUT] ? OUT : ERR;

	(void)status;
	(void)events;
	if (read_some(ch, use, TURN) < 0)
		uv_poll_stop(poll);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
	struct channel *ch = poll->data;
	struct agent_child *c = ch->owner;

	(void)events;
	while (status == 0 && c->written < c->o.input_len) {
		ssize_t n = write(ch->fd, c->o.input + c->written, c->o.input_len - c->written);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break; /* it does not want the rest; its end says why */
		c->written += (size_t)n;
	}
	channel_close(ch);
}

/* What it wrote before its end is in the pipes. */
static void drain(struct agent_child *c)
{
	for (size_t i = OUT; i < N_PIPES; i++) {
		int there = 0;
		if (ioctl(c->pipes[i].fd, FIONREAD, &there) == 0 && there > 0)
			(void)read_some(&c->pipes[i], (enum pipe_use)i, MIN((size_t)there, (size_t)LAST_MAX));
	}
	if (c->line.len > 0 && !c->end.too_long)
		give_line(c, c->line.data, c->line.len);
}

static void on_ended(void *arg, const struct exec_status *st)
{
	struct agent_child *c = arg;

	c->exec = NULL;
	c->end.status = *st;
	drain(c);
	for (size_t i = 0; i < N_PIPES; i++)
		channel_close(&c->pipes[i]);
}

static int open_pipe(struct agent_child *c, enum pipe_use use, struct err *e)
{
	struct channel *ch = &c->pipes[use];
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe for a program");
	ch->fd = fds[use == IN];
	ch->theirs = fds[use != IN];
	int r = uv_poll_init(c->o.loop, &ch->poll, ch->fd); /* makes our end, and only that, non-blocking */
	if (r < 0)
		return err_sys(e, -r, "watch a program's pipe");
	ch->poll.data = ch;
	ch->open = true;
	c->open++;
	return 0;
}

static void on_unused_closed(uv_handle_t *h)
{
	struct channel *ch = h->data;

	if (--ch->owner->open == 0)
		child_free(ch->owner);
}

static int discard(struct agent_child *c, int r)
{
	if (c->open == 0)
		child_free(c);
	else
		for (size_t i = 0; i < N_PIPES; i++)
			if (c->pipes[i].open)
				uv_close((uv_handle_t *)&c->pipes[i].poll, on_unused_closed);
	return r;
}

int agent_child_start(const struct agent_child_opts *o, const struct agent_child_callbacks *cb,
		      struct agent_child **ret, struct err *e)
{
	struct agent_child *c = xcalloc(1, sizeof *c);
	int r = 0;

	*c = (struct agent_child){.o = *o, .cb = *cb, .line = BUF_INIT(o->line_max + READ_CHUNK + 1)};
	c->err = BUF_INIT(STDERR_KEPT + READ_CHUNK);
	for (size_t i = 0; i < N_PIPES; i++)
		c->pipes[i] = (struct channel){.owner = c, .fd = -1, .theirs = -1};
	for (size_t i = 0; r == 0 && i < N_PIPES; i++)
		r = open_pipe(c, (enum pipe_use)i, e);
	if (r < 0)
		return discard(c, r);
	const struct exec_opts x = {
		.argv = o->argv,
		.env = o->env,
		.cwd = o->cwd,
		.stdio = {c->pipes[IN].theirs, c->pipes[OUT].theirs, c->pipes[ERR].theirs},
		.oversees = o->oversees,
	};
	r = session_exec(o->session, &x, on_ended, c, &c->exec, e);
	if (r < 0)
		return discard(c, r);
	for (size_t i = 0; i < N_PIPES; i++)
		close_quietly(TAKE_FD(c->pipes[i].theirs));
	(void)uv_poll_start(&c->pipes[IN].poll, UV_WRITABLE, on_writable);
	(void)uv_poll_start(&c->pipes[OUT].poll, UV_READABLE, on_readable);
	(void)uv_poll_start(&c->pipes[ERR].poll, UV_READABLE, on_readable);
	*ret = c;
	return 0;
}
