/* The body of a message on its way from one socket's buffer to another's. Pure. */
#pragma once

#include "http_chunk.h"
#include "http_write.h"

#include <base/buf.h>

struct swap_stream;

struct body {
	enum http_body kind;
	uint64_t left;
	struct http_chunk chunk;
	struct swap_stream *swap; /* owned; what to replace in it, NULL: nothing */
	struct buf plain;	  /* its own use: chunks taken apart */
	bool chunked_out;	  /* with swap: the receiver gets chunks */
	bool done;
};

/* Sets what replaces texts in a body that has not begun. Takes swap. */
void body_set_swap(struct body *b, struct swap_stream *swap);

/* Moves bytes while `to` holds less than room, and counts those taken. 1 when some moved, 0, or -EBADMSG. */
int body_move(struct body *b, struct buf *from, struct buf *to, size_t room, uint64_t *count);

/* The body ended with its connection: what was held back goes on. */
void body_close(struct body *b, struct buf *to);

void body_done(struct body *b);
