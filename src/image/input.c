/* Decompression as a stream, with what it reads from and gives on bounded by two buffers.
 *
 * The form is known by its first bytes, not by what a manifest says of it. Both formats may be made of several parts
 * one behind the other. A stream that ends in the middle is an error, never a shorter layer. */
#include "input.h"

#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { CHUNK = 64 * 1024, WINDOW_BITS = 15, GZIP_ONLY = 16, ZSTD_WINDOW_LOG_MAX = 27 };

int input_read(const struct input *in, void *to, size_t n, struct err *e)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got = in->read(in->arg, (char *)to + have, n - have, e);
		if (got < 0)
			return (int)got;
		if (got == 0 && have == 0)
			return 0;
		if (got == 0)
			return err_set(e, ERR_INPUT, EPROTO, "it ends in the middle");
		have += (size_t)got;
	}
	return 1;
}

/* #syscalls: read */
ssize_t input_read_fd(void *arg, void *to, size_t n, struct err *e)
{
	const int *fd = arg;
	ssize_t got;

	do {
		got = read(*fd, to, n);
	} while (got < 0 && errno == EINTR);
	return got < 0 ? err_sys(e, errno, "read the layer") : got;
}

enum form { FORM_UNKNOWN, FORM_PLAIN, FORM_GZIP, FORM_ZSTD };

struct expand {
	struct input from;
	enum form form;
	unsigned char *buf;
	size_t pos, len;
	bool from_end; /* nothing more comes from below */
	bool between;  /* a part ended, and no other began */
	z_stream z;
	ZSTD_DStream *zstd;
};

struct expand *expand_new(const struct input *from)
{
	struct expand *x = xcalloc(1, sizeof *x);

	x->from = *from;
	x->buf = xmalloc(CHUNK);
	x->between = true;
	return x;
}

void expand_free(struct expand *x)
{
	if (!x)
		return;
	if (x->form == FORM_GZIP)
		(void)inflateEnd(&x->z);
	ZSTD_freeDStream(x->zstd);
	free(x->buf);
	free(x);
}

/* At least one byte in the buffer, unless it ends: 0 or -errno. */
static int fill(struct expand *x, struct err *e)
{
	if (x->pos < x->len || x->from_end)
		return 0;
	ssize_t got = x->from.read(x->from.arg, x->buf, CHUNK, e);
	if (got < 0)
		return (int)got;
	x->pos = 0;
	x->len = (size_t)got;
	x->from_end = got == 0;
	return 0;
}

static int begin(struct expand *x, struct err *e)
{
	static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
	struct input from = x->from;

	/* The first bytes of a pipe may come one by one. */
	while (x->len < sizeof zstd && !x->from_end) {
		ssize_t got = from.read(from.arg, x->buf + x->len, CHUNK - x->len, e);
		if (got < 0)
			return (int)got;
		x->len += (size_t)got;
		x->from_end = got == 0;
	}
	x->form = FORM_PLAIN;
	if (x->len >= sizeof gzip && memcmp(x->buf, gzip, sizeof gzip) == 0) {
		if (inflateInit2(&x->z, WINDOW_BITS + GZIP_ONLY) != Z_OK)
			return err_sys(e, ENOMEM, "prepare to decompress");
		x->form = FORM_GZIP;
	} else if (x->len >= sizeof zstd && memcmp(x->buf, zstd, sizeof zstd) == 0) {
		x->zstd = ZSTD_createDStream();
		if (!x->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(x->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX)))
			return err_sys(e, ENOMEM, "prepare to decompress");
		x->form = FORM_ZSTD;
	}
	return 0;
}

static ssize_t read_plain(struct expand *x, void *to, size_t n, struct err *e)
{
	int r = fill(x, e);
	size_t take = MIN(n, x->len - x->pos);

	if (r < 0)
		return r;
	memcpy(to, x->buf + x->pos, take);
	x->pos += take;
	return (ssize_t)take;
}

/* One step of gzip: how many bytes came out, or -errno. */
static ssize_t step_gzip(struct expand *x, void *to, size_t n, struct err *e)
{
	if (x->between && x->z.total_in && inflateReset(&x->z) != Z_OK)
		return err_set(e, ERR_INPUT, EPROTO, "its compression is damaged");
	x->between = false;
	x->z.next_in = x->buf + x->pos;
	x->z.avail_in = (uInt)(x->len - x->pos);
	x->z.next_out = to;
	x->z.avail_out = (uInt)MIN(n, (size_t)CHUNK);
	uInt room = x->z.avail_out;
	int r = inflate(&x->z, Z_NO_FLUSH);
	x->pos = x->len - x->z.avail_in;
	if (r == Z_STREAM_END)
		x->between = true;
	else if (r != Z_OK && r != Z_BUF_ERROR)
		return err_set(e, ERR_INPUT, EPROTO, "its compression (gzip) is damaged");
	return (ssize_t)(room - x->z.avail_out);
}

static ssize_t step_zstd(struct expand *x, void *to, size_t n, struct err *e)
{
	ZSTD_inBuffer in = {.src = x->buf, .size = x->len, .pos = x->pos};
	ZSTD_outBuffer out = {.dst = to, .size = n, .pos = 0};
	size_t left = ZSTD_decompressStream(x->zstd, &out, &in);

	if (ZSTD_isError(left))
		return err_set(e, ERR_INPUT, EPROTO, "its compression (zstd) is damaged or needs too much memory");
	x->pos = in.pos;
	x->between = left == 0;
	return (ssize_t)out.pos;
}

ssize_t expand_read(void *arg, void *to, size_t n, struct err *e)
{
	struct expand *x = arg;
	int r = x->form == FORM_UNKNOWN ? begin(x, e) : 0;

	if (r == 0 && x->form == FORM_PLAIN)
		return read_plain(x, to, n, e);
	while (r == 0) {
		bool gzip = x->form == FORM_GZIP;
		r = fill(x, e);
		if (r < 0)
			break;
		bool none = x->pos == x->len;
		if (none && x->between)
			return 0;
		ssize_t out = gzip ? step_gzip(x, to, n, e) : step_zstd(x, to, n, e);
		if (out != 0)
			return out;
		if (none && x->from_end && !x->between)
			return err_set(e, ERR_INPUT, EPROTO, "its compressed data ends in the middle");
	}
	return r;
}
