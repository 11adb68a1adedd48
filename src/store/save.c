/* Writing run.json.
 *
 * It is only ever replaced whole, so a reader and a kill at any moment find the old state or the new one. A checkpoint
 * stands between two nodes, and the next one may not start before it can be seen; but it need not wait for the disk.
 * So a save has two halves. The first puts the new file in place (a write, and a rename that exchanges it with the old
 * one, which stays beside it under another name). The second, done while the next nodes run, syncs the new file and
 * removes the old one. A power loss between the two may leave a damaged run.json; readers then take the old one, which
 * was safe.
 *
 * Nodes may be faster than the disk: saves that come while a sync is under way are seen at once, and the newest of them
 * is synced next. The file that is being synced then gets a name of its own, and becomes the safe old one when the disk
 * is done. So there are at most: run.json, the newest; one that is being synced; one that is safe.
 *
 * Where names cannot be exchanged, the sync comes first, as part of the save. */
#include "record.h"
#include "writer.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <store/run.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define RUN_JSON_NEXT "run.json.next"
#define RUN_JSON_SYNCING "run.json.syncing"

static int add_to_text(const char *data, size_t len, void *arg)
{
	return buf_add(arg, data, len) < 0 ? -1 : 0;
}

static int format(struct store_run *r, struct err *e)
{
	buf_clear(&r->text);
	if (json_dump_callback(r->record, add_to_text, &r->text, JSON_REALS | JSON_INDENT(1)) == 0 &&
	    buf_putc(&r->text, '\n') == 0)
		return 0;
	return err_set(e, ERR_INTERNAL, EMSGSIZE, "write %s: larger than %d bytes", RUN_JSON, RUN_JSON_MAX);
}

static int create(const struct store_run *r, const char *name)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(r->dirfd, name, flags, 0600);

	/* A writer that was killed left it; there is only one at a time. */
	if (fd < 0 && errno == EEXIST && unlinkat(r->dirfd, name, 0) == 0)
		fd = openat(r->dirfd, name, flags, 0600);
	return fd < 0 ? -errno : fd;
}

static int exchange(const struct store_run *r, const char *name)
{
	return renameat2(r->dirfd, name, r->dirfd, RUN_JSON, RENAME_EXCHANGE) < 0 ? -errno : 0;
}

/* Puts the new file in the place of run.json; the old one goes where the state of its safety says. */
static int put_in_place(struct store_run *r, const char *name)
{
	bool old_is_safe = r->written && r->unsynced_fd < 0 && r->syncing_fd < 0;
	bool old_is_syncing = r->syncing_fd >= 0 && !r->displaced;

	if (!old_is_safe && !old_is_syncing)
		return renameat(r->dirfd, name, r->dirfd, RUN_JSON) < 0 ? -errno : 0;
	int n = exchange(r, name);
	if (n < 0 || old_is_safe)
		return n;
	r->displaced = true;
	return renameat(r->dirfd, name, r->dirfd, RUN_JSON_SYNCING) < 0 ? -errno : 0;
}

static int save_now(struct store_run *r)
{
	/* In most cases the old file is safe and gets the name that the new one was made under. */
	const char *name = r->unsynced_fd < 0 && r->syncing_fd < 0 ? RUN_JSON_PREVIOUS : RUN_JSON_NEXT;
	auto_fd fd = create(r, name);

	if (fd < 0)
		return fd;
	int n = fd_write_all(fd, r->text.data, r->text.len);
	if (n == 0)
		n = put_in_place(r, name);
	if (n == -EINVAL || n == -ENOSYS)
		r->no_exchange = true;
	if (n < 0) {
		(void)unlinkat(r->dirfd, name, 0);
		return n;
	}
	close_quietly(r->unsynced_fd);
	r->unsynced_fd = TAKE_FD(fd);
	r->written = true;
	return 0;
}

/* run.json is safe. */
static void forget_others(struct store_run *r)
{
	close_quietly(TAKE_FD(r->unsynced_fd));
	(void)unlinkat(r->dirfd, RUN_JSON_PREVIOUS, 0);
}

