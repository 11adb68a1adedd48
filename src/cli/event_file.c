/* Events of a command that has no run in the store, in the same form as a run's events.jsonl. */
#include "event_file.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int event_file_open(const char *path, const char *run_id, struct event_file *ret, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);

	if (fd < 0) {
		int r = err_sys(e, errno, "open %s for events", path);
		err_set_kind(e, ERR_INPUT);
		err_hint(e, "Name a file in a folder that exists and that you may write.");
		return r;
	}
	*ret = (struct event_file){.path = path, .run_id = run_id, .fd = fd};
	return 0;
}

void event_file_add(struct event_file *f, const char *type, json_t *data)
{
	char now[TIMESTAMP_SIZE];

	if (!f->path || f->failed)
		return;
	auto_json j = json_object();
	clock_format(now, clock_wall_ms());
	json_put_int(j, "seq", (long long)f->seq++);
	json_put_str(j, "timestamp", now);
	json_put_str(j, "type", type);
	json_put_str(j, "run_id", f->run_id);
	if (data)
		json_put(j, "data", json_incref(data));
	auto_free char *text = json_compact(j);
	size_t len = strlen(text);
	/* The NUL's place takes the newline: the line goes out in one write. */
	text[len] = '\n';
	int r = fd_write_all(f->fd, text, len + 1);
	if (r < 0)
		f->failed = -r;
}

int event_file_close(struct event_file *f, struct err *e)
{
	const char *path = f->path;

	if (!path)
		return 0;
	if (close(f->fd) < 0 && !f->failed)
		f->failed = errno;
	f->path = NULL;
	if (!f->failed)
		return 0;
	int r = err_sys(e, f->failed, "write events to %s", path);
	err_hint(e, "Events are missing there: name a file where there is room.");
	return r;
}
