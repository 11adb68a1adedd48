/* The HTTP client against a server that answers well, badly, in pieces, too much and not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http_server.h"
#include <http/http.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct world {
	uv_loop_t loop;
	struct http_server server;
	struct http *h;
	struct http_request *request;
	unsigned heads, dones;
	int status;
	char *type;
	struct buf body;
	struct err err;
	bool cancel_at_data, again_at_done;
};

static void on_head(void *arg, const struct http_head *h)
{
	struct world *w = arg;
	const char *type = http_field(h, "content-type");

	w->heads++;
	w->status = h->status;
	free(w->type);
	w->type = type ? xstrdup(type) : NULL;
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct world *w = arg;

	(void)buf_add(&w->body, data, len);
	if (w->cancel_at_data)
		http_cancel(w->request);
}

static void begin(struct world *w, const struct http_opts *o);

static void on_done(void *arg, const struct err *e)
{
	struct world *w = arg;

	w->dones++;
	if (e)
		w->err = *e;
	if (w->again_at_done) {
		w->again_at_done = false;
		auto_free char *url = http_server_url(&w->server, "/again");
		begin(w, &(struct http_opts){.url = url});
	}
}

static void begin(struct world *w, const struct http_opts *o)
{
	struct err e = ERR_INIT;
	unsigned before = w->dones;
	const struct http_callbacks cb = {.on_head = on_head, .on_data = on_data, .on_done = on_done, .arg = w};

	if (http_start(w->h, o, &cb, &w->request, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(w->dones, before);
}

static void world_open(struct world *w, const struct http_answer *answers, size_t n)
{
	*w = (struct world){.body = BUF_INIT(64 * 1024 * 1024)};
	assert_int_equal(uv_loop_init(&w->loop), 0);
	http_server_start(&w->server, &w->loop, answers, n);
	w->h = http_new(&w->loop, NULL);
}

static void on_closed(void *arg)
{
	*(bool *)arg = true;
}

static void world_close(struct world *w)
{
	bool closed = false;

	http_close(w->h, on_closed, &closed);
	http_server_stop(&w->server);
	assert_true(closed);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	buf_done(&w->body);
	free(w->type);
}

static void get(struct world *w, const struct http_opts *extra)
{
	auto_free char *url = http_server_url(&w->server, "/path?query=1");
	struct http_opts o = extra ? *extra : (struct http_opts){0};

	o.url = url;
	begin(w, &o);
	while (!w->dones && uv_run(&w->loop, UV_RUN_ONCE))
		;
}

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
#define HELLO OK_HEAD "Content-Length: 5\r\n\r\nhello"

static void test_whole_and_in_pieces(void **state)
{
	static const size_t cuts[] = {0, 1, 2, 7};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
		const struct http_answer a = {.bytes = HELLO, .cut = cuts[i]};
		struct world w;
		world_open(&w, &a, 1);
		get(&w, NULL);
		assert_int_equal(w.err.kind, ERR_NONE);
		assert_int_equal(w.heads, 1);
		assert_int_equal(w.status, 200);
		assert_string_equal(w.type, "text/plain");
		assert_string_equal(buf_str(&w.body), "hello");
		assert_non_null(strstr(buf_str(&w.server.seen), "GET /path?query=1 HTTP/1.1\r\n"));
		world_close(&w);
	}
}

static void test_interim_answers_and_trailers_are_not_told(void **state)
{
	const struct http_answer a = {.bytes = "HTTP/1.1 103 Early Hints\r\nContent-Type: no/no\r\n\r\n" OK_HEAD
					       "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	get(&w, NULL);
	assert_int_equal(w.heads, 1);
	assert_string_equal(w.type, "text/plain");
	assert_string_equal(buf_str(&w.body), "hello");
	world_close(&w);
}

static void test_posts_body_and_fields(void **state)
{
	const struct http_answer a = {.bytes = HELLO};
	static const char *const fields[] = {"X-Api-Key: k", "Content-Type: application/json", NULL};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	get(&w, &(struct http_opts){.headers = fields, .body = "{\"a\":1}", .body_len = 7});
	const char *seen = buf_str(&w.server.seen);
	assert_int_equal(strncmp(seen, "POST ", 5), 0);
	assert_non_null(strstr(seen, "X-Api-Key: k\r\n"));
	assert_non_null(strstr(seen, "\r\n\r\n{\"a\":1}"));
	assert_null(strstr(seen, "Expect"));
	world_close(&w);
}

static void test_keeps_the_connection(void **state)
{
	const struct http_answer a = {.bytes = HELLO};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	for (unsigned i = 0; i < 3; i++) {
		w.dones = 0;
		get(&w, NULL);
	}
	assert_int_equal(w.server.requests, 3);
	assert_int_equal(w.server.connections, 1);
	world_close(&w);
}

static void test_a_redirect_is_an_answer(void **state)
{
	const struct http_answer a = {
		.bytes = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	get(&w, NULL);
	assert_int_equal(w.status, 302);
	assert_int_equal(w.err.kind, ERR_NONE);
	assert_int_equal(w.server.requests, 1);
	world_close(&w);
}

static void test_broken_answers_are_errors(void **state)
{
	static const struct {
		struct http_answer answer;
		int errnum;
	} rows[] = {
		{{.bytes = OK_HEAD "Content-Length: 50\r\n\r\nhello", .close = true}, ECONNRESET},
		{{.bytes = OK_HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", .close = true}, ECONNRESET},
		{{.bytes = "what is this\r\n\r\n", .close = true}, ECONNRESET},
		{{.bytes = NULL}, ECONNRESET},
		{{.hang = true}, ETIMEDOUT},
		{{.bytes = OK_HEAD "Content-Length: 50\r\n\r\nhello", .hang = true}, ETIMEDOUT},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct world w;
		world_open(&w, &rows[i].answer, 1);
		get(&w, &(struct http_opts){.idle_ms = 300});
		assert_int_equal(w.err.kind, ERR_NETWORK);
		assert_int_equal(w.err.errnum, rows[i].errnum);
		assert_non_null(strstr(w.err.msg, "http://127.0.0.1:"));
		assert_null(strstr(w.err.msg, "query"));
		assert_true(w.err.hint[0] != '\0');
		world_close(&w);
	}
}

static void test_the_whole_is_bounded_in_time(void **state)
{
	const struct http_answer a = {.hang = true};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	get(&w, &(struct http_opts){.total_ms = 50});
	assert_int_equal(w.err.errnum, ETIMEDOUT);
	world_close(&w);
}

static void test_large_heads_are_refused(void **state)
{
	(void)state;
	for (unsigned many = 0; many < 2; many++) {
		auto_buf text = BUF_INIT(1024 * 1024);
		(void)buf_puts(&text, "HTTP/1.1 200 OK\r\n");
		for (unsigned i = 0; i < (many ? 300u : 20u); i++)
			(void)buf_printf(&text, "X-%u: %0*d\r\n", i, many ? 1 : 4000, 0);
		(void)buf_puts(&text, "Content-Length: 0\r\n\r\n");
		const struct http_answer a = {.bytes = buf_str(&text)};
		struct world w;
		world_open(&w, &a, 1);
		get(&w, NULL);
		assert_int_equal(w.err.errnum, EMSGSIZE);
		assert_int_equal(w.heads, 0);
		world_close(&w);
	}
}

static int refuse(void *arg, const struct sockaddr *sa, socklen_t len, struct err *e)
{
	(void)arg;
	(void)len;
	return err_set(e, ERR_NETWORK, EPERM, "family %d is refused", sa->sa_family);
}

static void test_addresses_are_asked_for(void **state)
{
	const struct http_answer a = {.bytes = HELLO};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	get(&w, NULL); /* also over a connection that is kept */
	assert_int_equal(w.err.kind, ERR_NONE);
	w.dones = 0;
	get(&w, &(struct http_opts){.check_address = refuse, .direct = true});
	assert_int_equal(w.err.errnum, EPERM);
	assert_int_equal(w.server.requests, 1);
	world_close(&w);
}

