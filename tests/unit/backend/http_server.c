/* The server of the tests: HTTP/1.1 as far as libcurl needs it, and every way to break it that an answer spells. */
#include "http_server.h"

#include <base/mem.h>

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

struct peer {
	struct http_server *s;
	uv_tcp_t tcp;
	uv_idle_t idle; /* pieces */
	struct buf in;
	const struct http_answer *answer;
	size_t sent;
	unsigned open;
	char chunk[64 * 1024];
};

static void on_peer_closed(uv_handle_t *h)
{
	struct peer *p = h->data;

	if (--p->open)
		return;
	buf_done(&p->in);
	free(p);
}

static void peer_close(struct peer *p)
{
	if (uv_is_closing((uv_handle_t *)&p->tcp))
		return;
	uv_close((uv_handle_t *)&p->tcp, on_peer_closed);
	uv_close((uv_handle_t *)&p->idle, on_peer_closed);
}

static void on_written(uv_write_t *w, int status)
{
	(void)status;
	free(w->data);
	free(w);
}

static void send_bytes(struct peer *p, const char *data, size_t len)
{
	uv_write_t *w = xcalloc(1, sizeof *w);

	w->data = xmemdup(data, len);
	const uv_buf_t b = uv_buf_init(w->data, (unsigned)len);
	assert_int_equal(uv_write(w, (uv_stream_t *)&p->tcp, &b, 1, on_written), 0);
}

static void on_shut(uv_shutdown_t *req, int status)
{
	(void)status;
	peer_close(req->data);
	free(req);
}

static void send_more(uv_idle_t *idle)
{
	struct peer *p = idle->data;
	const struct http_answer *a = p->answer;
	size_t len = strlen(a->bytes), left = len - p->sent;
	size_t now = a->cut && a->cut < left ? a->cut : left;

	send_bytes(p, a->bytes + p->sent, now);
	p->sent += now;
	if (p->sent < len)
		return;
	uv_idle_stop(idle);
	if (a->close) {
		uv_shutdown_t *req = xcalloc(1, sizeof *req);
		req->data = p;
		(void)uv_shutdown(req, (uv_stream_t *)&p->tcp, on_shut);
	}
}

/* Length of a whole request at the start of what came, or 0. */
static size_t whole_request(const struct buf *in)
{
	const char *end = in->len ? strstr(in->data, "\r\n\r\n") : NULL;
	size_t body = 0;

	if (!end)
		return 0;
	for (const char *line = in->data; line < end; line = strstr(line, "\r\n") + 2)
		if (strncasecmp(line, "content-length:", 15) == 0)
			body = strtoul(line + 15, NULL, 10);
	size_t len = (size_t)(end + 4 - in->data) + body;
	return in->len >= len ? len : 0;
}

static void answer(struct peer *p, size_t len)
{
	struct http_server *s = p->s;

	(void)buf_add(&s->seen, p->in.data, len);
	buf_consume(&p->in, len);
	p->answer = &s->answers[s->requests < s->n_answers ? s->requests : s->n_answers - 1];
	s->requests++;
	p->sent = 0;
	if (s->on_request)
		s->on_request(s->arg);
	if (p->answer->hang && !p->answer->bytes)
		return;
	if (p->answer->bytes)
		(void)uv_idle_start(&p->idle, send_more);
	else
		peer_close(p);
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret)
{
	struct peer *p = h->data;

	(void)size;
	*ret = uv_buf_init(p->chunk, sizeof p->chunk);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
	struct peer *p = stream->data;

	if (n < 0) {
		peer_close(p);
		return;
	}
	(void)buf_add(&p->in, b->base, (size_t)n);
	size_t len = whole_request(&p->in);
	if (len)
		answer(p, len);
}

static void on_connection(uv_stream_t *server, int status)
{
	struct http_server *s = server->data;
	struct peer *p = xcalloc(1, sizeof *p);

	assert_int_equal(status, 0);
	*p = (struct peer){.s = s, .in = BUF_INIT(64 * 1024 * 1024), .open = 2};
	(void)uv_tcp_init(s->loop, &p->tcp);
	(void)uv_idle_init(s->loop, &p->idle);
	p->tcp.data = p->idle.data = p;
	s->connections++;
	assert_int_equal(uv_accept(server, (uv_stream_t *)&p->tcp), 0);
	assert_int_equal(uv_read_start((uv_stream_t *)&p->tcp, on_alloc, on_read), 0);
}

void http_server_start(struct http_server *s, uv_loop_t *loop, const struct http_answer *answers, size_t n)
{
	struct sockaddr_in at;
	struct sockaddr_storage name;
	int len = sizeof name;

	*s = (struct http_server){.loop = loop, .answers = answers, .n_answers = n, .seen = BUF_INIT(64 * 1024 * 1024)};
	(void)uv_tcp_init(loop, &s->tcp);
	s->tcp.data = s;
	(void)uv_ip4_addr("127.0.0.1", 0, &at);
	assert_int_equal(uv_tcp_bind(&s->tcp, (const struct sockaddr *)&at, 0), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&s->tcp, 16, on_connection), 0);
	assert_int_equal(uv_tcp_getsockname(&s->tcp, (struct sockaddr *)&name, &len), 0);
	memcpy(&at, &name, sizeof at);
	s->port = ntohs(at.sin_port);
	uv_unref((uv_handle_t *)&s->tcp);
}

static void close_ours(uv_handle_t *h, void *arg)
{
	const struct http_server *s = arg;

	if (h == (const uv_handle_t *)&s->tcp)
		uv_close(h, NULL);
	else if (h->type == UV_TCP && !uv_is_closing(h))
		peer_close(h->data);
}

void http_server_stop(struct http_server *s)
{
	uv_walk(s->loop, close_ours, s);
	uv_run(s->loop, UV_RUN_DEFAULT);
	buf_done(&s->seen);
}

char *http_server_url(const struct http_server *s, const char *path)
{
	return xasprintf("http://127.0.0.1:%u%s", s->port, path);
}
