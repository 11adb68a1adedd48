/* An inspected connection of HTTP/2 between a client and a host that mean it harm: what it holds stays bounded. The
 * sockets are plain ones, which the layer above TLS does not know from others. */
#include "h2_priv.h"
#include "proxy_conn.h"

#include <base/mem.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NV(n, v)                                                                                                       \
	{                                                                                                              \
		(uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), sizeof(n) - 1, sizeof(v) - 1, 0                  \
	}

struct peers {
	struct proxy_child p;
	struct conn *c;
	struct proxy_total total;
	int client_fd, host_fd;
	nghttp2_session *client, *host;
	unsigned reset; /* streams of the client's that were */
};

static void on_event(struct proxy_sock *s, int events)
{
	(void)events;
	h2_event(s->owner);
}

static struct proxy_sock *half(struct peers *w, int *ret_peer)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	*ret_peer = pair[1];
	return sock_new(&w->p.loop, pair[0], on_event, w->c);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct peers *w = arg;

	(void)session;
	(void)id;
	w->reset += code != NGHTTP2_NO_ERROR;
	return 0;
}

static void begin(struct peers *w)
{
	nghttp2_session_callbacks *cb;

	memset(w, 0, sizeof *w);
	assert_int_equal(uv_loop_init(&w->p.loop), 0);
	w->c = xcalloc(1, sizeof *w->c);
	w->c->p = &w->p;
	w->c->total = &w->total;
	w->c->port = 443;
	assert_int_equal(host_parse("api.test", 8, &w->c->host), 0);
	w->c->inspect = xcalloc(1, sizeof *w->c->inspect);
	(void)uv_timer_init(&w->p.loop, &w->c->timer);
	w->c->timer.data = w->c;
	w->p.conns = w->c;
	w->p.n_conns = 1;
	w->c->client = half(w, &w->client_fd);
	w->c->up = half(w, &w->host_fd);
	assert_int_equal(nghttp2_session_callbacks_new(&cb), 0);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	assert_int_equal(nghttp2_session_client_new(&w->client, cb, w), 0);
	assert_int_equal(nghttp2_session_server_new(&w->host, cb, w), 0);
	assert_int_equal(nghttp2_submit_settings(w->client, 0, NULL, 0), 0);
	assert_int_equal(nghttp2_submit_settings(w->host, 0, NULL, 0), 0);
	nghttp2_session_callbacks_del(cb);
	h2_start(w->c);
}

static void end(struct peers *w)
{
	conn_close(w->c);
	(void)uv_run(&w->p.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w->p.loop), 0);
	close(w->client_fd);
	close(w->host_fd);
	nghttp2_session_del(w->client);
	nghttp2_session_del(w->host);
}

/* Bytes between a session and its end of the connection: how many moved. */
static size_t exchange(nghttp2_session *session, int fd)
{
	static uint8_t data[65536];
	const uint8_t *out;
	size_t moved = 0;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(session, &out)) > 0) {
		assert_int_equal(send(fd, out, (size_t)n, MSG_NOSIGNAL), n);
		moved += (size_t)n;
	}
	while ((n = recv(fd, data, sizeof data, MSG_DONTWAIT)) > 0) {
		assert_int_equal(nghttp2_session_mem_recv(session, data, (size_t)n), n);
		moved += (size_t)n;
	}
	return moved;
}

/* Until neither side has anything to say. A host of NULL does not listen. */
static void settle(struct peers *w, bool with_host)
{
	size_t moved = 1;

	while (moved) {
		moved = exchange(w->client, w->client_fd);
		if (with_host)
			moved += exchange(w->host, w->host_fd);
		if (!w->c->closing)
			h2_event(w->c);
		moved += exchange(w->client, w->client_fd);
	}
}

static int32_t ask(struct peers *w, const nghttp2_nv *more, size_t n)
{
	nghttp2_nv nv[8] = {NV(":method", "GET"), NV(":scheme", "https"), NV(":authority", "api.test"),
			    NV(":path", "/")};

	for (size_t i = 0; i < n; i++)
		nv[4 + i] = more[i];
	int32_t id = nghttp2_submit_request(w->client, NULL, nv, 4 + n, NULL, NULL);
	assert_true(id > 0);
	return id;
}

