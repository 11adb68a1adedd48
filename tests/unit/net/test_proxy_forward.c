/* Plain requests, websockets, SOCKS5 and TLS names through a real proxy on loopback. */
#include "proxy_world.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <cmocka.h>

static const struct server_ports *srv;
static const char *const loopback[] = {"127.0.0.0/8", "exact.example", "other.example", NULL};
static const char *const resolve[] = {"exact.example:127.0.0.1", "other.example:127.0.0.1", NULL};
static const struct proxy_params names = {.resolve = resolve};

/* Sends a request with a body of text for path on host; extra holds whole header lines. */
static void request(int fd, const char *method, const char *host, const char *path, const char *extra, const char *body)
{
	client_send(fd, "%s http://%s:%u%s HTTP/1.1\r\nHost: %s:%u\r\n%s", method, host, srv->http, path, host,
		    srv->http, extra);
	if (body)
		client_send(fd, "Content-Length: %zu\r\n", strlen(body));
	client_send(fd, "\r\n%s", body ? body : "");
}

/* Reads an answer with a Content-Length; returns its body in a static buffer, and the head in *ret_head. */
static const char *answer(int fd, unsigned want, const char **ret_head)
{
	static char body[65536];
	const char *head = client_head(fd);

	if (status_of(head) != want)
		fail_msg("status %u expected:\n%s%s", want, head, client_rest(fd));
	const char *length = strcasestr(head, "\r\nContent-Length: ");
	assert_non_null(length);
	size_t n = strtoull(length + 18, NULL, 10);
	assert_in_range(n, 0, sizeof body - 1);
	assert_int_equal(client_read(fd, body, n), n);
	body[n] = '\0';
	if (ret_head)
		*ret_head = head;
	return body;
}

static void get_and_post(void **state)
{
	struct world w;
	const char *head;

	(void)state;
	world_start(&w, loopback, &names);
	auto_fd fd = client_connect(w.port);
	request(fd, "POST", "127.0.0.1", "/echo", "", "some text");
	assert_string_equal(answer(fd, 200, NULL), "some text");
	/* The same connection, another host, and back. */
	request(fd, "GET", "exact.example", "/line", "", NULL);
	assert_string_equal(answer(fd, 200, NULL), "GET /line HTTP/1.1");
	request(fd, "GET", "127.0.0.1", "/line?a=b", "", NULL);
	assert_string_equal(answer(fd, 200, NULL), "GET /line?a=b HTTP/1.1");
	request(fd, "GET", "evil.example", "/", "", NULL);
	(void)answer(fd, 403, &head);
	assert_non_null(strstr(head, "keep-alive"));
	request(fd, "GET", "127.0.0.1", "/none", "", NULL);
	(void)answer(fd, 404, NULL);
	request(fd, "HEAD", "evil.example", "/", "", NULL);
	assert_int_equal(status_of(client_head(fd)), 403);
	request(fd, "GET", "127.0.0.1", "/line", "", NULL);
	(void)answer(fd, 200, NULL);
	world_stop(&w);
}

static void fields(void **state)
{
	const struct proxy_params params = {.token = "secret"};
	struct world w;
	const char *head;

	(void)state;
	world_start(&w, loopback, &params);
	auto_fd fd = client_connect(w.port);
	request(fd, "GET", "127.0.0.1", "/fields",
		"Proxy-Authorization: Bearer secret\r\nProxy-Connection: keep-alive\r\nConnection: X-Mine\r\nX-Mine: "
		"1\r\n"
		"Keep-Alive: 5\r\nTE: trailers\r\nX-Passed: 1\r\n",
		NULL);
	const char *body = answer(fd, 200, &head);
	char want[256];
	snprintf(want, sizeof want, "Host: 127.0.0.1:%u\nX-Passed: 1\n", srv->http);
	assert_string_equal(body, want);
	assert_non_null(strstr(head, "X-Kept: yes"));
	assert_null(strstr(head, "X-Dropped"));
	assert_null(strstr(head, "Proxy-Thing"));
	world_stop(&w);
}

