/* A folder in the OCI image layout: index.json, and blobs by their digest.
 *
 * Paths below the folder are opened without following a link out of it. The folder is somebody's work in progress: what
 * it says is checked by digest like a registry's words. */
#include "source.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 256 * 1024 };

struct oci_dir {
	struct source base;
	int dir;
	char *path;
	char *tag;
};

static int open_below(const struct oci_dir *d, const char *name, struct err *e)
{
	struct stat st;
	auto_fd fd = file_open_resolve(d->dir, name, O_RDONLY | O_NONBLOCK, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : !S_ISREG(st.st_mode) ? -EINVAL : 0;

	if (r == 0)
		return TAKE_FD(fd);
	(void)err_sys(e, -r, "open %s/%s", d->path, name);
	err_hint(e, "The folder must be in the OCI image layout and complete; `skopeo copy` and `buildx build --output "
		    "type=oci,tar=false` write it.");
	return r;
}

static char *blob_name(const char *digest)
{
	size_t len = strcspn(digest, ":");

	return xasprintf("blobs/%.*s/%s", (int)len, digest, digest + len + 1);
}

static int read_file(const struct oci_dir *d, const char *name, struct buf *to, struct err *e)
{
	auto_fd fd = open_below(d, name, e);

	if (fd < 0)
		return fd;
	int r = fd_read_all(fd, to);
	return r < 0 ? err_sys(e, -r, "read %s/%s", d->path, name) : 0;
}

static int manifest(struct source *s, const char *digest, struct buf *to, struct err *e)
{
	struct oci_dir *d = (struct oci_dir *)s;
	auto_free char *name = digest ? blob_name(digest) : xstrdup("index.json");

	return read_file(d, name, to, e);
}

static int blob(struct source *s, const struct blob_ref *b, source_take take, void *arg, struct err *e)
{
	struct oci_dir *d = (struct oci_dir *)s;
	auto_free char *name = blob_name(b->digest);
	auto_free char *data = xmalloc(CHUNK);
	auto_fd fd = open_below(d, name, e);

	if (fd < 0)
		return fd;
	for (;;) {
		ssize_t n = read(fd, data, CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "read %s/%s", d->path, name);
		if (n == 0)
			return 0;
		int r = take(arg, data, (size_t)n);
		if (r < 0)
			return r;
	}
}

static void free_dir(struct source *s)
{
	struct oci_dir *d = (struct oci_dir *)s;

	close_quietly(d->dir);
	free(d->path);
	free(d->tag);
	free(d);
}

static const struct source_ops ops = {.manifest = manifest, .blob = blob, .free = free_dir};

int oci_dir_open(const struct image_ref *ref, struct source **ret, struct err *e)
{
	auto_fd fd = dir_open(AT_FDCWD, ref->path, e);

	if (fd < 0) {
		err_hint(e, "Name a folder in the OCI image layout.");
		return fd;
	}
	struct oci_dir *d = xcalloc(1, sizeof *d);
	d->base.ops = &ops;
	d->dir = TAKE_FD(fd);
	d->path = xstrdup(ref->path);
	d->tag = ref->tag ? xstrdup(ref->tag) : NULL;
	d->base.index_tag = d->tag;
	*ret = &d->base;
	return 0;
}
