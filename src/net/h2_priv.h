/* An inspected connection of HTTP/2: two sessions, and the streams that go from one to the other. */
#pragma once

#include "h2_fields.h"
#include "inspect.h"

#include <base/buf.h>
#include <nghttp2/nghttp2.h>

struct h2;

enum { H2_STREAMS = 100 }; /* that a client may have open at one time */

struct h2_side {
	nghttp2_session *session; /* NULL: there is no host to be had */
	struct h2 *h;
};

/* What comes from one side and goes to the other. */
struct h2_half {
	struct h2_stream *stream;
	struct h2_side *from, *to;
	int32_t from_id, to_id; /* the stream's numbers there; 0: none yet */
	bool open;		/* the stream lives on the side it comes from */
	bool ended;		/* no more will come */
	bool begun;		/* its head was passed on */
	size_t unconsumed;	/* bytes that the sender's window does not have back yet */
	struct buf data;	/* waits to go on */
	struct h2_fields head;	/* the block that is being received */
	struct h2_fields trailers;
	struct swap_stream *swap;
};

struct h2_stream {
	struct h2 *h;
	struct h2_stream *prev, *next;
	struct h2_half request, answer;
	size_t head_bytes; /* of all its header blocks */
	unsigned interim;  /* 1xx answers so far */
};

struct h2 {
	struct conn *c;
	struct h2_side client, host;
	struct h2_stream *streams;
	size_t n;
	size_t head_bytes; /* of the streams that are there: what the library may hold of them */
	bool closing;	   /* the client was told to open no more streams */
};

/* The two sessions with their callbacks: h2_session.c. 0 or -ENOMEM. */
int h2_sessions_new(struct h2 *h, bool with_host);

/* h2_stream.c */
struct h2_stream *h2_stream_new(struct h2 *h, int32_t client_id);
void h2_stream_free(struct h2_stream *s);
/* A whole header block stands in half->head. */
void h2_stream_head(struct h2_half *half, bool last);
void h2_stream_data(struct h2_half *half, const uint8_t *data, size_t len);
/* No more will come of it. */
void h2_stream_ended(struct h2_half *half);
/* It is gone on the side it comes from. */
void h2_stream_closed(struct h2_half *half, uint32_t code);
/* The host is gone: what it still owes fails. */
void h2_streams_lose_host(struct h2 *h);
/* Tells the client to open no more streams here. */
void h2_stop(struct h2 *h);