static int write_safe(const struct store_run *r)
{
	auto_fd fd = create(r, RUN_JSON_NEXT);
	int n = fd < 0 ? fd : fd_write_all(fd, r->text.data, r->text.len);

	if (n == 0 && fdatasync(fd) < 0)
		n = -errno;
	if (n == 0 && renameat(r->dirfd, RUN_JSON_NEXT, r->dirfd, RUN_JSON) < 0)
		n = -errno;
	if (n < 0)
		(void)unlinkat(r->dirfd, RUN_JSON_NEXT, 0);
	return n;
}

static int save_safe(struct store_run *r, struct err *e)
{
	int n = write_safe(r);

	if (n < 0)
		return err_sys(e, -n, "run %s: write %s", r->id, RUN_JSON);
	r->written = true;
	if (r->unsynced_fd >= 0)
		forget_others(r);
	return 0;
}

int save_record(struct store_run *r, enum save_how how, struct err *e)
{
	int n = format(r, e);

	if (n < 0 || how == SAVE_SAFE || r->no_exchange)
		return n < 0 ? n : save_safe(r, e);
	n = save_now(r);
	if (n < 0 && r->no_exchange)
		return save_safe(r, e);
	return n < 0 ? err_sys(e, -n, "run %s: write %s", r->id, RUN_JSON) : 0;
}

int store_run_sync_begin(struct store_run *r)
{
	if (r->syncing_fd >= 0 || r->unsynced_fd < 0)
		return -1;
	r->syncing_fd = TAKE_FD(r->unsynced_fd);
	return r->syncing_fd;
}

int store_run_sync_end(struct store_run *r, int errnum, struct err *e)
{
	close_quietly(TAKE_FD(r->syncing_fd));
	if (errnum)
		return err_sys(e, errnum, "run %s: write %s to the disk", r->id, RUN_JSON);
	if (!r->displaced)
		(void)unlinkat(r->dirfd, RUN_JSON_PREVIOUS, 0);
	else if (renameat(r->dirfd, RUN_JSON_SYNCING, r->dirfd, RUN_JSON_PREVIOUS) < 0)
		return err_sys(e, errno, "run %s: keep %s", r->id, RUN_JSON_PREVIOUS);
	r->displaced = false;
	return 0;
}

int save_repair(struct store_run *r, struct err *e)
{
	auto_json whole = NULL;
	auto_free char *text = NULL;
	size_t len = 0;

	r->written = true;
	(void)unlinkat(r->dirfd, RUN_JSON_NEXT, 0);
	(void)unlinkat(r->dirfd, RUN_JSON_SYNCING, 0);
	if (faccessat(r->dirfd, RUN_JSON_PREVIOUS, F_OK, 0) < 0)
		return 0;
	if (file_read(r->dirfd, RUN_JSON, RUN_JSON_MAX, &text, &len, NULL) == 0)
		whole = record_parse(text, len, NULL);
	int n = json_is_object(whole) ? unlinkat(r->dirfd, RUN_JSON_PREVIOUS, 0)
				      : renameat(r->dirfd, RUN_JSON_PREVIOUS, r->dirfd, RUN_JSON);
	return n < 0 ? err_sys(e, errno, "run %s: repair %s", r->id, RUN_JSON) : 0;
}

static void put_failure(json_t *record, const struct err *failure)
{
	if (!failure) {
		json_put(record, "error", json_null());
		(void)json_object_del(record, "error_code");
		(void)json_object_del(record, "error_hint");
		return;
	}
	json_put_str(record, "error", failure->msg);
	json_put_str(record, "error_code", err_kind_name(failure->kind));
	json_put_str(record, "error_hint", failure->hint[0] ? failure->hint : NULL);
}

int store_run_save(struct store_run *r, const struct store_run_state *s, struct err *e)
{
	json_put_str(r->record, "status", run_status_name(s->status));
	write_timestamp(r->record, "updated_at");
	if (s->ended)
		json_put(r->record, "finished_at", json_incref(json_object_get(r->record, "updated_at")));
	else
		json_put(r->record, "finished_at", json_null());
	put_failure(r->record, s->failure);
	json_put_str(r->record, "file_sha256", s->file_sha256);
	if (s->checkpoint)
		json_put(r->record, "checkpoint", json_incref(s->checkpoint));
	if (s->artifact_index)
		json_put(r->record, "artifact_index", json_incref(s->artifact_index));
	return save_record(r, s->sync ? SAVE_SAFE : SAVE_NOW, e);
}
