/* The chunked coding as a state machine over single bytes (data runs are copied whole). What goes out is written anew,
 * so that both sides of the proxy agree on where a body ends even when they would read odd input in two ways;
 * extensions and trailers are checked for stray line ends and dropped, which RFC 9112 §7.1.1 and RFC 9110 §6.5.1 allow
 * an intermediary. */
#include "http_chunk.h"

#include <base/buf.h>
#include <base/mem.h>

#include <errno.h>
#include <inttypes.h>

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF };
enum { MAX_DIGITS = 15, MAX_EXTENSION = 4096, MAX_TRAILER = 16 * 1024 };

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_control(char ch)
{
	unsigned char c = (unsigned char)ch;

	return (c < 0x20 && c != '\t') || c == 0x7f;
}

static int size_byte(struct http_chunk *c, char ch)
{
	int v = hex(ch);

	if (v >= 0) {
		if (++c->digits > MAX_DIGITS)
			return -EBADMSG;
		c->left = c->left * 16 + (uint64_t)v;
		return 0;
	}
	if (c->digits == 0 || (ch != '\r' && ch != ';'))
		return -EBADMSG;
	c->state = ch == '\r' ? SIZE_LF : EXTENSION;
	c->line = 0;
	return 0;
}

static int size_end(struct http_chunk *c, struct buf *out)
{
	c->digits = 0;
	c->line = 0;
	c->line_begun = false;
	c->state = c->left ? DATA : TRAILER;
	return c->left && !c->plain ? buf_printf(out, "%" PRIx64 "\r\n", c->left) : 0;
}

static int extension_byte(struct http_chunk *c, char ch)
{
	if (ch == '\r')
		c->state = SIZE_LF;
	else if (is_control(ch) || ++c->line > MAX_EXTENSION)
		return -EBADMSG;
	return 0;
}

static int trailer_byte(struct http_chunk *c, char ch)
{
	if (ch == '\r')
		c->state = TRAILER_LF;
	else if (is_control(ch) || ++c->line > MAX_TRAILER)
		return -EBADMSG;
	else
		c->line_begun = true;
	return 0;
}

static int trailer_end(struct http_chunk *c, struct buf *out)
{
	c->state = TRAILER;
	if (c->line_begun) {
		c->line_begun = false;
		return 0;
	}
	c->done = true;
	return c->plain ? 0 : buf_puts(out, "0\r\n\r\n");
}

/* One byte outside of chunk data. */
static int control_byte(struct http_chunk *c, char ch, struct buf *out)
{
	switch (c->state) {
	case SIZE:
		return size_byte(c, ch);
	case EXTENSION:
		return extension_byte(c, ch);
	case SIZE_LF:
		return ch == '\n' ? size_end(c, out) : -EBADMSG;
	case DATA_CR:
		c->state = DATA_LF;
		return ch == '\r' ? 0 : -EBADMSG;
	case DATA_LF:
		c->state = SIZE;
		if (ch != '\n')
			return -EBADMSG;
		return c->plain ? 0 : buf_puts(out, "\r\n");
	case TRAILER:
		return trailer_byte(c, ch);
	default:
		return ch == '\n' ? trailer_end(c, out) : -EBADMSG;
	}
}

ssize_t http_chunk_step(struct http_chunk *c, const char *data, size_t len, struct buf *out, size_t room)
{
	size_t i = 0;

	while (i < len && !c->done && out->len < room) {
		if (c->state == DATA) {
			size_t n = (size_t)MIN((uint64_t)MIN(len - i, room - out->len), c->left);
			if (buf_add(out, data + i, n) < 0)
				return -EBADMSG;
			i += n;
			c->left -= n;
			if (c->left == 0)
				c->state = DATA_CR;
			continue;
		}
		if (control_byte(c, data[i], out) < 0)
			return -EBADMSG;
		i++;
	}
	return (ssize_t)i;
}
