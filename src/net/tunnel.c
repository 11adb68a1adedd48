/* Tunnels: two directions of bytes that end on their own.
 *
 * Bytes move socket -> pipe -> socket by splice(2) and are not copied into this process, but for those of inspected
 * connections, which end up in a tunnel when both ends agree on another protocol (WebSocket). A pipe is held only while
 * it carries something, so an idle tunnel costs two descriptors. A direction whose source has ended shuts the writing
 * side of its target once the pipe is empty; the tunnel is over when both have. When a side breaks off, the other one
 * sees a reset, so that nobody takes a cut stream for a whole one.
 *
 * The client's first bytes are looked at before they go on: a TLS ClientHello must name the host that was asked for, or
 * one that is allowed itself. Nothing holds up the other direction meanwhile, since there are protocols in which the
 * server speaks first. When the host is one whose connections are inspected, the tunnel ends there (inspect.c). */
#include "inspect.h"
#include "proxy_conn.h"
#include "proxy_sni.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { SPLICE_BYTES = 256 * 1024, ROUNDS = 16, LOOK_LIMIT = TLS_HELLO_MAX + 1024 };

struct flow {
	struct proxy_sock *from, *to;
	int pipe[2];
	bool has_pipe;
	size_t held;  /* bytes in the pipe */
	bool ended;   /* the source has ended and the target knows */
	bool blocked; /* the target takes nothing now */
	bool copied;  /* through memory instead of the pipe */
	uint64_t *count;
};

struct tunnel {
	struct flow up, down;
	bool looking; /* at the first bytes of the client */
};

static void drop_pipe(struct conn *c, struct flow *f)
{
	if (!f->has_pipe)
		return;
	f->has_pipe = false;
	if (f->held == 0) {
		proxy_pipe_give(c->p, f->pipe);
		return;
	}
	close_quietly(f->pipe[0]);
	close_quietly(f->pipe[1]);
}

void tunnel_free(struct conn *c)
{
	if (!c->tunnel)
		return;
	drop_pipe(c, &c->tunnel->up);
	drop_pipe(c, &c->tunnel->down);
	free(c->tunnel);
	c->tunnel = NULL;
}

/* Bytes that were read into memory before the tunnel began go first. 1 when they are gone, 0 when the target is full.
 */
static int flush_first(struct flow *f)
{
	int r = sock_flush(f->to);

	if (r < 0)
		return r;
	f->blocked = f->to->out.len > 0;
	return !f->blocked;
}

/* Empties the pipe into the target: 1, 0 when the target is full, -errno. */
static int drain(struct flow *f)
{
	while (f->held > 0) {
		/* #syscalls: splice */
		ssize_t n = splice(f->pipe[0], NULL, f->to->fd, NULL, f->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			f->blocked = true;
			return 0;
		}
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		f->held -= (size_t)n;
		*f->count += (uint64_t)n;
	}
	f->blocked = false;
	return 1;
}

