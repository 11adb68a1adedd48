/* Heads as they go on. The fields of a message are copied but for those that concern one connection; its framing is
 * never copied but said anew from what was understood, once, so that the next reader cannot understand something
 * else. */
#include "http_write.h"

#include <base/buf.h>

#include <inttypes.h>

static int put(struct buf *to, struct http_text t)
{
	return buf_add(to, t.p, t.len);
}

/* Framing and routing are written by ourselves. */
static bool is_ours(struct http_text name)
{
	return http_is(name, "host") || http_is(name, "content-length");
}

static int copy_fields(struct buf *to, const struct http_head *h)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < h->n_fields; i++) {
		const struct http_field *f = &h->fields[i];
		if (is_ours(f->name) || http_hop_by_hop(h, f->name))
			continue;
		r = put(to, f->name);
		if (r == 0)
			r = buf_puts(to, ": ");
		if (r == 0)
			r = put(to, f->value);
		if (r == 0)
			r = buf_puts(to, "\r\n");
	}
	return r;
}

static int write_framing(struct buf *to, bool chunked, bool has_length, uint64_t length)
{
	if (chunked)
		return buf_puts(to, "Transfer-Encoding: chunked\r\n");
	return has_length ? buf_printf(to, "Content-Length: %" PRIu64 "\r\n", length) : 0;
}

int http_write_request(struct buf *to, const struct http_head *h, const char *host, struct http_text path)
{
	/* RFC 9112 §3.2.4: an OPTIONS for a server as a whole has no path in absolute form. */
	const char *before = path.len == 0 && http_is(h->method, "options") ? "*" : "/";
	int r = put(to, h->method);

	if (r == 0)
		r = buf_puts(to, " ");
	if (r == 0 && (path.len == 0 || path.p[0] == '?'))
		r = buf_puts(to, before);
	if (r == 0)
		r = put(to, path);
	if (r == 0)
		r = buf_printf(to, " HTTP/1.1\r\nHost: %s\r\n", host);
	if (r == 0)
		r = copy_fields(to, h);
	if (r == 0)
		r = write_framing(to, h->chunked, h->has_length, h->length);
	if (r == 0 && h->websocket)
		r = buf_puts(to, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	return r == 0 ? buf_puts(to, "\r\n") : r;
}

enum http_body http_response_body(const struct http_head *h, bool head_request)
{
	if (head_request || h->status < 200 || h->status == 204 || h->status == 304)
		return HTTP_BODY_NONE;
	if (h->chunked)
		return HTTP_BODY_CHUNKED;
	if (h->has_length)
		return h->length ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
	return HTTP_BODY_UNTIL_CLOSE;
}

/* What the framing fields of a response say to this client: nothing where they must not stand (RFC 9110 §8.6), and no
 * coding that the client does not know. */
static int write_response_framing(struct buf *to, const struct http_head *h, unsigned client_minor)
{
	if (h->status < 200 || h->status == 204)
		return 0;
	return write_framing(to, h->chunked && client_minor > 0, h->has_length, h->length);
}

int http_write_response(struct buf *to, const struct http_head *h, unsigned client_minor, bool keep)
{
	int r = buf_printf(to, "HTTP/1.1 %u ", h->status);

	if (r == 0)
		r = put(to, h->reason);
	if (r == 0)
		r = buf_puts(to, "\r\n");
	if (r == 0)
		r = copy_fields(to, h);
	if (r == 0)
		r = write_response_framing(to, h, client_minor);
	if (r == 0 && h->status == 101)
		r = buf_puts(to, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else if (r == 0 && h->status >= 200)
		r = buf_printf(to, "Connection: %s\r\n", keep ? "keep-alive" : "close");
	return r == 0 ? buf_puts(to, "\r\n") : r;
}
