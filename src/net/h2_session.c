/* The sessions of HTTP/2 and what they tell of.
 *
 * Windows are opened only as bytes go on, so what waits in memory is bounded by them: half->unconsumed. Each callback
 * finds its half by the stream's user data; streams that are not known any more are not spoken of. */
#include "h2_priv.h"

#include <base/mem.h>

#include <errno.h>

/* Compressed, header blocks are small; what they become is bounded for all streams of a connection together. */
enum { STREAM_WINDOW = 256 * 1024, CONNECTION_WINDOW = 1024 * 1024, HEADS_MAX = 2 * 1024 * 1024 };

static struct h2_half *half_of(nghttp2_session *session, int32_t id, const struct h2_side *side)
{
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);

	if (!s)
		return NULL;
	return side == &s->h->client ? &s->request : &s->answer;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_side *side = arg;
	int32_t id = frame->hd.stream_id;

	if (side == &side->h->client && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		(void)nghttp2_session_set_stream_user_data(session, id, h2_stream_new(side->h, id));
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
		     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct h2_half *half = half_of(session, frame->hd.stream_id, arg);

	if (!half)
		return 0;
	struct h2_stream *s = half->stream;
	if (name_len + value_len > HEADS_MAX - s->h->head_bytes ||
	    h2_fields_add(&half->head, name, name_len, value, value_len) < 0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	/* What its sender keeps out of compression tables stays out (RFC 7541 §6.2.3). */
	half->head.v[half->head.n - 1].flags = flags & NGHTTP2_NV_FLAG_NO_INDEX;
	s->head_bytes += name_len + value_len;
	s->h->head_bytes += name_len + value_len;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_side *side = arg;
	struct h2_half *half = frame->hd.stream_id ? half_of(session, frame->hd.stream_id, side) : NULL;
	bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (frame->hd.type == NGHTTP2_GOAWAY && side == &side->h->host)
		h2_stop(side->h);
	if (half && frame->hd.type == NGHTTP2_HEADERS)
		h2_stream_head(half, last);
	if (half && last && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS))
		h2_stream_ended(half);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *arg)
{
	struct h2_half *half = half_of(session, id, arg);

	(void)flags;
	if (half)
		h2_stream_data(half, data, len);
	else
		(void)nghttp2_session_consume(session, id, len);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct h2_half *half = half_of(session, id, arg);

	if (half)
		h2_stream_closed(half, code);
	return 0;
}

static int set_up(struct h2_side *side, const nghttp2_settings_entry *settings, size_t n)
{
	if (nghttp2_submit_settings(side->session, NGHTTP2_FLAG_NONE, settings, n) != 0 ||
	    nghttp2_session_set_local_window_size(side->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) != 0)
		return -ENOMEM;
	return 0;
}

int h2_sessions_new(struct h2 *h, bool with_host)
{
	const nghttp2_settings_entry for_client[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
	};
	const nghttp2_settings_entry for_host[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
	};
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *option = NULL;
	int r = -ENOMEM;

	if (nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&option) == 0) {
		nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
		nghttp2_option_set_no_auto_window_update(option, 1);
		r = nghttp2_session_server_new2(&h->client.session, cb, &h->client, option) == 0 ? 0 : -ENOMEM;
		if (r == 0 && with_host)
			r = nghttp2_session_client_new2(&h->host.session, cb, &h->host, option) == 0 ? 0 : -ENOMEM;
	}
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(cb);
	if (r == 0)
		r = set_up(&h->client, for_client, ARRAY_LEN(for_client));
	if (r == 0 && with_host)
		r = set_up(&h->host, for_host, ARRAY_LEN(for_host));
	return r;
}
