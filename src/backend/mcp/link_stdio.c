/* A server that is a program: a message is a line, in on its standard input, out on its standard output. What it writes
 * to standard error is for people; its latest words are kept, to say why it ended.
 *
 * However it goes down — it exits, closes its output, writes a line past the limit, does not read what it is sent — the
 * link waits for the end of the program, takes what still stands in its pipes, and then says so, once. Closing the link
 * closes the program's input, which is how a server is asked to end; TERM follows when it does not, then KILL. */
#include "config.h"
#include "stream/lines.h"
#include "link.h"
#include "proc.h"
#include "rpc.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	QUEUE_MAX = 2 * RPC_MESSAGE_MAX, /* bytes that wait for the program to read them */
	READ_CHUNK = 64 * 1024,
	TAIL_MAX = 4 * 1024,
	TAIL_SHOWN = 300,
	TERM_AFTER_MS = 500, /* its input was closed */
	KILL_AFTER_MS = 2000,
	SECRET_MIN = 6, /* shorter values are no secrets, and words like "1" stand everywhere */
};

struct stdio {
	struct mcp_link base;
	const struct mcp_spec *spec;
	struct proc proc;
	uv_pipe_t pipes[3]; /* our ends of its standard input, output and error */
	uv_timer_t timer;
	unsigned open; /* of these and the program, not closed yet */
	struct lines lines;
	struct buf tail;
	char *chunk;
	struct err reason; /* why we end it */
	bool closing;	   /* link_close was called: no more events */
	bool over;	   /* the program has ended */
};

struct write {
	uv_write_t req;
	char data[];
};

static void closed(struct stdio *l)
{
	if (--l->open > 0)
		return;
	struct link_events ev = l->base.ev;
	lines_done(&l->lines);
	buf_done(&l->tail);
	free(l->chunk);
	free(l);
	ev.on_closed(ev.arg);
}

static void on_handle_closed(uv_handle_t *h)
{
	closed(h->data);
}

static void close_handles(struct stdio *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->pipes); i++)
		if (!uv_is_closing((uv_handle_t *)&l->pipes[i]))
			uv_close((uv_handle_t *)&l->pipes[i], on_handle_closed);
	uv_close((uv_handle_t *)&l->timer, on_handle_closed);
}

static void on_kill(uv_timer_t *timer)
{
	const struct stdio *l = timer->data;

	proc_signal(&l->proc, SIGKILL);
}

static void on_term(uv_timer_t *timer)
{
	const struct stdio *l = timer->data;

	proc_signal(&l->proc, SIGTERM);
	(void)uv_timer_start(timer, on_kill, KILL_AFTER_MS, 0);
}

/* The first reason counts. */
static void give_up(struct stdio *l, const struct err *why)
{
	if (l->over || l->closing || l->reason.kind != ERR_NONE)
		return;
	l->reason = *why;
	proc_signal(&l->proc, SIGKILL);
}

static bool on_line(void *arg, const char *line, size_t len)
{
	struct stdio *l = arg;

	if (l->closing)
		return false;
	if (len > 0)
		l->base.ev.on_message(l->base.ev.arg, line, len);
	return !l->closing;
}

static void take_output(struct stdio *l, const char *data, size_t len)
{
	if (l->closing || l->reason.kind != ERR_NONE || lines_feed(&l->lines, data, len, on_line, l) == 0)
		return;
	struct err e = ERR_INIT;
	(void)err_set(&e, ERR_PROTOCOL, EMSGSIZE, "MCP server %s: it wrote a line of more than %d MiB", l->spec->name,
		      RPC_MESSAGE_MAX / 1024 / 1024);
	err_hint(&e, "let its tools answer with less, for example page by page");
	give_up(l, &e);
}

static void take_words(struct stdio *l, const char *data, size_t len)
{
	if (len > TAIL_MAX) {
		data += len - TAIL_MAX;
		len = TAIL_MAX;
	}
	if (l->tail.len + len > TAIL_MAX)
		buf_consume(&l->tail, l->tail.len + len - TAIL_MAX);
	(void)buf_add(&l->tail, data, len);
}

static void take(struct stdio *l, const uv_stream_t *from, const char *data, size_t len)
{
	if (from == (uv_stream_t *)&l->pipes[1])
		take_output(l, data, len);
	else
		take_words(l, data, len);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
	const struct stdio *l = h->data;

	(void)suggested;
	*ret = uv_buf_init(l->chunk, READ_CHUNK);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct stdio *l = s->data;

	if (n > 0)
		take(l, s, b->base, (size_t)n);
	if (n >= 0)
		return;
	(void)uv_read_stop(s);
	/* Nothing can be heard of it any more: it is asked to end. */
	if (s == (uv_stream_t *)&l->pipes[1] && !l->over && !l->closing)
		(void)uv_timer_start(&l->timer, on_term, TERM_AFTER_MS, 0);
}

