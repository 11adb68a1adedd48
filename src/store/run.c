/* A run's folder: made for a new run, opened again for one that goes on.
 *
 * Creation is a handful of calls relative to an open folder, because it stands in the way of the first node: no search,
 * no fsync. The object behind run.json is kept and changed in place, so that a field which a writer does not know (from
 * a later version) survives a resume; save.c writes it. */
#include "record.h"
#include "writer.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/file.h>
#include <base/id.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/read.h>
#include <store/run.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <nettle/sha2.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RUN_ID_MAX = 64, FORMAT_VERSION = 1, LOCK_TRIES = 100, LOCK_WAIT_MS = 10 };

const char *run_status_name(enum run_status s)
{
	static const char *const names[] = {
#define RUN_STATUS_WORD(name, word) [RUN_##name] = word,
		RUN_STATUSES(RUN_STATUS_WORD)
#undef RUN_STATUS_WORD
	};

	return names[s];
}

void record_digest(char ret[SHA256_HEX_SIZE], struct sha256_ctx *sum)
{
	unsigned char digest[SHA256_DIGEST_SIZE];

	sha256_digest(sum, sizeof digest, digest);
	hex_encode(ret, digest, sizeof digest);
}

void store_sha256(char ret[SHA256_HEX_SIZE], const void *data, size_t len)
{
	struct sha256_ctx ctx;

	sha256_init(&ctx);
	sha256_update(&ctx, len, data);
	record_digest(ret, &ctx);
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int store_run_id_check(const char *run_id, struct err *e)
{
	size_t len = strlen(run_id);
	bool good = len > 0 && len <= RUN_ID_MAX && is_alnum(run_id[0]);

	for (const char *p = run_id; good && *p; p++)
		good = is_alnum(*p) || strchr("._-", *p);
	if (good)
		return 0;
	(void)err_set(e, ERR_USAGE, EINVAL, "run id \"%.80s\": not a usable id", run_id);
	err_hint(e, "use 1 to %d letters, digits, '.', '_' and '-', the first a letter or digit", RUN_ID_MAX);
	return -EINVAL;
}

void write_timestamp(json_t *object, const char *key)
{
	char text[TIMESTAMP_SIZE];

	clock_format(text, clock_wall_ms());
	json_put_str(object, key, text);
}

static struct store_run *run_object(const char *store_dir, const char *run_id)
{
	struct store_run *r = xcalloc(1, sizeof *r);

	*r = (struct store_run){
		.dirfd = -1,
		.events_fd = -1,
		.log_fd = -1,
		.unsynced_fd = -1,
		.syncing_fd = -1,
		.safe_fd = -1,
		.id = xstrdup(run_id),
		.dir = xasprintf("%s/runs/%s", store_dir, run_id),
		.line = BUF_INIT(EVENT_LINE_MAX),
		.text = BUF_INIT(RUN_JSON_MAX),
	};
	r->artifact_files = xasprintf("%s/artifact-files", r->dir);
	return r;
}

void store_run_free(struct store_run *r)
{
	if (!r)
		return;
	close_quietly(r->dirfd);
	close_quietly(r->events_fd);
	close_quietly(r->log_fd);
	close_quietly(r->unsynced_fd);
	close_quietly(r->syncing_fd);
	close_quietly(r->safe_fd);
	for (size_t i = 0; i < r->n_dead; i++)
		close_quietly(r->dead[i]);
	free(r->id);
	free(r->dir);
	free(r->artifact_files);
	json_decref(r->record);
	json_decref(r->event);
	buf_done(&r->line);
	buf_done(&r->text);
	free(r);
}

const char *store_run_id(const struct store_run *r)
{
	return r->id;
}

const char *store_run_dir(const struct store_run *r)
{
	return r->dir;
}

const char *store_run_artifact_files(const struct store_run *r)
{
	return r->artifact_files;
}

static json_t *new_record(const struct store_run_params *p)
{
	json_t *j = json_object();

	json_put_int(j, "format_version", FORMAT_VERSION);
	json_put_str(j, "id", p->run_id);
	json_put_str(j, "name", p->run_name);
	json_put_str(j, "workflow_name", p->workflow);
	json_put_str(j, "file", p->file);
	json_put_str(j, "file_path", p->file_path);
	json_put_str(j, "file_sha256", p->file_sha256);
	json_put_str(j, "workspace", p->workspace);
	json_put_str(j, "status", run_status_name(RUN_RUNNING));
	if (p->sandbox)
		json_put(j, "sandbox", json_incref(p->sandbox));
	if (p->options)
		json_put(j, "options", json_incref(p->options));
	json_put(j, "inputs", p->inputs ? json_incref(p->inputs) : json_object());
	write_timestamp(j, "created_at");
	json_put(j, "updated_at", json_incref(json_object_get(j, "created_at")));
	json_put(j, "finished_at", json_null());
	json_put(j, "error", json_null());
	json_put(j, "checkpoint", json_null());
	json_put(j, "artifact_index", json_object());
	return j;
}

/* A process that is killed while it starts a program leaves a child that holds the lock for the moment until its exec.
 * The kernel tells nobody when a lock becomes free (F_OFD_SETLKW would wait without an end), hence the looking again.
 */
static int lock_soon(const struct store_run *r)
{
	int n = record_lock(r->events_fd);

	for (int tries = 0; n == -EBUSY && tries < LOCK_TRIES && !record_owner_alive(r->record); tries++) {
		(void)poll(NULL, 0, LOCK_WAIT_MS);
		n = record_lock(r->events_fd);
	}
	return n;
}

static int lock_events(struct store_run *r, struct err *e)
{
	int n = lock_soon(r);

	if (n == -EBUSY) {
		(void)err_set(e, ERR_INPUT, EBUSY, "run %s: another process is running it", r->id);
		err_hint(e, "wait for it, or stop it; `iterion inspect %s` shows the process", r->id);
		return -EBUSY;
	}
	json_put(r->record, "owner", record_owner(n == 0));
	return 0;
}

/* The folder and what is in it from the start. */
static int fill_folder(struct store_run *r, const struct store_run_params *p, int root, const char *path, struct err *e)
{
	r->dirfd = dir_open(root, path, e);
	if (r->dirfd < 0)
		return r->dirfd;
	if (mkdirat(r->dirfd, "artifact-files", 0700) < 0)
		return err_sys(e, errno, "create folder %s", r->artifact_files);
	r->events_fd = openat(r->dirfd, EVENTS_FILE, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (r->events_fd < 0)
		return err_sys(e, errno, "create %s/%s", r->dir, EVENTS_FILE);
	int n = lock_events(r, e);
	if (n == 0)
		n = record_attach(r, p->attachments, p->n_attachments, e);
	return n < 0 ? n : save_record(r, SAVE_NOW, e);
}

static int open_root(const char *store_dir, struct err *e)
{
	int fd = open(store_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	int n = errno == ENOENT ? dir_make(AT_FDCWD, store_dir, 0700, e) : err_sys(e, errno, "open %s", store_dir);
	if (n < 0)
		return n;
	fd = open(store_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fd : err_sys(e, errno, "open %s", store_dir);
}

static int make_run_folder(int root, const char *path, const char *run_id, struct err *e)
{
	if (mkdirat(root, path, 0700) == 0)
		return 0;
	if (errno == ENOENT) {
		if (mkdirat(root, "runs", 0700) < 0 && errno != EEXIST)
			return err_sys(e, errno, "create folder runs");
		if (mkdirat(root, path, 0700) == 0)
			return 0;
	}
	if (errno != EEXIST)
		return err_sys(e, errno, "create folder %s", path);
	int r = err_set(e, ERR_USAGE, EEXIST, "run %s: a run of this id is in the store already", run_id);
	err_hint(e, "leave out --run-id for a new one, or go on with that run: iterion resume --run-id %s", run_id);
	return r;
}

int store_run_create(const struct store_run_params *p, struct store_run **ret, struct err *e)
{
	int n = store_run_id_check(p->run_id, e);
	if (n < 0)
		return n;
	auto_fd root = open_root(p->store_dir, e);
	auto_free char *path = xasprintf("runs/%s", p->run_id);
	n = root < 0 ? root : make_run_folder(root, path, p->run_id, e);
	if (n < 0) {
		err_hint(e, "check the folder's rights and free space, or name another store with --store-dir");
		return err_wrap(e, n, "create a run in %s", p->store_dir);
	}
	struct store_run *r = run_object(p->store_dir, p->run_id);
	r->record = new_record(p);
	n = fill_folder(r, p, root, path, e);
	if (n < 0) {
		store_run_free(r);
		(void)!tree_remove(root, path, NULL);
		err_hint(e, "check the folder's rights and free space, or name another store with --store-dir");
		return n;
	}
	*ret = r;
	return 0;
}

/* Finds the end of the last good line and the seq behind it, and cuts off what a power loss tore. Damage further up is
 * left as it is: readers skip it. */
static int repair_events(struct store_run *r, const char *store_dir, struct err *e)
{
	struct event_reader *reader = NULL;
	int n = event_reader_open(store_dir, r->id, &reader, e);
	json_t *ev = NULL;

	if (n < 0)
		return n;
	while ((n = event_reader_next(reader, &ev, NULL, e)) > 0) {
		r->seq = (uint64_t)json_integer_value(json_object_get(ev, "seq")) + 1;
		r->events_len = event_reader_offset(reader);
		json_decref(ev);
	}
	event_reader_free(reader);
	if (n < 0)
		return n;
	if (ftruncate(r->events_fd, (off_t)r->events_len) < 0)
		return err_sys(e, errno, "run %s: repair %s", r->id, EVENTS_FILE);
	return 0;
}

int store_run_reopen(const char *store_dir, const char *run_id, struct store_run **ret, struct err *e)
{
	auto_fd dir = record_open_dir(store_dir, run_id, e);
	if (dir < 0)
		return dir;
	struct store_run *r = run_object(store_dir, run_id);
	r->dirfd = TAKE_FD(dir);
	r->events_fd = openat(r->dirfd, EVENTS_FILE, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	int n = r->events_fd < 0 ? err_sys(e, errno, "run %s: open %s", run_id, EVENTS_FILE) : 0;
	if (n == 0) {
		r->record = record_read(r->dirfd, run_id, e);
		n = r->record ? lock_events(r, e) : -EPROTO;
	}
	if (n == 0)
		n = save_repair(r, e);
	if (n == 0)
		n = repair_events(r, store_dir, e);
	if (n < 0) {
		store_run_free(r);
		return n;
	}
	*ret = r;
	return 0;
}

uint64_t store_run_seq(const struct store_run *r)
{
	return r->seq;
}

int store_run_load(const struct store_run *r, const char *ref, json_t **ret, struct err *e)
{
	auto_fd fd = file_open_resolve(r->dirfd, ref, O_RDONLY | O_NONBLOCK | O_NOCTTY,
				       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	auto_buf text = BUF_INIT(RUN_JSON_MAX);
	int n = fd < 0 ? fd : fd_read_all(fd, &text);

	if (n < 0)
		return err_sys(e, -n, "run %s: read %s", r->id, ref);
	*ret = json_parse(buf_str(&text), text.len, e);
	return *ret ? 0 : err_wrap(e, -EPROTO, "run %s: %s", r->id, ref);
}

const json_t *store_run_record(const struct store_run *r)
{
	return r->record;
}
