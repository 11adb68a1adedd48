/* Bodies that pass: as they are, or with texts in them replaced by others of the same length.
 *
 * Without replacing, chunks are written anew one by one (http_chunk.c). With it they are taken apart first, since a
 * text may be cut over two of them, and what is certain goes on as a chunk of our own. A body with a length keeps it.
 */
#include "http_body.h"
#include "secret_swap.h"

#include <base/mem.h>

#include <errno.h>
#include <stdint.h>

enum { PLAIN_MAX = 1024 * 1024 };

void body_set_swap(struct body *b, struct swap_stream *swap)
{
	b->swap = swap;
	b->chunked_out = b->kind == HTTP_BODY_CHUNKED && !b->chunk.plain;
	b->chunk.plain = true;
	b->plain = BUF_INIT(PLAIN_MAX);
}

void body_done(struct body *b)
{
	swap_stream_free(b->swap);
	b->swap = NULL;
	buf_done(&b->plain);
}

/* What is certain by now goes on, in a chunk when the receiver wants those. */
static void put_swapped(struct body *b, const char *data, size_t len, bool last, struct buf *to)
{
	auto_buf ready = BUF_INIT(PLAIN_MAX);

	if (len)
		(void)swap_stream_feed(b->swap, data, len, &ready);
	if (last)
		(void)swap_stream_end(b->swap, &ready);
	if (ready.len && b->chunked_out)
		(void)buf_printf(to, "%zx\r\n", ready.len);
	(void)buf_add(to, ready.data, ready.len);
	if (ready.len && b->chunked_out)
		(void)buf_puts(to, "\r\n");
	if (last && b->chunked_out)
		(void)buf_puts(to, "0\r\n\r\n");
}

static ssize_t move_chunks(struct body *b, const struct buf *from, struct buf *to, size_t room)
{
	ssize_t used = http_chunk_step(&b->chunk, from->data, from->len, b->swap ? &b->plain : to, room);

	if (used < 0)
		return used;
	b->done = b->chunk.done;
	if (b->swap && (b->plain.len || b->done))
		put_swapped(b, b->plain.data, b->plain.len, b->done, to);
	buf_clear(&b->plain);
	return used;
}

static ssize_t move_plain(struct body *b, const struct buf *from, struct buf *to, size_t room)
{
	size_t n = MIN(from->len, room - to->len);

	if (b->kind == HTTP_BODY_LENGTH) {
		n = (size_t)MIN((uint64_t)n, b->left);
		b->left -= n;
		b->done = b->left == 0;
	}
	if (b->swap)
		put_swapped(b, from->data, n, b->done, to);
	else
		(void)buf_add(to, from->data, n);
	return (ssize_t)n;
}

int body_move(struct body *b, struct buf *from, struct buf *to, size_t room, uint64_t *count)
{
	if (b->done || from->len == 0 || to->len >= room)
		return 0;
	ssize_t n = b->kind == HTTP_BODY_CHUNKED ? move_chunks(b, from, to, room) : move_plain(b, from, to, room);
	if (n < 0)
		return -EBADMSG;
	*count += (uint64_t)n;
	buf_consume(from, (size_t)n);
	return n > 0;
}

void body_close(struct body *b, struct buf *to)
{
	if (b->swap && !b->done)
		put_swapped(b, NULL, 0, true, to);
	b->done = true;
}