/* A host that listens no more: its socket is full. Returns of how much. */
static size_t stuff(const struct peers *w)
{
	static const char junk[4096];
	size_t total = 0;
	ssize_t n;

	while ((n = send(w->c->up->fd, junk, sizeof junk, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0)
		total += (size_t)n;
	return total;
}

static void unstuff(const struct peers *w, size_t total)
{
	char junk[4096];

	while (total) {
		ssize_t n = recv(w->host_fd, junk, MIN(sizeof junk, total), 0);
		assert_true(n > 0);
		total -= (size_t)n;
	}
}

/* Whether nothing is read from the client, so that the loop does not spin either. */
static bool sock_waits(const struct conn *c)
{
	return !(c->client->want & UV_READABLE);
}

/* What makes the proxy itself give up a stream: no limit of the library's counts that. A window
 * that grows past its largest size. */
static void spoil(const struct peers *w, int32_t id)
{
	const uint8_t frame[] = {
		0,	     0,	   4,	 8,    0,   (uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8),
		(uint8_t)id, 0x7f, 0xff, 0xff, 0xff};

	(void)send(w->client_fd, frame, sizeof frame, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void test_given_up_streams(void **state)
{
	char text[3000];
	struct peers w;
	size_t most = 0;

	(void)state;
	begin(&w);
	settle(&w, true);
	memset(text, 'x', sizeof text);
	size_t stuffed = stuff(&w);
	for (int i = 0; i < 1000; i++) {
		(void)snprintf(text, 8, "%07d", i);
		text[7] = 'x';
		const nghttp2_nv more = {(uint8_t *)(uintptr_t) "x", (uint8_t *)text, 1, sizeof text,
					 NGHTTP2_NV_FLAG_NO_INDEX};
		int32_t id = ask(&w, &more, 1);
		settle(&w, false);
		spoil(&w, id);
		settle(&w, false);
		assert_int_equal(w.c->state, CONN_H2);
		most = MAX(most, w.c->inspect->h2->n);
		if (sock_waits(w.c))
			break;
	}
	assert_int_equal(most, (size_t)2 * H2_STREAMS);
	/* Once the host listens again, all goes on. */
	unstuff(&w, stuffed);
	settle(&w, true);
	assert_true(w.c->inspect->h2->n <= 1);
	end(&w);
}

/* A few bytes of a compressed block become many. */
static void test_heads_that_unfold(void **state)
{
	static char long_value[3000];
	struct peers w;

	(void)state;
	begin(&w);
	settle(&w, false);
	memset(long_value, 'x', sizeof long_value);
	nghttp2_nv nv[24] = {NV(":method", "GET"), NV(":scheme", "https"), NV(":authority", "api.test"),
			     NV(":path", "/")};
	for (size_t i = 4; i < ARRAY_LEN(nv); i++)
		nv[i] = (nghttp2_nv){(uint8_t *)(uintptr_t) "x", (uint8_t *)long_value, 1, sizeof long_value, 0};
	for (int i = 0; i < H2_STREAMS; i++)
		assert_true(nghttp2_submit_request(w.client, NULL, nv, ARRAY_LEN(nv), NULL, NULL) > 0);
	settle(&w, false);
	assert_false(w.c->closing);
	/* 60 kB each. */
	assert_true(w.c->inspect->h2->head_bytes <= 2 * 1024 * 1024);
	assert_true(w.reset > H2_STREAMS / 2 && w.reset < H2_STREAMS);
	end(&w);
	assert_int_equal(w.p.n_conns, 0);
}

/* A host that says for ever that it will answer. */
static void test_interim_answers(void **state)
{
	const nghttp2_nv early[] = {NV(":status", "103"), NV("link", "</a>")};
	struct peers w;

	(void)state;
	begin(&w);
	settle(&w, true);
	(void)ask(&w, NULL, 0);
	settle(&w, true);
	for (int i = 0; i < 100; i++) {
		(void)nghttp2_submit_headers(w.host, 0, 1, NULL, early, ARRAY_LEN(early), NULL);
		settle(&w, true);
	}
	assert_int_equal(w.c->inspect->h2->n, 0);
	assert_true(w.reset > 0);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given_up_streams),
		cmocka_unit_test(test_heads_that_unfold),
		cmocka_unit_test(test_interim_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
