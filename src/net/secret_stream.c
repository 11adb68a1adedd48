/* Replacing in a body that arrives bit by bit.
 *
 * The bytes go through at once, but for an end that looks like the beginning of a match: that is held until the next
 * bytes tell, or the body ends.
 *
 * Looks like, and not: is one. Whoever can make a host send texts of his choice sees where the stream stops (by time,
 * by records of TLS, by chunks), and if it stopped behind true beginnings only, it would tell the value letter by
 * letter. So an end is held by what everybody may know, the placeholder: any letter or digit stands for each of its
 * letters and digits. Lines that end are on their way at once. */
#include "secret_swap.h"

#include <base/buf.h>
#include <base/mem.h>

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct swap_stream {
	const struct swap *v;
	size_t n;
	bool first[256];  /* bytes that begin one of them */
	bool breaks[256]; /* bytes that are in none and look like none */
	size_t longest;
	struct buf held;
};

/* Letters and digits, and what base64 has beside them. */
static bool is_word(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("+/-_", c));
}

struct swap_stream *swap_stream_new(const struct swap *v, size_t n)
{
	struct swap_stream *s = xcalloc(1, sizeof *s);

	s->v = v;
	s->n = n;
	s->held = BUF_INIT(SIZE_MAX / 2);
	for (int c = 0; c < 256; c++)
		s->breaks[c] = !is_word((char)c);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < v[i].len; k++)
			s->breaks[(unsigned char)v[i].from[k]] = s->breaks[(unsigned char)v[i].to[k]] = false;
		s->first[(unsigned char)v[i].from[0]] = true;
		s->longest = MAX(s->longest, v[i].len);
	}
	return s;
}

void swap_stream_free(struct swap_stream *s)
{
	if (!s)
		return;
	if (s->held.data)
		explicit_bzero(s->held.data, s->held.cap);
	buf_done(&s->held);
	free(s);
}

/* Whether the text looks like the beginning of it, as far as the placeholder shows. */
static bool looks_like(const struct swap *x, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool fits = is_word(x->to[i]) ? is_word(text[i]) : text[i] == x->to[i];
		/* The second half matters for pairs that are not of one shape only. */
		if (!fits && text[i] != x->from[i])
			return false;
	}
	return true;
}

/* The longest match at the start of the text; *ret_open: it may become one, or a longer one, with more bytes. */
static const struct swap *look(const struct swap_stream *s, const char *text, size_t len, bool *ret_open)
{
	const struct swap *best = NULL;

	*ret_open = false;
	for (size_t i = 0; i < s->n; i++) {
		const struct swap *x = &s->v[i];
		if (x->len > len)
			*ret_open |= looks_like(x, text, len);
		else if ((!best || x->len > best->len) && memcmp(x->from, text, x->len) == 0)
			best = x;
	}
	return best;
}

/* Where the end begins that can look like a beginning. */
static size_t end_from(const struct swap_stream *s, const char *data, size_t len)
{
	size_t i = len;

	while (i > 0 && len - i + 1 < s->longest && !s->breaks[(unsigned char)data[i - 1]])
		i--;
	return i;
}

/* Works off data; returns how many of its bytes are done with. */
static size_t work(const struct swap_stream *s, const char *data, size_t len, bool last, struct buf *out, int *ret)
{
	size_t from = 0, i = 0, end = last ? len : end_from(s, data, len);

	while (i < len && *ret == 0) {
		bool open = false;
		bool first = s->first[(unsigned char)data[i]];
		const struct swap *x = first || i >= end ? look(s, data + i, len - i, &open) : NULL;
		if (open && !last)
			break;
		if (!x) {
			i++;
			continue;
		}
		*ret = buf_add(out, data + from, i - from);
		if (*ret == 0)
			*ret = buf_add(out, x->to, x->len);
		from = i += x->len;
	}
	if (*ret == 0)
		*ret = buf_add(out, data + from, i - from);
	return i;
}

int swap_stream_feed(struct swap_stream *s, const char *data, size_t len, struct buf *out)
{
	int r = 0;

	if (s->held.len == 0) {
		size_t done = work(s, data, len, false, out, &r);
		return r < 0 ? r : buf_add(&s->held, data + done, len - done);
	}
	r = buf_add(&s->held, data, len);
	if (r == 0)
		buf_consume(&s->held, work(s, s->held.data, s->held.len, false, out, &r));
	return r;
}

int swap_stream_end(struct swap_stream *s, struct buf *out)
{
	int r = 0;

	if (s->held.len)
		(void)work(s, s->held.data, s->held.len, true, out, &r);
	buf_clear(&s->held);
	return r;
}
