/* One request and its answer on their way between the sessions.
 *
 * Each half is a head, bytes, and perhaps trailers. The head goes on when it is whole; bytes wait in half->data until
 * the other session asks for them (read_data), and the end of the stream, or the trailers, follow the last of them.
 * What breaks off on one side is reset on the other with the same code. */
#include "h2_priv.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_MAX = 1024 * 1024, HTTPS = 443, MAX_INTERIM = 16 };

struct h2_stream *h2_stream_new(struct h2 *h, int32_t client_id)
{
	struct h2_stream *s = xcalloc(1, sizeof *s);

	s->h = h;
	s->request =
		(struct h2_half){.stream = s, .from = &h->client, .to = &h->host, .from_id = client_id, .open = true};
	s->answer = (struct h2_half){.stream = s, .from = &h->host, .to = &h->client, .to_id = client_id};
	s->request.data = s->answer.data = BUF_INIT(DATA_MAX);
	s->next = h->streams;
	if (s->next)
		s->next->prev = s;
	h->streams = s;
	h->n++;
	return s;
}

static void half_done(struct h2_half *half)
{
	if (half->from->session && half->unconsumed)
		(void)nghttp2_session_consume_connection(half->from->session, half->unconsumed);
	h2_fields_clear(&half->head);
	h2_fields_clear(&half->trailers);
	swap_stream_free(half->swap);
	buf_done(&half->data);
}

void h2_stream_free(struct h2_stream *s)
{
	if (s->prev)
		s->prev->next = s->next;
	else
		s->h->streams = s->next;
	if (s->next)
		s->next->prev = s->prev;
	s->h->n--;
	s->h->head_bytes -= s->head_bytes;
	half_done(&s->request);
	half_done(&s->answer);
	free(s);
}

static struct h2_half *other(const struct h2_half *half)
{
	return half == &half->stream->request ? &half->stream->answer : &half->stream->request;
}

/* The library asks for bytes that go to the other side. */
static ssize_t read_data(nghttp2_session *session, int32_t id, uint8_t *to, size_t max, uint32_t *flags,
			 nghttp2_data_source *source, void *arg)
{
	struct h2_half *half = source->ptr;
	size_t n = MIN(max, half->data.len), back = MIN(n, half->unconsumed);

	(void)arg;
	if (n == 0 && !half->ended)
		return NGHTTP2_ERR_DEFERRED;
	if (n)
		memcpy(to, half->data.data, n);
	buf_consume(&half->data, n);
	half->unconsumed -= back;
	if (back && half->from->session)
		(void)nghttp2_session_consume(half->from->session, half->from_id, back);
	if (half->data.len || !half->ended)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (half->trailers.n) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		(void)nghttp2_submit_trailer(session, id, half->trailers.v, half->trailers.n);
	}
	return (ssize_t)n;
}

/* An answer of our own. */
static void answer_locally(struct h2_stream *s, const char *status, const char *reason, const char *text)
{
	struct h2_half *half = &s->answer;
	nghttp2_data_provider body = {.source.ptr = half, .read_callback = read_data};
	struct h2_fields f = {0};

	(void)h2_fields_add(&f, ":status", 7, status, 3);
	(void)h2_fields_add(&f, "content-type", 12, "text/plain; charset=utf-8", 25);
	(void)h2_fields_add(&f, "x-iterion-reason", 16, reason, strlen(reason));
	(void)buf_printf(&half->data, "%s\n", text);
	half->ended = half->begun = true;
	(void)nghttp2_submit_response(s->h->client.session, half->to_id, f.v, f.n, &body);
	h2_fields_clear(&f);
}

/* What is wrong with a request; false when it was answered. */
static bool is_acceptable(struct h2_stream *s, const struct h2_fields *f)
{
	struct conn *c = s->h->c;
	struct http_text authority = h2_fields_get(f, ":authority"), host = h2_fields_get(f, "host");

	if (c->inspect->why[0]) {
		auto_free char *text = xasprintf("Cannot speak TLS with %s port %u: %s.", c->host.text,
						 (unsigned)c->port, c->inspect->why);
		answer_locally(s, "502", "tls failure", text);
		return false;
	}
	if (!h2_fields_get(f, ":path").p || (!authority.p && !host.p)) {
		answer_locally(s, "400", "malformed request", "The request is malformed: it names no path or host.");
		return false;
	}
	if ((authority.p && !request_host_agrees(c, authority, HTTPS)) ||
	    (host.p && !request_host_agrees(c, host, HTTPS))) {
		answer_locally(s, "421", "host mismatch", "The request names another host than this connection's.");
		return false;
	}
	return true;
}

static void find_foreign(struct conn *c, const struct h2_fields *f)
{
	for (size_t i = 0; i < f->n; i++)
		inspect_find_foreign(c, &c->inspect->swaps, (const char *)f->v[i].value, f->v[i].valuelen);
}

