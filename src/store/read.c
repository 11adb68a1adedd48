/* Reading events.jsonl while it may still grow.
 *
 * The writer appends whole lines, so everything up to the last newline is complete. What stands behind it is either a
 * line on its way or the torn end that a power loss left; a reader cannot tell which and holds it back. Damaged lines
 * (blocks of NULs after a crash) are skipped and counted, never an end of the reading. */
#include "record.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <store/read.h>
#include <store/run.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { READ_CHUNK = 64 * 1024 };

struct event_reader {
	int fd;
	char *path;
	struct buf data;
	uint64_t offset; /* in the file, of the end of the last event given out */
	uint64_t at;	 /* in the file, of data */
	size_t done;	 /* bytes of data that belong to lines already given out */
	bool overlong;	 /* inside a line past the limit: drop up to its newline */
	uint64_t damaged;
};

int event_reader_open(const char *store_dir, const char *run_id, struct event_reader **ret, struct err *e)
{
	auto_fd dir = record_open_dir(store_dir, run_id, e);
	if (dir < 0)
		return dir;
	int fd = openat(dir, EVENTS_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_sys(e, errno, "run %s: open %s", run_id, EVENTS_FILE);
	struct event_reader *r = xcalloc(1, sizeof *r);
	*r = (struct event_reader){
		.fd = fd,
		.path = xasprintf("%s/runs/%s/%s", store_dir, run_id, EVENTS_FILE),
		.data = BUF_INIT(EVENT_LINE_MAX + READ_CHUNK),
	};
	*ret = r;
	return 0;
}

void event_reader_free(struct event_reader *r)
{
	if (!r)
		return;
	close_quietly(r->fd);
	free(r->path);
	buf_done(&r->data);
	free(r);
}

const char *event_reader_path(const struct event_reader *r)
{
	return r->path;
}

uint64_t event_reader_damaged(const struct event_reader *r)
{
	return r->damaged;
}

uint64_t event_reader_offset(const struct event_reader *r)
{
	return r->offset;
}

/* Makes room, reads a piece: 1 when there was one, 0 at the end. */
static int fill(struct event_reader *r, struct err *e)
{
	buf_consume(&r->data, r->done);
	r->at += r->done;
	r->done = 0;
	if (r->data.len > EVENT_LINE_MAX) {
		r->at += r->data.len;
		buf_clear(&r->data);
		r->overlong = true;
	}
	if (buf_reserve(&r->data, READ_CHUNK) < 0)
		return err_set(e, ERR_INTERNAL, ENOBUFS, "read %s: no room", r->path);
	ssize_t n;
	do {
		n = read(r->fd, r->data.data + r->data.len, READ_CHUNK);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, errno, "read %s", r->path);
	r->data.len += (size_t)n;
	r->data.data[r->data.len] = '\0';
	return n > 0;
}

int event_reader_next(struct event_reader *r, json_t **ret, const char **ret_line, struct err *e)
{
	for (;;) {
		char *line = r->data.data ? r->data.data + r->done : NULL;
		char *end = line ? memchr(line, '\n', r->data.len - r->done) : NULL;
		if (!end) {
			int n = fill(r, e);
			if (n <= 0)
				return n;
			continue;
		}
		*end = '\0';
		r->done = (size_t)(end + 1 - r->data.data);
		json_t *j = r->overlong ? NULL : json_parse(line, (size_t)(end - line), NULL);
		r->overlong = false;
		if (json_is_object(j)) {
			r->offset = r->at + r->done;
			*ret = j;
			if (ret_line)
				*ret_line = line;
			return 1;
		}
		json_decref(j);
		r->damaged++;
	}
}
