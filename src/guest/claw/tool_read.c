/* Read: a text file by lines, with their numbers, or an image as an image.
 *
 * The file is read in pieces and only what is shown is kept, so that a log of gigabytes costs no memory; how far the
 * reading goes for a high offset is bounded. What is shown is bounded thrice: lines, length of a line, and all. */
#include "args.h"
#include "seen.h"
#include "textfile.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES = 2000, LINE_SHOWN = 2000, PIECE = 64 * 1024, SNIFF = 8 * 1024 };
static const long long furthest = 1LL << 30; /* bytes that are looked through */

static const struct {
	const char *magic;
	size_t len;
	const char *media_type;
} images[] = {
	{"\x89PNG\r\n\x1a\n", 8, "image/png"},
	{"\xff\xd8\xff", 3, "image/jpeg"},
	{"GIF87a", 6, "image/gif"},
	{"GIF89a", 6, "image/gif"},
};

static const char *image_type(const char *data, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(images); i++)
		if (len >= images[i].len && memcmp(data, images[i].magic, images[i].len) == 0)
			return images[i].media_type;
	return len >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0 ? "image/webp" : NULL;
}

static void base64(struct buf *to, const unsigned char *p, size_t len)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		unsigned v =
			(unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
		char four[4] = {digit[v >> 18], digit[v >> 12 & 63], left > 1 ? digit[v >> 6 & 63] : '=',
				left > 2 ? digit[v & 63] : '='};
		(void)buf_add(to, four, 4);
	}
}

static void read_image(int fd, const char *path, const char *media_type, struct tool_result *r)
{
	auto_buf b = BUF_INIT(IMAGE_MAX);
	int got = lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd_read_all(fd, &b);

	if (got == -EFBIG) {
		tool_fail(r, "%s is an image larger than %d bytes: make a smaller copy.", path, IMAGE_MAX);
		return;
	}
	if (got < 0) {
		tool_fail(r, "%s cannot be read: %s.", path, strerror(-got));
		return;
	}
	base64(&r->image, (const unsigned char *)b.data, b.len);
	r->media_type = media_type;
	(void)buf_printf(&r->text, "The image %s (%s, %zu bytes) is attached.", path, media_type, b.len);
}

struct lines {
	struct tool_result *r;
	long long from, count; /* first line to show, counted from 1; how many */
	long long line;	       /* the current one */
	size_t shown;	       /* bytes of it that were shown */
	bool started;	       /* its number was written */
	bool open;	       /* it has bytes and no end so far */
	bool full;	       /* what may be shown was reached */
	bool more;	       /* and there was more */
};

static void show_part(struct lines *l, const char *p, size_t len)
{
	if (l->line < l->from || l->full)
		return;
	if (l->line >= l->from + l->count || l->r->text.len >= RESULT_MAX) {
		l->full = l->more = true;
		return;
	}
	if (!l->started) {
		(void)buf_printf(&l->r->text, "%6lld\t", l->line);
		l->started = true;
	}
	size_t fits = MIN(len, LINE_SHOWN - MIN(l->shown, (size_t)LINE_SHOWN));
	(void)buf_add(&l->r->text, p, fits);
	if (fits < len && l->shown <= LINE_SHOWN)
		(void)buf_puts(&l->r->text, "… [the line goes on]");
	l->shown += fits < len ? LINE_SHOWN + 1 : len;
}

static void end_line(struct lines *l)
{
	if (l->started)
		(void)buf_putc(&l->r->text, '\n');
	l->started = false;
	l->shown = 0;
	l->line++;
}

static void show_piece(struct lines *l, const char *p, size_t len)
{
	while (len > 0 && !l->full) {
		const char *nl = memchr(p, '\n', len);
		size_t part = nl ? (size_t)(nl - p) : len;
		show_part(l, p, part);
		l->open = !nl;
		if (nl && !l->full)
			end_line(l);
		p += part + (nl != NULL);
		len -= part + (nl != NULL);
	}
}

static void read_lines(int fd, const char *path, struct lines *l)
{
	char piece[PIECE];
	long long looked = 0;
	ssize_t n = 0;

	while (!l->full && looked < furthest && (n = read(fd, piece, sizeof piece)) > 0) {
		if (looked == 0 && memchr(piece, '\0', MIN((size_t)n, (size_t)SNIFF))) {
			tool_fail(l->r, "%s is a binary file: look at it by a command such as file or od.", path);
			return;
		}
		looked += n;
		show_piece(l, piece, (size_t)n);
	}
	if (n < 0) {
		tool_fail(l->r, "%s cannot be read: %s.", path, strerror(errno));
		return;
	}
	if (l->open && !l->full)
		end_line(l);
	else if (l->started)
		(void)buf_putc(&l->r->text, '\n');
	if (looked == 0)
		(void)buf_printf(&l->r->text, "(%s is empty)", path);
	else if (!l->r->text.len)
		tool_fail(l->r, "%s has no line %lld: it has %lld lines%s.", path, l->from, l->line - 1,
			  looked < furthest ? "" : " within the first GiB");
	else if (l->more)
		(void)buf_printf(&l->r->text, "[more lines follow: read on with offset %lld]\n", l->line);
}

static void read_run(struct tools *t, struct jv input, struct tool_result *r)
{
	struct lines l = {.r = r, .from = 1, .count = LINES, .line = 1};
	char *got = NULL;
	struct stat st;

	bool good = arg_path(t, input, "file_path", &got, r) &&
		    arg_opt_int(input, "offset", 0, 1LL << 40, &l.from, r) &&
		    arg_opt_int(input, "limit", 1, 1000 * 1000, &l.count, r);
	auto_free char *path = got;
	if (!good)
		return;
	l.from = MAX(l.from, 1LL);
	auto_fd fd = text_open(path, &st, r);
	if (fd < 0)
		return;
	char head[16];
	ssize_t n = pread(fd, head, sizeof head, 0);
	const char *image = n > 0 ? image_type(head, (size_t)n) : NULL;
	if (image)
		read_image(fd, path, image, r);
	else
		read_lines(fd, path, &l);
	if (!r->error)
		seen_note(t->seen, &st);
}

const struct tool tool_read = {
	.name = "Read",
	.description =
		"Reads a file. Text comes with line numbers: 2000 lines from the beginning, or those that offset "
		"and limit name; lines past 2000 characters are cut. PNG, JPEG, GIF and WebP images are shown "
		"as images. A file must have been read before Edit, MultiEdit or Write change it.",
	.schema = "{\"type\":\"object\",\"properties\":{\"file_path\":{\"type\":\"string\",\"description\":\"absolute "
		  "path\"},\"offset\":{\"type\":\"number\",\"description\":\"first line, counted from 1\"},\"limit\":{"
		  "\"type\":\"number\",\"description\":\"number of lines\"}},\"required\":[\"file_path\"]}",
	.flags = TOOL_READS,
	.run = read_run,
};
