/* What a run adds to its folder: events, artifacts, large outputs, interactions, recoveries, the log.
 *
 * An event is one line and one write to a descriptor opened for appending, so lines never mix. seq has no gap on disk:
 * when a write fails, its half is cut off again and the run's events are closed for good, because an event that is
 * missing in the middle would make the rest a lie. Folders that most runs do not use are made when first needed. */
#include "record.h"
#include "writer.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <store/run.h>
#include <store/run_files.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int add_to_line(const char *data, size_t len, void *arg)
{
	return buf_add(arg, data, len) < 0 ? -1 : 0;
}

static json_t *new_event(const struct store_run *r, const char *type, const char *branch_id, const char *node_id,
			 json_t *data)
{
	json_t *ev = json_object();

	json_put_int(ev, "seq", (long long)r->seq);
	write_timestamp(ev, "timestamp");
	json_put_str(ev, "type", type);
	json_put_str(ev, "run_id", r->id);
	json_put_str(ev, "branch_id", branch_id);
	json_put_str(ev, "node_id", node_id);
	if (data)
		json_put(ev, "data", data);
	return ev;
}

static int append_line(struct store_run *r)
{
	ssize_t n;

	do {
		n = write(r->events_fd, r->line.data, r->line.len);
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t)r->line.len) {
		r->events_len += r->line.len;
		return 0;
	}
	int errnum = n < 0 ? errno : ENOSPC;
	if (n > 0)
		(void)!ftruncate(r->events_fd, (off_t)r->events_len);
	return -errnum;
}

static int broken(const struct store_run *r, struct err *e)
{
	int n = err_sys(e, -r->broken, "write %s/%s", r->dir, EVENTS_FILE);

	err_hint(e, "free some space on that file system; `iterion resume --run-id %s` goes on from the last node",
		 r->id);
	return n;
}

int store_run_event(struct store_run *r, const char *type, const char *branch_id, const char *node_id, json_t *data,
		    struct store_event *ret, struct err *e)
{
	json_decref(r->event);
	r->event = new_event(r, type, branch_id, node_id, data);
	if (ret)
		*ret = (struct store_event){.json = r->event, .line = "", .len = 0};
	if (r->broken)
		return broken(r, e);
	buf_clear(&r->line);
	if (json_dump_callback(r->event, add_to_line, &r->line, JSON_REALS | JSON_COMPACT) < 0)
		return err_set(e, ERR_INTERNAL, EMSGSIZE, "event %s: larger than %d bytes", type, EVENT_LINE_MAX);
	if (buf_putc(&r->line, '\n') < 0)
		return err_set(e, ERR_INTERNAL, EMSGSIZE, "event %s: larger than %d bytes", type, EVENT_LINE_MAX);
	r->broken = append_line(r);
	if (r->broken)
		return broken(r, e);
	r->seq++;
	if (ret) {
		/* The newline is on disk already; the caller gets a line without it. */
		r->line.data[--r->line.len] = '\0';
		*ret = (struct store_event){.json = r->event, .line = r->line.data, .len = r->line.len};
	}
	return 0;
}

/* Opens dir below the run's folder, making it when it is missing. */
static int need_dir(const struct store_run *r, const char *dir, struct err *e)
{
	int fd = openat(r->dirfd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	int n = dir_make(r->dirfd, dir, 0700, e);
	return n < 0 ? err_wrap(e, n, "%s", r->dir) : dir_open(r->dirfd, dir, e);
}

static int write_json(const struct store_run *r, const char *dir, const char *name, const json_t *value, struct err *e)
{
	auto_fd fd = need_dir(r, dir, e);
	if (fd < 0)
		return fd;
	auto_free char *text = json_dumps(value, JSON_REALS | JSON_INDENT(2) | JSON_ENCODE_ANY);
	if (!text)
		return err_set(e, ERR_INTERNAL, ENOMEM, "write %s/%s: no memory", dir, name);
	int n = file_replace(fd, name, text, strlen(text), 0600, FILE_NO_SYNC, e);
	return n < 0 ? err_wrap(e, n, "%s/%s", r->dir, dir) : 0;
}

int store_run_artifact(struct store_run *r, const char *node, unsigned version, const json_t *value, struct err *e)
{
	auto_free char *dir = xasprintf("artifacts/%s", node);
	auto_free char *name = xasprintf("%u.json", version);

	return write_json(r, dir, name, value, e);
}

int store_run_interaction(struct store_run *r, const char *id, const json_t *value, struct err *e)
{
	auto_free char *name = xasprintf("%s.json", id);

	return write_json(r, "interactions", name, value, e);
}

int store_run_recovery(struct store_run *r, const char *name, const json_t *value, struct err *e)
{
	auto_free char *file = xasprintf("%s.json", name);

	return write_json(r, "recoveries", file, value, e);
}

int store_run_output(struct store_run *r, const char *name, char **ret_ref, struct err *e)
{
	auto_fd dir = need_dir(r, "output", e);
	if (dir < 0)
		return dir;
	/* A resumed run finds the names of its first life taken. */
	for (;;) {
		auto_free char *file = xasprintf("%u-%s", ++r->n_outputs, name);
		int fd = openat(dir, file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno == EEXIST)
			continue;
		if (fd < 0)
			return err_sys(e, errno, "create %s/output/%s", r->dir, file);
		*ret_ref = xasprintf("output/%s", file);
		return fd;
	}
}

void store_run_log(struct store_run *r, const char *level, const char *text)
{
	if (r->log_fd < 0)
		r->log_fd = openat(r->dirfd, "run.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (r->log_fd < 0)
		return;
	char when[TIMESTAMP_SIZE];
	clock_format(when, clock_wall_ms());
	auto_free char *line = xasprintf("%s %s %s\n", when, level, text);
	(void)!fd_write_all(r->log_fd, line, strlen(line));
}