static void test_names_can_be_given(void **state)
{
	const struct http_answer a = {.bytes = HELLO};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	auto_free char *url = xasprintf("http://name.invalid:%u/", w.server.port);
	auto_free char *entry = xasprintf("name.invalid:%u:127.0.0.1", w.server.port);
	const char *const resolve[] = {entry, NULL};
	begin(&w, &(struct http_opts){.url = url, .resolve = resolve});
	while (!w.dones && uv_run(&w.loop, UV_RUN_ONCE))
		;
	assert_int_equal(w.status, 200);
	world_close(&w);
}

static void test_cancel_says_nothing_more(void **state)
{
	const struct http_answer slow = {.bytes = OK_HEAD "Content-Length: 50\r\n\r\nhello", .hang = true};
	struct world w;

	(void)state;
	world_open(&w, &slow, 1);
	w.cancel_at_data = true; /* from within its own callback */
	auto_free char *url = http_server_url(&w.server, "/");
	begin(&w, &(struct http_opts){.url = url});
	while (!w.body.len && uv_run(&w.loop, UV_RUN_ONCE))
		;
	assert_int_equal(w.dones, 0);
	begin(&w, &(struct http_opts){.url = url}); /* before it did anything */
	http_cancel(w.request);
	world_close(&w);
	assert_int_equal(w.dones, 0);
}

