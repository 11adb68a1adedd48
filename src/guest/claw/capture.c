/* A program's output, kept within bounds.
 *
 * What the model reads is at most CAPTURE_SHOWN bytes: a conversation carries them to its end. A longer output is shown
 * by its beginning and its end, where errors tend to stand, and goes whole into a file that the model can search. */
#include "capture.h"
#include "tool.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/id.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { READ = 64 * 1024 };

void capture_init(struct capture *c)
{
	*c = (struct capture){.spill_fd = -1};
	c->head = BUF_INIT(CAPTURE_SHOWN);
	c->tail = BUF_INIT(CAPTURE_SHOWN / 2 + READ);
}

void capture_done(struct capture *c)
{
	buf_done(&c->head);
	buf_done(&c->tail);
	close_quietly(c->spill_fd);
	free(c->spill_path);
	capture_init(c);
}

static void spill(struct capture *c, const char *data, size_t len)
{
	size_t room = (size_t)(CAPTURE_SPILL_MAX - c->spilled);

	len = MIN(len, room);
	if (c->spill_fd < 0 || !len || fd_write_all(c->spill_fd, data, len) < 0)
		return;
	c->spilled += len;
}

static void open_spill(struct capture *c, struct tools *t)
{
	const char *dir = tools_scratch(t);
	char name[17];

	if (!dir)
		return;
	id_hex(name, 8);
	auto_free char *path = xasprintf("%s/output-%s.txt", dir, name);
	c->spill_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c->spill_fd < 0)
		return;
	c->spill_path = TAKE_PTR(path);
	spill(c, c->head.data, c->head.len);
}

void capture_add(struct capture *c, struct tools *t, const char *data, size_t len)
{
	bool fits = c->total + len <= CAPTURE_SHOWN;

	if (fits) {
		(void)buf_add(&c->head, data, len);
		c->total += len;
		return;
	}
	if (c->total <= CAPTURE_SHOWN && !c->tail.len) {
		open_spill(c, t);
		(void)buf_add(&c->tail, c->head.data ? c->head.data + MIN(c->head.len, (size_t)CAPTURE_SHOWN / 2) : "",
			      c->head.len - MIN(c->head.len, (size_t)CAPTURE_SHOWN / 2));
	}
	spill(c, data, len);
	c->total += len;
	for (size_t part; len > 0; data += part, len -= part) {
		part = MIN(len, (size_t)READ);
		(void)buf_add(&c->tail, data, part);
		if (c->head.len < CAPTURE_SHOWN / 2) {
			size_t more = MIN(CAPTURE_SHOWN / 2 - c->head.len, c->tail.len);
			(void)buf_add(&c->head, c->tail.data, more);
			buf_consume(&c->tail, more);
		}
		if (c->tail.len > CAPTURE_SHOWN / 2)
			buf_consume(&c->tail, c->tail.len - CAPTURE_SHOWN / 2);
	}
}

int capture_read(struct capture *c, struct tools *t, int fd, size_t most)
{
	char chunk[READ];

	while (most > 0) {
		ssize_t n = read(fd, chunk, MIN(sizeof chunk, most));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		capture_add(c, t, chunk, (size_t)n);
		most -= (size_t)n;
	}
	return 1;
}

void capture_write(const struct capture *c, struct buf *to)
{
	if (c->total <= CAPTURE_SHOWN) {
		(void)buf_add(to, c->head.data, c->head.len);
		return;
	}
	size_t head = MIN(c->head.len, (size_t)CAPTURE_SHOWN / 2);
	(void)buf_add(to, c->head.data, head);
	(void)buf_printf(to, "\n\n[%llu bytes are left out here", (unsigned long long)(c->total - head - c->tail.len));
	if (c->spill_path && c->spilled == c->total)
		(void)buf_printf(to, "; the whole output is in %s", c->spill_path);
	else if (c->spill_path)
		(void)buf_printf(to, "; the first %llu bytes are in %s", (unsigned long long)c->spilled, c->spill_path);
	(void)buf_puts(to, "]\n\n");
	(void)buf_add(to, c->tail.data, c->tail.len);
}
