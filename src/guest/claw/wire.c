/* Envelopes over the two pipes.
 *
 * What comes in is bounded by the length of a line, before it is looked at; what goes out is queued, so that a launcher
 * that reads slowly does not keep the tools' deadlines from being held. Both descriptors are non-blocking. */
#include "wire.h"
#include "react.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ = 64 * 1024, MAX_WAITING = 8 * WIRE_LINE, KEEP = 256 * 1024 };

struct wire {
	struct react *react;
	int in_fd;
	int out_fd;
	struct buf in;
	size_t looked; /* so many bytes of `in` hold no newline */
	bool deaf;     /* nothing more is read */
	struct buf out;
	size_t sent; /* so many bytes of `out` are written */
	struct buf line;
	struct jout json;
	const struct wire_cb *cb;
	void *arg;
};

int envelope_parse(const char *line, size_t len, struct jdoc **ret_doc, struct envelope *ret, struct err *e)
{
	auto_jdoc doc = jdoc_parse(line, len, e);
	struct jv root = doc ? jdoc_root(doc) : (struct jv){0};

	if (!doc)
		return err_wrap(e, -EPROTO, "read an envelope");
	struct jv id = jv_get(root, "id"), data = jv_get(root, "data");
	struct envelope env = {.type = jv_cstr(jv_get(root, "type")), .id = jv_cstr(id), .data = data};
	bool id_fits = jv_type(id) == J_MISSING || jv_type(id) == J_NULL || env.id;
	bool data_fits = jv_type(data) == J_MISSING || jv_type(data) == J_NULL || jv_type(data) == J_OBJECT;
	if (!env.type || !id_fits || !data_fits) {
		const char *what = !env.type  ? "it has no type"
				   : !id_fits ? "its id is no string"
					      : "its data is no object";
		free(env.type);
		free(env.id);
		return err_set(e, ERR_PROTOCOL, EPROTO, "read an envelope: %s", what);
	}
	*ret = env;
	*ret_doc = TAKE_PTR(doc);
	return 0;
}

static void go_deaf(struct wire *w)
{
	w->deaf = true;
	react_forget(w->react, w->in_fd);
}

static void bad(struct wire *w, const struct err *e)
{
	go_deaf(w);
	w->cb->on_bad(w->arg, e);
}

static void take_line(struct wire *w, size_t len)
{
	struct err e = ERR_INIT;
	struct envelope env = {0};
	struct jdoc *doc = NULL;

	int r = envelope_parse(w->in.data, len, &doc, &env, &e);
	buf_consume(&w->in, len + 1);
	w->looked = 0;
	if (w->in.len == 0 && w->in.cap > KEEP)
		buf_done(&w->in);
	if (r < 0) {
		bad(w, &e);
		return;
	}
	w->cb->on_envelope(w->arg, &env);
	free(env.type);
	free(env.id);
	jdoc_free(doc);
}

static void take_lines(struct wire *w)
{
	while (!w->deaf && w->looked < w->in.len) {
		const char *nl = memchr(w->in.data + w->looked, '\n', w->in.len - w->looked);
		if (!nl) {
			w->looked = w->in.len;
			break;
		}
		take_line(w, (size_t)(nl - w->in.data));
	}
	if (!w->deaf && w->in.len >= WIRE_LINE) {
		struct err e = ERR_INIT;
		(void)err_set(&e, ERR_PROTOCOL, EPROTO, "read an envelope: the line is longer than %d bytes",
			      WIRE_LINE);
		bad(w, &e);
	}
}

static void at_end(struct wire *w)
{
	struct err e = ERR_INIT;

	if (w->in.len == 0) {
		go_deaf(w);
		w->cb->on_end(w->arg);
		return;
	}
	(void)err_set(&e, ERR_PROTOCOL, EPROTO, "read an envelope: the input ends inside a line");
	bad(w, &e);
}

static void on_readable(void *arg, short revents)
{
	struct wire *w = arg;
	(void)revents;

	if (w->deaf || buf_reserve(&w->in, MIN((size_t)READ, w->in.max - w->in.len)) < 0)
		return;
	ssize_t n = read(w->in_fd, w->in.data + w->in.len, MIN((size_t)READ, w->in.max - w->in.len));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		at_end(w);
		return;
	}
	w->in.len += (size_t)n;
	w->in.data[w->in.len] = '\0';
	take_lines(w);
}

static void gone(struct wire *w)
{
	react_forget(w->react, w->out_fd);
	buf_done(&w->out);
	w->sent = 0;
	go_deaf(w);
	w->cb->on_end(w->arg);
}

static void flush(struct wire *w)
{
	while (w->sent < w->out.len) {
		ssize_t n = write(w->out_fd, w->out.data + w->sent, w->out.len - w->sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			gone(w);
			return;
		}
		w->sent += (size_t)n;
	}
	w->sent = 0;
	buf_clear(&w->out);
	if (w->out.cap > KEEP)
		buf_done(&w->out);
	react_events(w->react, w->out_fd, 0);
	w->cb->on_flushed(w->arg);
}

static void on_writable(void *arg, short revents)
{
	struct wire *w = arg;

	if (revents & (POLLERR | POLLNVAL))
		gone(w);
	else if (revents & POLLOUT)
		flush(w);
}

struct wire *wire_new(struct react *r, int in, int out, const struct wire_cb *cb, void *arg)
{
	struct wire *w = xcalloc(1, sizeof *w);

	*w = (struct wire){.react = r, .in_fd = in, .out_fd = out, .cb = cb, .arg = arg};
	w->in = BUF_INIT(WIRE_LINE);
	w->out = BUF_INIT(MAX_WAITING);
	/* Room for the end of the envelope is kept aside, see wire_send. */
	w->line = BUF_INIT(WIRE_LINE - 3);
	/* A file or a terminal that cannot do it is served all the same, it only may block. */
	(void)!fd_set_nonblock(in, true);
	(void)!fd_set_nonblock(out, true);
	react_watch(r, in, POLLIN, on_readable, w);
	react_watch(r, out, 0, on_writable, w);
	return w;
}

void wire_free(struct wire *w)
{
	if (!w)
		return;
	buf_done(&w->in);
	buf_done(&w->out);
	buf_done(&w->line);
	free(w);
}

struct jout *wire_open(struct wire *w, const char *type, const char *id)
{
	buf_clear(&w->line);
	w->json = (struct jout){.b = &w->line};
	jout_open(&w->json, '{');
	jout_put_str(&w->json, "type", type);
	jout_put_str(&w->json, "id", id);
	jout_key(&w->json, "data");
	jout_open(&w->json, '{');
	return &w->json;
}

int wire_send(struct wire *w)
{
	int r = jout_end(&w->json);

	if (r == 0)
		r = buf_reserve(&w->out, w->line.len + 3);
	if (r == 0) {
		(void)buf_add(&w->out, w->line.data, w->line.len);
		(void)buf_puts(&w->out, "}}\n");
	}
	if (w->line.cap > KEEP)
		buf_done(&w->line);
	if (r < 0)
		return r;
	/* Written by the loop, not here: what fails there must not call back into the middle of a step. */
	react_events(w->react, w->out_fd, POLLOUT);
	return 0;
}

void wire_send_small(struct wire *w)
{
	(void)!wire_send(w);
}

bool wire_waits(const struct wire *w)
{
	return w->out.len > w->sent;
}

int wire_drain(struct wire *w)
{
	int r = fd_set_nonblock(w->out_fd, false);

	return r < 0 ? r : fd_write_all(w->out_fd, buf_str(&w->out) + w->sent, w->out.len - w->sent);
}
