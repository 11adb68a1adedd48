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
 * Where names cannot be exchanged, the sync comes first, as part of the save.
 *
 * The last one to let go of a removed file pays for giving its blocks back, which on ext4 means to wait for the
 * journal: some milliseconds, measured, more than a node of the engine costs. So a file that is to be removed stays
 * open until its name is gone, and the sync's thread closes it. */
#include "record.h"
#include "writer.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <store/run.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

/* Keeps the descriptor of a file without a name for the next sync to close. */
static void bury(struct store_run *r, int fd)
{
	if (r->n_dead < ARRAY_LEN(r->dead))
		r->dead[r->n_dead++] = fd;
	else
		close_quietly(fd);
}

static void make_safe(struct store_run *r, int fd)
{
	if (r->safe_fd >= 0)
		bury(r, r->safe_fd);
	r->safe_fd = fd;
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
	if (r->unsynced_fd >= 0)
		bury(r, r->unsynced_fd);
	r->unsynced_fd = TAKE_FD(fd);
	r->written = true;
	return 0;
}

/* run.json is safe. */
static void forget_others(struct store_run *r)
{
	bury(r, TAKE_FD(r->unsynced_fd));
	(void)unlinkat(r->dirfd, RUN_JSON_PREVIOUS, 0);
}

/* Returns the descriptor of what is run.json now. */
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
	return n < 0 ? n : TAKE_FD(fd);
}

static int save_safe(struct store_run *r, struct err *e)
{
	int fd = write_safe(r);

	if (fd < 0)
		return err_sys(e, -fd, "run %s: write %s", r->id, RUN_JSON);
	make_safe(r, fd);
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

bool store_run_sync_begin(struct store_run *r, struct store_sync *ret)
{
	if (r->syncing_fd >= 0 || r->unsynced_fd < 0)
		return false;
	r->syncing_fd = TAKE_FD(r->unsynced_fd);
	*ret = (struct store_sync){.fd = r->syncing_fd, .n_dead = r->n_dead};
	memcpy(ret->dead, r->dead, sizeof ret->dead);
	r->n_dead = 0;
	return true;
}

int store_sync_work(const struct store_sync *s)
{
	int errnum = fdatasync(s->fd) < 0 ? errno : 0;

	for (size_t i = 0; i < s->n_dead; i++)
		close_quietly(s->dead[i]);
	return errnum;
}

int store_run_sync_end(struct store_run *r, int errnum, struct err *e)
{
	int synced = TAKE_FD(r->syncing_fd);

	if (errnum) {
		close_quietly(synced);
		return err_sys(e, errnum, "run %s: write %s to the disk", r->id, RUN_JSON);
	}
	make_safe(r, synced);
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
		whole = json_parse(text, len, NULL);
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