static void begin_request(struct h2_stream *s, bool last)
{
	struct h2_half *half = &s->request;
	struct conn *c = s->h->c;
	nghttp2_data_provider body = {.source.ptr = half, .read_callback = read_data};

	half->begun = true;
	find_foreign(c, &half->head);
	h2_fields_drop_proxy(&half->head);
	if (!is_acceptable(s, &half->head))
		return;
	if (!half->to->session) {
		answer_locally(s, "502", "connection failed", "The connection to the host is gone.");
		return;
	}
	if (h2_fields_swap_request(&half->head, &c->inspect->swaps) < 0) {
		answer_locally(s, "431", "request head too large", "The target of the request is too long.");
		return;
	}
	half->to_id =
		nghttp2_submit_request(half->to->session, NULL, half->head.v, half->head.n, last ? NULL : &body, s);
	if (half->to_id < 0) {
		half->to_id = 0;
		answer_locally(s, "502", "connection failed", "The connection to the host takes no more requests.");
		return;
	}
	s->answer.from_id = half->to_id;
	s->answer.open = true;
}

static void begin_answer(struct h2_stream *s, bool last)
{
	struct h2_half *half = &s->answer;
	const struct swaps *swaps = &s->h->c->inspect->swaps;
	struct http_text status = h2_fields_get(&half->head, ":status");
	nghttp2_data_provider body = {.source.ptr = half, .read_callback = read_data};
	nghttp2_session *to = half->to->session;

	h2_fields_drop_proxy(&half->head);
	h2_fields_swap_response(&half->head, swaps);
	if (status.len == 3 && status.p[0] == '1') {
		if (++s->interim > MAX_INTERIM) {
			(void)nghttp2_submit_rst_stream(half->from->session, NGHTTP2_FLAG_NONE, half->from_id,
							NGHTTP2_ENHANCE_YOUR_CALM);
			return;
		}
		(void)nghttp2_submit_headers(to, NGHTTP2_FLAG_NONE, half->to_id, NULL, half->head.v, half->head.n,
					     NULL);
		return;
	}
	half->begun = true;
	/* Whatever its coding, see inspect_response. */
	if (swaps->n && !last && swap_is_text(h2_fields_get(&half->head, "content-type")))
		half->swap = swap_stream_new(swaps->in, swaps->n_in);
	(void)nghttp2_submit_response(to, half->to_id, half->head.v, half->head.n, last ? NULL : &body);
}

void h2_stream_head(struct h2_half *half, bool last)
{
	const struct swaps *swaps = &half->stream->h->c->inspect->swaps;

	if (half->begun) {
		if (half == &half->stream->answer)
			h2_fields_swap_response(&half->head, swaps);
		h2_fields_clear(&half->trailers);
		half->trailers = half->head;
		half->head = (struct h2_fields){0};
		return;
	}
	if (half == &half->stream->request)
		begin_request(half->stream, last);
	else if (half->to->session)
		begin_answer(half->stream, last);
	h2_fields_clear(&half->head);
}

static void resume(const struct h2_half *half)
{
	if (half->to->session && half->to_id)
		(void)nghttp2_session_resume_data(half->to->session, half->to_id);
}

/* Nobody takes it: its window is given back at once. */
static bool is_lost(const struct h2_half *half)
{
	return !half->to->session || !half->to_id || !other(half)->open;
}

void h2_stream_data(struct h2_half *half, const uint8_t *data, size_t len)
{
	struct conn *c = half->stream->h->c;
	bool up = half == &half->stream->request;

	*(up ? &c->total->up : &c->total->down) += len;
	if (is_lost(half)) {
		(void)nghttp2_session_consume(half->from->session, half->from_id, len);
		return;
	}
	half->unconsumed += len;
	if (half->swap)
		(void)swap_stream_feed(half->swap, (const char *)data, len, &half->data);
	else
		(void)buf_add(&half->data, data, len);
	resume(half);
}

void h2_stream_ended(struct h2_half *half)
{
	half->ended = true;
	if (half->swap)
		(void)swap_stream_end(half->swap, &half->data);
	resume(half);
}

void h2_stream_closed(struct h2_half *half, uint32_t code)
{
	struct h2_half *peer = other(half);

	half->open = false;
	if (!peer->open) {
		h2_stream_free(half->stream);
		return;
	}
	/* A host that has answered whole may close before it has the whole request; its answer still goes on. */
	if (half == &half->stream->answer && half->ended && code == NGHTTP2_NO_ERROR)
		return;
	if (code == NGHTTP2_NO_ERROR)
		code = half == &half->stream->request ? NGHTTP2_CANCEL : NGHTTP2_INTERNAL_ERROR;
	(void)nghttp2_submit_rst_stream(peer->from->session, NGHTTP2_FLAG_NONE, peer->from_id, code);
}

void h2_streams_lose_host(struct h2 *h)
{
	for (struct h2_stream *s = h->streams, *next; s; s = next) {
		next = s->next;
		bool owes = s->answer.open && !s->answer.ended;
		s->answer.open = false;
		s->answer.unconsumed = 0;
		if (!s->request.open)
			h2_stream_free(s);
		else if (owes)
			(void)nghttp2_submit_rst_stream(h->client.session, NGHTTP2_FLAG_NONE, s->request.from_id,
							NGHTTP2_INTERNAL_ERROR);
	}
}

void h2_stop(struct h2 *h)
{
	if (h->closing)
		return;
	h->closing = true;
	(void)nghttp2_submit_goaway(h->client.session, NGHTTP2_FLAG_NONE,
				    nghttp2_session_get_last_proc_stream_id(h->client.session), NGHTTP2_NO_ERROR, NULL,
				    0);
}
