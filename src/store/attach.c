/* Files that a run is given: copied into its folder before its first node, so that the run reads the same bytes to its
 * end whatever becomes of the originals. The bytes come from a descriptor that was opened, and looked at, by the
 * caller; a path would mean another file by now. One buffer's worth is in memory at a time.
 *
 * The files may be large, so another thread copies (store_attach_work), which touches nothing but its own fields and
 * looks between two pieces whether it is to stop. What the record says of a file before that is done has no size: a run
 * that was killed meanwhile has no such file, and cannot go on. */
#include "record.h"
#include "writer.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <store/run.h>
#include <store/run_files.h>

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 128 * 1024 };

static ssize_t read_some(int fd, char *to, size_t len)
{
	ssize_t n;

	do {
		n = read(fd, to, len);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

struct done {
	unsigned long long size;
	char sha256[SHA256_HEX_SIZE];
};

struct store_attach {
	struct store_run *run;
	const struct store_attachment *v;
	size_t n;
	int dir;
	struct done *done;
	atomic_bool stop;
	int result; /* 0 or -errno */
	struct err err;
};

static int copy(struct store_attach *a, const struct store_attachment *from, int to, struct sha256_ctx *sum,
		unsigned long long *ret_size)
{
	auto_free char *chunk = xmalloc(CHUNK);
	unsigned long long size = 0;

	for (;;) {
		if (atomic_load(&a->stop))
			return err_set(&a->err, ERR_CANCELLED, ECANCELED, "attachment %s: it was not copied to its end",
				       from->name);
		ssize_t n = read_some(from->fd, chunk, CHUNK);
		if (n < 0)
			return err_sys(&a->err, (int)-n, "attachment %s: read it", from->name);
		if (n == 0)
			break;
		size += (unsigned long long)n;
		if (size > STORE_ATTACHMENT_MAX)
			return err_set(&a->err, ERR_INPUT, EFBIG, "attachment %s: it is larger than 4 GiB", from->name);
		sha256_update(sum, (size_t)n, (const uint8_t *)chunk);
		int r = fd_write_all(to, chunk, (size_t)n);
		if (r < 0)
			return err_sys(&a->err, -r, "attachment %s: copy it into the run's folder", from->name);
	}
	*ret_size = size;
	return 0;
}

static int copy_one(struct store_attach *a, size_t i)
{
	const struct store_attachment *from = &a->v[i];
	/* A node on the host is not to change by mistake what a later one reads. */
	auto_fd to = openat(a->dir, from->file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	struct sha256_ctx sum;

	if (to < 0)
		return err_sys(&a->err, errno, "create %s/attachments/%s", a->run->dir, from->file);
	sha256_init(&sum);
	int r = copy(a, from, to, &sum, &a->done[i].size);
	if (r < 0)
		(void)unlinkat(a->dir, from->file, 0);
	else
		record_digest(a->done[i].sha256, &sum);
	return r;
}

int store_attach_begin(struct store_run *r, const struct store_attachment *v, size_t n, struct store_attach **ret,
		       struct err *e)
{
	auto_fd dir = dir_open(r->dirfd, "attachments", e);

	if (dir < 0)
		return dir;
	struct store_attach *a = xcalloc(1, sizeof *a);
	a->run = r;
	a->v = v;
	a->n = n;
	a->dir = TAKE_FD(dir);
	a->done = xcalloc(n + 1, sizeof *a->done);
	*ret = a;
	return 0;
}

void store_attach_work(struct store_attach *a)
{
	for (size_t i = 0; a->result == 0 && i < a->n; i++)
		a->result = copy_one(a, i);
}

void store_attach_stop(struct store_attach *a)
{
	atomic_store(&a->stop, true);
}

int store_attach_end(struct store_attach *a, struct err *e)
{
	int r = a->result;

	for (size_t i = 0; r == 0 && i < a->n; i++) {
		json_t *o = json_object_get(json_object_get(a->run->record, "attachments"), a->v[i].name);
		json_put_int(o, "size", (long long)a->done[i].size);
		json_put_str(o, "sha256", a->done[i].sha256);
	}
	if (r < 0)
		err_copy(e, &a->err);
	else
		r = save_record(a->run, SAVE_NOW, e);
	close_quietly(a->dir);
	free(a->done);
	free(a);
	return r;
}

int record_attach(struct store_run *r, const struct store_attachment *v, size_t count, struct err *e)
{
	if (count == 0)
		return 0;
	if (mkdirat(r->dirfd, "attachments", 0700) < 0)
		return err_sys(e, errno, "create folder %s/attachments", r->dir);
	json_t *list = json_object();
	for (size_t i = 0; i < count; i++) {
		json_t *o = json_object();
		json_put_str(o, "file", v[i].file);
		json_put_str(o, "mime", v[i].mime);
		json_put(list, v[i].name, o);
	}
	json_put(r->record, "attachments", list);
	return 0;
}