static void chunked(void **state)
{
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	request(fd, "POST", "127.0.0.1", "/echo", "Transfer-Encoding: chunked\r\n", NULL);
	client_send(fd, "3;x=y\r\nabc\r\n");
	client_send(fd, "4\r\ndefg\r\n0\r\nX-Trailer: 1\r\n\r\n");
	assert_string_equal(answer(fd, 200, NULL), "abcdefg");
	request(fd, "GET", "127.0.0.1", "/chunked", "", NULL);
	assert_non_null(strstr(client_head(fd), "Transfer-Encoding: chunked"));
	static const char want[] = "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
	char got[sizeof want] = "";
	assert_int_equal(client_read(fd, got, sizeof want - 1), sizeof want - 1);
	assert_string_equal(got, want);
	request(fd, "GET", "127.0.0.1", "/line", "", NULL);
	(void)answer(fd, 200, NULL);
	/* A client of HTTP/1.0 does not know chunks. */
	auto_fd old = client_connect(w.port);
	client_send(old, "GET http://127.0.0.1:%u/chunked HTTP/1.0\r\n\r\n", srv->http);
	assert_null(strstr(client_head(old), "chunked"));
	assert_string_equal(client_rest(old), "hello world");
	/* A bad chunk. */
	auto_fd bad = client_connect(w.port);
	request(bad, "POST", "127.0.0.1", "/echo", "Transfer-Encoding: chunked\r\n", NULL);
	client_send(bad, "3\r\nabcd\r\n");
	assert_int_equal(status_of(client_head(bad)), 400);
	world_stop(&w);
}

static void pipelined(void **state)
{
	enum { N = 300 };
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	for (int i = 0; i < N; i++) {
		if (i % 3 == 0)
			client_send(fd, "GET http://no.example/ HTTP/1.1\r\nHost: no.example\r\n\r\n");
		else
			client_send(fd,
				    "POST http://127.0.0.1:%u/echo HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
				    "Content-Length: 3\r\n\r\n%03d",
				    srv->http, srv->http, i);
	}
	for (int i = 0; i < N; i++) {
		char want[8];
		snprintf(want, sizeof want, "%03d", i);
		const char *got = answer(fd, i % 3 == 0 ? 403 : 200, NULL);
		if (i % 3)
			assert_string_equal(got, want);
	}
	world_stop(&w);
	assert_int_equal(w.n_totals, 2);
}

static void until_close(void **state)
{
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	request(fd, "GET", "127.0.0.1", "/until-close", "", NULL);
	assert_non_null(strstr(client_head(fd), "Connection: close"));
	assert_string_equal(client_rest(fd), "to the end");
	/* An answer that was cut must not look whole. */
	auto_fd cut = client_connect(w.port);
	request(cut, "GET", "127.0.0.1", "/cut", "", NULL);
	assert_int_equal(status_of(client_head(cut)), 200);
	char c[200];
	ssize_t n;
	while ((n = TEMP_FAILURE_RETRY(recv(cut, c, sizeof c, 0))) > 0)
		;
	assert_int_equal(n, -1);
	auto_fd smuggle = client_connect(w.port);
	request(smuggle, "GET", "127.0.0.1", "/smuggle", "", NULL);
	assert_int_equal(status_of(client_head(smuggle)), 502);
	world_stop(&w);
}

/* The server closes after each answer although it said nothing of that: the next request must still be served. */
static void stale_connection(void **state)
{
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	for (int i = 0; i < 20; i++) {
		request(fd, "GET", "127.0.0.1", "/once", "", NULL);
		assert_string_equal(answer(fd, 200, NULL), "once");
	}
	world_stop(&w);
}

static void expect_continue(void **state)
{
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	request(fd, "POST", "127.0.0.1", "/echo", "Expect: 100-continue\r\nContent-Length: 4\r\n", NULL);
	assert_string_equal(client_head(fd), "HTTP/1.1 100 Continue\r\n\r\n");
	client_send(fd, "body");
	assert_string_equal(answer(fd, 200, NULL), "body");
	world_stop(&w);
}

static void events_are_not_held_back(void **state)
{
	struct world w;
	char got[12] = "";

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	request(fd, "GET", "127.0.0.1", "/sse", "", NULL);
	assert_int_equal(status_of(client_head(fd)), 200);
	/* The server sends nothing more, and the answer is not at its end. */
	assert_int_equal(client_read(fd, got, 11), 11);
	assert_string_equal(got, "6\r\ndata 1\r\n");
	world_stop(&w);
}

static void websocket(void **state)
{
	struct world w;
	char got[32] = "";

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	request(fd, "GET", "127.0.0.1", "/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\n", NULL);
	const char *head = client_head(fd);
	assert_int_equal(status_of(head), 101);
	assert_non_null(strstr(head, "Upgrade: websocket"));
	assert_int_equal(client_read(fd, got, 5), 5);
	assert_string_equal(got, "first");
	client_send(fd, "ping");
	assert_int_equal(client_read(fd, got, 4), 4);
	assert_memory_equal(got, "ping", 4);
	shutdown(fd, SHUT_WR);
	assert_string_equal(client_rest(fd), "bye");
	world_stop(&w);
}

