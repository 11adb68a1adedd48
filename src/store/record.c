/* What writer and readers of a run share: finding its folder, reading run.json, and telling a run that is under way
 * from one whose process is gone.
 *
 * The writer holds an open-file-description lock on events.jsonl for as long as it lives (fcntl(2), F_OFD_SETLK): the
 * kernel drops it whatever kills the process, it works across PID namespaces, and asking for it (F_OFD_GETLK) disturbs
 * nobody. A file system without locks leaves the owner in run.json to decide: a process number with its start time. */
#include "record.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/proc.h>
#include <store/run.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *record_owner(bool locked)
{
	json_t *o = json_object();
	unsigned long long start = 0;

	json_put_int(o, "pid", getpid());
	if (proc_start_time(getpid(), &start) == 0)
		json_put_int(o, "start_time", (long long)start);
	json_put_bool(o, "locked", locked);
	return o;
}

int record_lock(int events_fd)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(events_fd, F_OFD_SETLK, &l) == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? -EBUSY : -ENOTSUP;
}

bool record_owner_alive(const json_t *record)
{
	const json_t *owner = json_object_get(record, "owner");
	json_int_t pid = json_integer_value(json_object_get(owner, "pid"));
	unsigned long long start = 0;

	if (pid <= 0 || pid > INT32_MAX || proc_start_time((pid_t)pid, &start) < 0)
		return false;
	return (long long)start == json_integer_value(json_object_get(owner, "start_time"));
}

bool record_alive(int run_dirfd, const json_t *record)
{
	const json_t *owner = json_object_get(record, "owner");
	auto_fd fd = openat(run_dirfd, EVENTS_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (!json_is_false(json_object_get(owner, "locked")) && fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0)
		return l.l_type != F_UNLCK;
	return record_owner_alive(record);
}

int record_open_dir(const char *store_dir, const char *run_id, struct err *e)
{
	int r = store_run_id_check(run_id, e);
	if (r < 0)
		return r;
	auto_free char *path = xasprintf("%s/runs/%s", store_dir, run_id);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno != ENOENT)
		return err_sys(e, errno, "open folder %s", path);
	r = err_set(e, ERR_INPUT, ENOENT, "run %s: there is no such run in %s", run_id, store_dir);
	err_hint(e, "`iterion inspect` lists the runs; another store is named by --store-dir");
	return r;
}

static json_t *is_damaged(const char *run_id, struct err *e)
{
	err_hint(e, "the record of this run is damaged: put a copy of it back, or remove runs/%s from the store",
		 run_id);
	return NULL;
}

static json_t *read_file(int run_dirfd, const char *name, const char *run_id, struct err *e)
{
	auto_free char *text = NULL;
	size_t len = 0;

	if (file_read(run_dirfd, name, RUN_JSON_MAX, &text, &len, e) < 0) {
		(void)err_wrap(e, 0, "run %s", run_id);
		return NULL;
	}
	auto_json j = json_parse(text, len, e);
	if (!j) {
		(void)err_wrap(e, 0, "run %s: %s", run_id, name);
		return is_damaged(run_id, e);
	}
	if (!json_is_object(j)) {
		(void)err_set(e, ERR_INPUT, EPROTO, "run %s: %s holds no object", run_id, name);
		return is_damaged(run_id, e);
	}
	return TAKE_PTR(j);
}

json_t *record_read(int run_dirfd, const char *run_id, struct err *e)
{
	json_t *j = read_file(run_dirfd, RUN_JSON, run_id, e);

	return j ? j : read_file(run_dirfd, RUN_JSON_PREVIOUS, run_id, NULL);
}
