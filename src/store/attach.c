/* Files that a run is given: copied into its folder when it is made, so that the run reads the same bytes to its end
 * whatever becomes of the originals. The bytes come from a descriptor that was opened, and looked at, by the caller; a
 * path would mean another file by now. One buffer's worth is in memory at a time. */
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

static int copy(const struct store_attachment *a, int to, struct sha256_ctx *sum, unsigned long long *ret_size,
		struct err *e)
{
	auto_free char *chunk = xmalloc(CHUNK);
	unsigned long long size = 0;

	for (;;) {
		ssize_t n = read_some(a->fd, chunk, CHUNK);
		if (n < 0)
			return err_sys(e, (int)-n, "attachment %s: read it", a->name);
		if (n == 0)
			break;
		size += (unsigned long long)n;
		if (size > STORE_ATTACHMENT_MAX)
			return err_set(e, ERR_INPUT, EFBIG, "attachment %s: it is larger than 4 GiB", a->name);
		sha256_update(sum, (size_t)n, (const uint8_t *)chunk);
		int r = fd_write_all(to, chunk, (size_t)n);
		if (r < 0)
			return err_sys(e, -r, "attachment %s: copy it into the run's folder", a->name);
	}
	*ret_size = size;
	return 0;
}

static int attach(struct store_run *r, int dir, const struct store_attachment *a, json_t *list, struct err *e)
{
	/* A node on the host is not to change by mistake what a later one reads. */
	auto_fd to = openat(dir, a->file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	char digest[SHA256_HEX_SIZE];
	unsigned long long size = 0;
	struct sha256_ctx sum;

	if (to < 0)
		return err_sys(e, errno, "create %s/attachments/%s", r->dir, a->file);
	sha256_init(&sum);
	int n = copy(a, to, &sum, &size, e);
	if (n < 0)
		return n;
	record_digest(digest, &sum);
	json_t *o = json_object();
	json_put_str(o, "file", a->file);
	json_put_str(o, "mime", a->mime);
	json_put_int(o, "size", (long long)size);
	json_put_str(o, "sha256", digest);
	json_put(list, a->name, o);
	return 0;
}

int record_attach(struct store_run *r, const struct store_attachment *v, size_t count, struct err *e)
{
	if (count == 0)
		return 0;
	if (mkdirat(r->dirfd, "attachments", 0700) < 0)
		return err_sys(e, errno, "create folder %s/attachments", r->dir);
	auto_fd dir = dir_open(r->dirfd, "attachments", e);
	json_t *list = json_object();
	int n = dir < 0 ? dir : 0;
	json_put(r->record, "attachments", list);
	for (size_t i = 0; n == 0 && i < count; i++)
		n = attach(r, dir, &v[i], list, e);
	return n;
}