static void test_a_callback_may_begin_another(void **state)
{
	const struct http_answer a = {.bytes = HELLO};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	w.again_at_done = true;
	get(&w, NULL);
	while (w.dones < 2 && uv_run(&w.loop, UV_RUN_ONCE))
		;
	assert_int_equal(w.dones, 2);
	assert_non_null(strstr(buf_str(&w.server.seen), "GET /again"));
	world_close(&w);
}

static void test_close_ends_what_is_under_way(void **state)
{
	const struct http_answer a = {.hang = true};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	auto_free char *url = http_server_url(&w.server, "/");
	for (unsigned i = 0; i < 4; i++)
		begin(&w, &(struct http_opts){.url = url});
	while (w.server.requests < 4 && uv_run(&w.loop, UV_RUN_ONCE))
		;
	world_close(&w);
	assert_int_equal(w.dones, 0);
}

static void test_bad_requests(void **state)
{
	static const char *const folded[] = {"X: 1\r\nY: 2", NULL};
	const struct http_answer a = {.bytes = HELLO};
	const struct {
		struct http_opts o;
		const char *in_msg;
	} rows[] = {
		{{.url = "ftp://example.com/"}, "no URL of http"},
		{{.url = "file:///etc/passwd"}, "no URL of http"},
		{{.url = "http://"}, "no URL of http"},
		{{.url = "http://a b/"}, "no URL of http"},
		{{.url = ""}, "no URL of http"},
		{{.url = "http://user:secret@example.com/"}, "user and password"},
		{{.url = "http://example.com/", .headers = folded}, "line break"},
	};
	const struct http_callbacks cb = {.on_done = on_done};
	struct world w;

	(void)state;
	world_open(&w, &a, 1);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = ERR_INIT;
		assert_int_equal(http_start(w.h, &rows[i].o, &cb, &w.request, &e), -EINVAL);
		assert_non_null(strstr(e.msg, rows[i].in_msg));
		assert_null(strstr(e.msg, "secret"));
	}
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_and_in_pieces),
		cmocka_unit_test(test_interim_answers_and_trailers_are_not_told),
		cmocka_unit_test(test_posts_body_and_fields),
		cmocka_unit_test(test_keeps_the_connection),
		cmocka_unit_test(test_a_redirect_is_an_answer),
		cmocka_unit_test(test_broken_answers_are_errors),
		cmocka_unit_test(test_the_whole_is_bounded_in_time),
		cmocka_unit_test(test_large_heads_are_refused),
		cmocka_unit_test(test_addresses_are_asked_for),
		cmocka_unit_test(test_names_can_be_given),
		cmocka_unit_test(test_cancel_says_nothing_more),
		cmocka_unit_test(test_a_callback_may_begin_another),
		cmocka_unit_test(test_close_ends_what_is_under_way),
		cmocka_unit_test(test_bad_requests),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