/* What stands in the pipe of a program that ended; another process may hold its other end for ever. */
static void drain(struct stdio *l, uv_pipe_t *pipe)
{
	uv_os_fd_t fd;

	if (uv_is_closing((uv_handle_t *)pipe) || uv_fileno((uv_handle_t *)pipe, &fd) < 0)
		return;
	(void)uv_read_stop((uv_stream_t *)pipe);
	for (size_t taken = 0; taken < QUEUE_MAX && !l->closing;) {
		ssize_t n = read(fd, l->chunk, READ_CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		take(l, (uv_stream_t *)pipe, l->chunk, (size_t)n);
		taken += (size_t)n;
	}
}

/* Replaces what the server was given as a secret. */
static void hide(char *text, const char *secret)
{
	size_t len = strlen(secret);

	if (len < SECRET_MIN)
		return;
	for (char *p = strstr(text, secret); p; p = strstr(p, secret))
		memset(p, '*', len);
}

/* The last line that says anything, for people. */
static void last_words(const struct stdio *l, struct buf *to)
{
	auto_free char *text = xstrdup(buf_str(&l->tail));

	for (size_t i = 0; i < l->spec->env.n; i++)
		hide(text, strchr(l->spec->env.v[i], '=') + 1);
	size_t end = strlen(text);
	while (end > 0 && strchr(" \t\r\n", text[end - 1]))
		end--;
	size_t from = end;
	while (from > 0 && text[from - 1] != '\n' && end - from < TAIL_SHOWN)
		from--;
	if (end > from) {
		(void)buf_puts(to, "; it said: ");
		(void)text_neutralise(to, text + from, end - from);
	}
}

static void tell_end(struct stdio *l, const struct exec_status *st)
{
	auto_buf said = BUF_INIT(4 * TAIL_MAX);
	struct err e = l->reason;
	const char *name = l->spec->name;

	last_words(l, &said);
	if (e.kind != ERR_NONE) {
		;
	} else if (st->end == EXEC_NOT_FOUND) {
		(void)err_sys(&e, st->code, "MCP server %s: start %.200s", name, l->spec->argv.v[0]);
		err_hint(&e, "install the program where the server runs (%s), or give its whole path in command",
			 l->spec->sandboxed || l->spec->project ? "in the sandbox, when there is one" : "on the host");
	} else if (st->end == EXEC_LOST) {
		(void)err_set(&e, ERR_SANDBOX, ECONNRESET, "MCP server %s: its sandbox ended", name);
	} else {
		(void)err_set(&e, ERR_NODE, EPIPE, "MCP server %s: it ended with %s %d%s", name,
			      st->end == EXEC_SIGNALED ? "signal" : "exit code", st->code, buf_str(&said));
		err_hint(&e, "run its command by hand: %.200s", l->spec->argv.v[0]);
	}
	l->base.ev.on_down(l->base.ev.arg, &e);
}

static void on_ended(void *arg, const struct exec_status *st)
{
	struct stdio *l = arg;

	drain(l, &l->pipes[1]);
	drain(l, &l->pipes[2]);
	l->over = true;
	(void)uv_timer_stop(&l->timer);
	if (l->closing)
		close_handles(l);
	else
		tell_end(l, st);
	closed(l);
}

static void on_written(uv_write_t *req, int status)
{
	/* A program that does not take its input any more ends, or is found out by its silence. */
	(void)status;
	free(req->data);
}

static int send_line(struct mcp_link *base, const char *text, size_t len, int64_t id, struct err *e)
{
	struct stdio *l = (struct stdio *)base;
	uv_stream_t *in = (uv_stream_t *)&l->pipes[0];

	(void)id;
	if (l->over || l->closing || l->reason.kind != ERR_NONE)
		return err_set(e, ERR_NODE, EPIPE, "MCP server %s: it is ending", l->spec->name);
	if (uv_stream_get_write_queue_size(in) + len > QUEUE_MAX) {
		struct err deaf = ERR_INIT;
		int r = err_set(&deaf, ERR_NODE, ENOBUFS, "MCP server %s: it does not read what it is sent",
				l->spec->name);
		err_hint(&deaf, "look why the server hangs; it is started again when it is needed");
		give_up(l, &deaf);
		err_copy(e, &deaf);
		return r;
	}
	struct write *w = xmalloc(sizeof *w + len + 1);
	memcpy(w->data, text, len);
	w->data[len] = '\n';
	w->req.data = w;
	const uv_buf_t b = uv_buf_init(w->data, (unsigned)len + 1);
	int r = uv_write(&w->req, in, &b, 1, on_written);
	if (r < 0) {
		free(w);
		return err_sys(e, -r, "MCP server %s: write to it", l->spec->name);
	}
	return 0;
}

static void close_link(struct mcp_link *base)
{
	struct stdio *l = (struct stdio *)base;

	l->closing = true;
	if (l->over) {
		close_handles(l);
		return;
	}
	uv_close((uv_handle_t *)&l->pipes[0], on_handle_closed);
	if (l->reason.kind == ERR_NONE)
		(void)uv_timer_start(&l->timer, on_term, TERM_AFTER_MS, 0);
}

static const struct link_ops stdio_ops = {.send = send_line, .close = close_link};

/* Three pipes: ours in the handles, the program's in theirs. */
static int make_pipes(struct stdio *l, int theirs[3], struct err *e)
{
	for (size_t i = 0; i < 3; i++) {
		int fds[2];
		size_t ours = i == 0 ? 1 : 0;
		if (pipe2(fds, O_CLOEXEC) < 0)
			return err_sys(e, errno, "make a pipe for an MCP server");
		theirs[i] = fds[1 - ours];
		int r = uv_pipe_open(&l->pipes[i], fds[ours]);
		if (r < 0) {
			close_quietly(fds[ours]);
			return err_sys(e, -r, "watch a pipe of an MCP server");
		}
	}
	return 0;
}

static int start(struct stdio *l, const struct link_params *p, const int theirs[3], struct err *e)
{
	auto_strv env = {0};

	for (size_t i = 0; i < p->env->n; i++)
		strv_add(&env, p->env->v[i]);
	for (size_t i = 0; i < p->spec->env.n; i++) {
		const char *eq = strchr(p->spec->env.v[i], '=');
		auto_free char *name = xstrndup(p->spec->env.v[i], (size_t)(eq - p->spec->env.v[i]));
		strv_set_env(&env, name, eq + 1);
	}
	static const char *const no_env[] = {NULL};
	const struct exec_opts o = {
		.argv = (const char *const *)p->spec->argv.v,
		.env = env.n ? (const char *const *)env.v : no_env,
		.cwd = p->cwd,
		.stdio = {theirs[0], theirs[1], theirs[2]},
	};
	return proc_start(&l->proc, p->loop, p->session, &o, e);
}

static void on_unused_closed(uv_handle_t *h)
{
	struct stdio *l = h->data;

	if (--l->open > 0)
		return;
	free(l->chunk);
	free(l);
}

int link_stdio_new(const struct link_params *p, struct mcp_link **ret, struct err *e)
{
	struct stdio *l = xcalloc(1, sizeof *l);
	int theirs[3] = {-1, -1, -1};

	*l = (struct stdio){
		.base = {.ops = &stdio_ops, .ev = p->events},
		.spec = p->spec,
		.proc = {.on_ended = on_ended, .arg = l},
		.tail = BUF_INIT(TAIL_MAX),
		.chunk = xmalloc(READ_CHUNK),
		.open = 5,
	};
	lines_init(&l->lines, RPC_MESSAGE_MAX);
	for (size_t i = 0; i < ARRAY_LEN(l->pipes); i++) {
		(void)uv_pipe_init(p->loop, &l->pipes[i], 0);
		l->pipes[i].data = l;
	}
	(void)uv_timer_init(p->loop, &l->timer);
	l->timer.data = l;
	int r = make_pipes(l, theirs, e);
	if (r == 0)
		r = start(l, p, theirs, e);
	for (size_t i = 0; i < 3; i++)
		close_quietly(theirs[i]);
	if (r < 0) {
		l->open = 4;
		for (size_t i = 0; i < ARRAY_LEN(l->pipes); i++)
			uv_close((uv_handle_t *)&l->pipes[i], on_unused_closed);
		uv_close((uv_handle_t *)&l->timer, on_unused_closed);
		return r;
	}
	(void)uv_read_start((uv_stream_t *)&l->pipes[1], on_alloc, on_read);
	(void)uv_read_start((uv_stream_t *)&l->pipes[2], on_alloc, on_read);
	*ret = &l->base;
	return 0;
}
