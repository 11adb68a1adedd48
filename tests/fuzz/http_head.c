/* Fuzz target: what a client may send before a tunnel stands. The first byte chooses: a request (head, then a chunked
 * body), a response head, or a TLS ClientHello. Whatever the bytes are: no crash; cutting the input changes nothing; a
 * request that is taken, written anew, is taken again with the same meaning and without what concerned one connection
 * only; a chunked body written anew reads as itself. */
#include "http_chunk.h"
#include "http_head.h"
#include "http_write.h"
#include "proxy_sni.h"

#include <base/buf.h>
#include <base/mem.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 4 * 1024 * 1024 };

static void require(bool what)
{
	if (!what)
		abort();
}

/* The length of a head, the same whole and in two pieces. */
static ssize_t scan(const char *data, size_t size)
{
	struct http_scan whole = {0}, cut = {0};
	const char *why;
	ssize_t r = http_scan(&whole, data, size, &why);
	ssize_t part = http_scan(&cut, data, size / 2, &why);

	if (part == 0)
		part = http_scan(&cut, data, size, &why);
	require(part == r);
	return r;
}

static void rewrite(const struct http_head *h)
{
	static struct http_head again;
	static const struct http_text path = {"/", 1};
	const char *why;
	auto_buf out = BUF_INIT(OUT_MAX);

	require(http_write_request(&out, h, "host.example", path) == 0);
	require(scan(out.data, out.len) == (ssize_t)out.len || out.len > HTTP_HEAD_MAX);
	/* A field more than came in is possible: Host, and Connection with Upgrade. */
	unsigned status = http_parse_request(out.data, out.len, &again, &why);
	require(status == 0 || (status == 431 && h->n_fields + 3 > HTTP_MAX_FIELDS));
	if (status)
		return;
	require(http_is(again.host, "host.example"));
	require(again.chunked == h->chunked && again.has_length == h->has_length && again.length == h->length);
	require(again.websocket == h->websocket);
	for (size_t i = 0; i < again.n_fields; i++) {
		struct http_text name = again.fields[i].name;
		bool framing = http_is(name, "transfer-encoding") || http_is(name, "connection") ||
			       http_is(name, "upgrade") || http_is(name, "host") || http_is(name, "content-length");
		require(framing || !http_hop_by_hop(h, name));
	}
}

static void chunks(const char *data, size_t size)
{
	struct http_chunk c = {0}, d = {0};
	auto_buf out = BUF_INIT(OUT_MAX);
	auto_buf again = BUF_INIT(OUT_MAX);
	size_t at = 0;

	while (at < size && !c.done) {
		ssize_t n = http_chunk_step(&c, data + at, MIN(size - at, (size_t)97), &out, OUT_MAX / 2);
		if (n < 0)
			return;
		at += (size_t)n;
	}
	if (!c.done)
		return;
	require(http_chunk_step(&d, out.data, out.len, &again, OUT_MAX / 2) == (ssize_t)out.len && d.done);
	require(again.len == out.len && memcmp(again.data, out.data, out.len) == 0);
}

static void request(const char *data, size_t size)
{
	static struct http_head h;
	struct http_text authority, path;
	const char *why = NULL;
	ssize_t n = scan(data, size);

	/* The parser must stand on its own feet, too. */
	unsigned status = http_parse_request(data, n > 0 ? (size_t)n : size, &h, &why);
	require(status == 0 || why);
	if (status || n <= 0)
		return;
	rewrite(&h);
	if (http_absolute_target(h.target, &authority, &path, &why) == 0)
		require(authority.len > 0 && authority.p + authority.len == path.p);
	chunks(data + n, size - (size_t)n);
}

static void response(const char *data, size_t size)
{
	static struct http_head h;
	const char *why;
	ssize_t n = scan(data, size);
	auto_buf out = BUF_INIT(OUT_MAX);

	if (http_parse_response(data, n > 0 ? (size_t)n : size, &h, &why) < 0 || n <= 0)
		return;
	(void)http_response_body(&h, false);
	require(http_write_response(&out, &h, 1, true) == 0);
}

static void hello(const char *data, size_t size)
{
	struct tls_hello whole, cut;
	int r = tls_hello_parse(data, size, &whole), part = tls_hello_parse(data, size / 2, &cut);

	require(memchr(whole.name, '\0', sizeof whole.name) != NULL);
	/* What is known of a beginning does not change by what follows. */
	require(part == 0 || part == r);
	require(part != 1 || strcmp(whole.name, cut.name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of exactly this size: the sanitizer sees a read one byte too far. */
	char *copy = size > 1 ? xmemdup(data + 1, size - 1) : NULL;

	if (!copy)
		return 0;
	switch (data[0] % 3) {
	case 0:
		request(copy, size - 1);
		break;
	case 1:
		response(copy, size - 1);
		break;
	default:
		hello(copy, size - 1);
		break;
	}
	free(copy);
	return 0;
}