static void bad_requests(void **state)
{
	static const struct {
		const char *text;
		unsigned status;
		const char *says;
	} rows[] = {
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "not a web server"},
		{"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400, "not a web server"},
		{"GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 400, "CONNECT"},
		{"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n", 400, "differ"},
		{"GET http://a.example/ HTTP/1.1\r\nHost: a.example:81\r\n\r\n", 400, "differ"},
		{"GET http://a.example:81/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 400, "differ"},
		{"GET http://a.example/ HTTP/1.1\r\n\r\n", 400, "missing"},
		{"GET http://a.example/ HTTP/1.1\r\nHost: A.Example.:80\r\n\r\n", 403, "a.example"},
		{"CONNECT a.example HTTP/1.1\r\n\r\n", 400, "HOST:PORT"},
		{"CONNECT a.example:0x50 HTTP/1.1\r\n\r\n", 400, "HOST:PORT"},
		{"CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n", 400, "differ"},
		{"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:444\r\n\r\n", 400, "differ"},
		{"CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400, "no body"},
		{"CONNECT http://a.example/ HTTP/1.1\r\n\r\n", 400, "HOST:PORT"},
		{"CONNECT 10.0.0.1:80 HTTP/1.1\r\n\r\n", 403, "10.0.0.1"},
		{"CONNECT 0x0a000001:80 HTTP/1.1\r\n\r\n", 403, "10.0.0.1"},
		{"CONNECT [::1]:80 HTTP/1.1\r\n\r\n", 403, "::1"},
		{"GET http://a/ HTTP/1.1\nHost: a\n\n", 400, "carriage"},
		{"NONSENSE\r\n\r\n", 400, "request line"},
		{"GET http://a/ HTTP/3.0\r\nHost: a\r\n\r\n", 505, "HTTP/1.1"},
	};
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_fd fd = client_connect(w.port);
		client_send(fd, "%s", rows[i].text);
		shutdown(fd, SHUT_WR);
		const char *head = client_head(fd), *rest = client_rest(fd);
		if (status_of(head) != rows[i].status || !strstr(rest, rows[i].says))
			fail_msg("%s\n%s%s", rows[i].text, head, rest);
	}
	/* A head without end. */
	static char big[70000];
	memset(big, 'x', sizeof big);
	auto_fd fd = client_connect(w.port);
	client_send(fd, "GET http://a/ HTTP/1.1\r\nX: ");
	(void)TEMP_FAILURE_RETRY(send(fd, big, sizeof big, MSG_NOSIGNAL));
	assert_int_equal(status_of(client_head(fd)), 431);
	world_stop(&w);
}

/* Sends bytes and wants exactly these back. */
static void exchange(int fd, const char *out, size_t n_out, const char *in, size_t n_in)
{
	char got[64];

	client_write(fd, out, n_out);
	assert_int_equal(client_read(fd, got, n_in), n_in);
	assert_memory_equal(got, in, n_in);
}

static void socks(void **state)
{
	const struct proxy_params params = {.token = "secret", .resolve = resolve};
	const char hi = (char)(srv->echo >> 8), lo = (char)(srv->echo & 0xff);
	const char v4[] = {5, 1, 0, 1, 127, 0, 0, 1, hi, lo};
	const char name[] = {5, 1, 0, 3, 13, 'e', 'x', 'a', 'c', 't', '.', 'e', 'x', 'a', 'm', 'p', 'l', 'e', hi, lo};
	const char denied[] = {5, 1, 0, 3, 1, 'x', hi, lo};
	const char v6[] = {5, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, hi, lo};
	const char bind_command[] = {5, 2, 0, 1, 127, 0, 0, 1, hi, lo};
	const struct {
		const char *request;
		size_t len;
		char code;
	} rows[] = {
		{v4, sizeof v4, 0},
		{name, sizeof name, 0},
		{denied, sizeof denied, 2},
		{v6, sizeof v6, 2},
		{bind_command, sizeof bind_command, 7},
	};
	struct world w;

	(void)state;
	world_start(&w, loopback, &params);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_fd fd = client_connect(w.port);
		exchange(fd, "\5\2\0\2", 4, "\5\2", 2);
		exchange(fd, "\1\1x\6secret", 10, "\1\0", 2);
		const char want[2] = {5, rows[i].code};
		char got[10];
		client_write(fd, rows[i].request, rows[i].len);
		assert_int_equal(client_read(fd, got, 10), 10);
		assert_memory_equal(got, want, 2);
		if (rows[i].code == 0)
			exchange(fd, "echo", 4, "echo", 4);
		shutdown(fd, SHUT_WR);
		assert_string_equal(client_rest(fd), rows[i].code ? "" : "bye");
	}
	auto_fd wrong = client_connect(w.port);
	exchange(wrong, "\5\1\2", 3, "\5\2", 2);
	exchange(wrong, "\1\1x\6Secret", 10, "\1\1", 2);
	assert_string_equal(client_rest(wrong), "");
	auto_fd without = client_connect(w.port);
	exchange(without, "\5\1\0", 3, "\5\xff", 2);
	world_stop(&w);
}

/* A ClientHello with this server name (NULL: none), in records of at most cut bytes. */
static size_t make_hello(unsigned char *to, const char *name, size_t cut)
{
	unsigned char h[512] = {1, 0, 0, 0, 3, 3};
	size_t n = 6 + 32, name_len = name ? strlen(name) : 0, out = 0;

	h[n++] = 0; /* session id */
	h[n + 1] = 2;
	n += 4; /* one cipher suite */
	h[n] = 1;
	n += 2; /* compression */
	size_t extensions = name ? name_len + 9 : 0;
	h[n++] = (unsigned char)(extensions >> 8);
	h[n++] = (unsigned char)extensions;
	if (name) {
		const size_t fields[] = {0, name_len + 5, name_len + 3};
		for (size_t i = 0; i < 3; i++) {
			h[n++] = (unsigned char)(fields[i] >> 8);
			h[n++] = (unsigned char)fields[i];
		}
		h[n++] = 0;
		h[n++] = 0;
		h[n++] = (unsigned char)name_len;
		memcpy(h + n, name, name_len);
		n += name_len;
	}
	h[2] = (unsigned char)((n - 4) >> 8);
	h[3] = (unsigned char)(n - 4);
	for (size_t at = 0; at < n;) {
		size_t len = MIN(cut, n - at);
		const unsigned char head[5] = {22, 3, 1, (unsigned char)(len >> 8), (unsigned char)len};
		memcpy(to + out, head, 5);
		memcpy(to + out + 5, h + at, len);
		out += len + 5;
		at += len;
	}
	return out;
}

static void server_names(void **state)
{
	static const struct {
		const char *name;
		bool strict, passes;
	} rows[] = {
		{"exact.example", false, true},
		{"EXACT.example", false, true},
		{"other.example", false, true},
		{"evil.example", false, false},
		{NULL, false, true},
		{NULL, true, false},
		{"exact.example", true, true},
		{"evil.example", true, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct proxy_params params = {.resolve = resolve, .strict_sni = rows[i].strict};
		unsigned char hello[2048], got[2048];
		size_t n = make_hello(hello, rows[i].name, i % 2 ? 1000 : 20);
		struct world w;
		world_start(&w, loopback, &params);
		auto_fd fd = client_connect(w.port);
		client_send(fd, "CONNECT exact.example:%u HTTP/1.1\r\n\r\n", srv->echo);
		assert_int_equal(status_of(client_head(fd)), 200);
		/* In two pieces: the proxy has to wait for the second. */
		client_write(fd, hello, 30);
		world_run(&w, 20);
		client_write(fd, hello + 30, n - 30);
		if (rows[i].passes) {
			assert_int_equal(client_read(fd, got, n), n);
			assert_memory_equal(got, hello, n);
		} else {
			assert_int_equal(client_read(fd, got, n), 0);
			world_run(&w, 50);
			assert_int_equal(w.n_blocked, 1);
			assert_string_equal(w.blocked[0].reason, rows[i].name ? "sni mismatch" : "missing server name");
			assert_string_equal(w.blocked[0].host, rows[i].name ? rows[i].name : "exact.example");
		}
		close_quietly(TAKE_FD(fd));
		world_stop(&w);
	}
}

static void learns(void **state)
{
	static const char *const none[] = {"nothing.example", NULL};
	const struct proxy_params params = {.learn = true, .resolve = resolve};
	struct world w;

	(void)state;
	world_start(&w, none, &params);
	auto_fd fd = client_connect(w.port);
	request(fd, "GET", "other.example", "/line", "", NULL);
	(void)answer(fd, 200, NULL);
	world_stop(&w);
	assert_int_equal(w.n_blocked, 0);
	assert_int_equal(w.n_totals, 1);
	assert_string_equal(w.totals[0].host, "other.example");
	assert_int_equal(w.totals[0].allowed, 1);
}

static int set_up(void **state)
{
	(void)state;
	srv = server_start();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	server_stop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get_and_post),	   cmocka_unit_test(fields),
		cmocka_unit_test(chunked),	   cmocka_unit_test(pipelined),
		cmocka_unit_test(until_close),	   cmocka_unit_test(stale_connection),
		cmocka_unit_test(expect_continue), cmocka_unit_test(events_are_not_held_back),
		cmocka_unit_test(websocket),	   cmocka_unit_test(bad_requests),
		cmocka_unit_test(socks),	   cmocka_unit_test(server_names),
		cmocka_unit_test(learns),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