/* Fills the empty pipe: 1, 0 when nothing is there or the source ended, -errno. */
static int fill(struct conn *c, struct flow *f)
{
	if (f->from->eof)
		return 0;
	if (!f->has_pipe) {
		int r = proxy_pipe_take(c->p, f->pipe);
		if (r < 0)
			return r;
		f->has_pipe = true;
	}
	ssize_t n;
	do
		n = splice(f->from->fd, NULL, f->pipe[1], NULL, SPLICE_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	f->held = (size_t)n;
	f->from->eof = n == 0;
	return n > 0;
}

/* Between sockets that speak TLS bytes pass through memory. 1 when some moved, 0, -errno. */
static int copy(struct flow *f)
{
	struct buf *in = &f->from->in;

	if (in->len == 0 && sock_fill(f->from, SOCK_OUT_HIGH) < 0)
		return -ECONNRESET;
	size_t n = in->len;
	*f->count += n;
	(void)buf_add(&f->to->out, in->data, n);
	buf_clear(in);
	return n > 0;
}

/* Moves what can be moved now, for a bounded number of rounds; the rest comes with the next event. 0 or -errno. */
static int pump(struct conn *c, struct flow *f)
{
	if (f->ended)
		return 0;
	int r = flush_first(f);
	for (int round = 0; r > 0 && round < ROUNDS; round++) {
		r = f->copied ? flush_first(f) : drain(f);
		if (r > 0)
			r = f->copied ? copy(f) : fill(c, f);
	}
	if (r < 0)
		return r;
	/* What the rounds left over goes on when the target can be written to, which it may be at once. */
	f->blocked = f->held > 0 || f->to->out.len > 0;
	if (f->held == 0)
		drop_pipe(c, f);
	if (f->held == 0 && f->from->eof && f->to->out.len == 0) {
		f->ended = true;
		f->blocked = false;
		sock_shut(f->to);
	}
	return 0;
}

static void refuse(struct conn *c, const struct host *h, const char *reason, const struct policy_verdict *by)
{
	struct policy_verdict v = {.reason = reason, .rule = by && by->rule ? by->rule : "default"};

	conn_count_blocked(c, h, &v);
	conn_abort(c);
}

/* Judges a ClientHello: whether the tunnel goes on. */
static bool hello_is_fine(struct conn *c, const struct tls_hello *hello)
{
	struct policy_verdict v = {0};
	struct host name;

	if (c->p->strict_sni && (!hello->has_name || hello->ech)) {
		refuse(c, &c->host, hello->ech ? "hidden server name" : "missing server name", NULL);
		return false;
	}
	if (!hello->has_name)
		return true;
	if (host_parse(hello->name, strlen(hello->name), &name) < 0) {
		refuse(c, &c->host, "sni mismatch", NULL);
		return false;
	}
	if (strcmp(name.text, c->host.text) == 0)
		return true;
	policy_check_host(c->p->policy, &name, c->port, &v);
	if (!v.allow)
		refuse(c, &name, "sni mismatch", &v);
	return v.allow;
}

static void look_too_long(uv_timer_t *t)
{
	struct conn *c = t->data;

	refuse(c, &c->host, "incomplete client hello", NULL);
}

/* Looks at the first bytes: true when they were let through (now in up->out). */
static bool look(struct conn *c)
{
	struct buf *in = &c->client->in;
	struct tls_hello hello;

	if (sock_fill(c->client, LOOK_LIMIT) < 0) {
		conn_abort(c);
		return false;
	}
	if (in->len == 0)
		return c->client->eof;
	int r = c->p->learn && !c->p->tls ? -ENOMSG : tls_hello_parse(in->data, in->len, &hello);
	if (r == 0 && !c->client->eof && in->len < LOOK_LIMIT) {
		if (!uv_is_active((uv_handle_t *)&c->timer))
			conn_set_timer(c, PROXY_HEAD_TIMEOUT_MS, look_too_long);
		return false;
	}
	conn_set_timer(c, 0, NULL);
	if (r == 1 && !c->p->learn && !hello_is_fine(c, &hello))
		return false;
	if (r == 1 && inspect_wanted(c, &hello)) {
		tunnel_free(c);
		inspect_start(c, &hello);
		return false;
	}
	if (c->p->learn && r < 0)
		r = -ENOMSG;
	if (r == -EBADMSG || (r == 0 && !c->client->eof)) {
		refuse(c, &c->host, "malformed client hello", NULL);
		return false;
	}
	c->total->up += in->len;
	(void)buf_add(&c->up->out, in->data, in->len);
	buf_done(in);
	return true;
}

static void want(struct conn *c)
{
	const struct flow *up = &c->tunnel->up, *down = &c->tunnel->down;
	bool read_client = c->tunnel->looking ? !c->client->eof : !up->ended && !up->blocked && !c->client->eof;
	bool read_up = !down->ended && !down->blocked && !c->up->eof;

	sock_want(c->client, (read_client ? UV_READABLE : 0) | (down->blocked ? UV_WRITABLE : 0));
	sock_want(c->up, (read_up ? UV_READABLE : 0) | (up->blocked ? UV_WRITABLE : 0));
}

static void run(struct conn *c, bool up, bool down)
{
	struct tunnel *t = c->tunnel;

	if (t->looking && up) {
		bool through = look(c);
		/* A refusal took the tunnel with it, and so did inspection. */
		if (c->closing || c->state != CONN_TUNNEL)
			return;
		t->looking = !through;
	}
	if ((up && !t->looking && pump(c, &t->up) < 0) || (down && pump(c, &t->down) < 0)) {
		conn_abort(c);
		return;
	}
	if (t->up.ended && t->down.ended)
		conn_close(c);
	else
		want(c);
}

void tunnel_event(struct conn *c, struct proxy_sock *s, int events)
{
	bool readable = events & UV_READABLE, writable = events & UV_WRITABLE;

	if (s == c->client)
		run(c, readable, writable);
	else
		run(c, writable, readable);
}

void tunnel_start(struct conn *c, bool look_at_tls)
{
	struct tunnel *t = xcalloc(1, sizeof *t);

	t->up = (struct flow){.from = c->client, .to = c->up, .count = &c->total->up};
	t->down = (struct flow){.from = c->up, .to = c->client, .count = &c->total->down};
	t->up.copied = t->down.copied = c->client->tls != NULL;
	t->looking = look_at_tls;
	c->tunnel = t;
	c->state = CONN_TUNNEL;
	conn_set_timer(c, 0, NULL);
	run(c, true, true);
}
