/* A copy of a build's files.
 *
 * An engine reads a context by its path, follows the links that it meets on the way there, and looks at a file before
 * it opens it. Programs of a sandbox that already runs can write in the workspace meanwhile, and put a link where a
 * file or folder was: then files of the user's would come into the image, and with it into a sandbox. So the engine is
 * given a copy, made while everything is hashed, of the very bytes that the image's name speaks of. The folder's name
 * holds our process number and start, by which a later sweep finds what a killed run left. */
#include "build_copy.h"
#include "labels.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const char prefix[] = "iterion-build.";

static const char *parent(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir == '/' ? dir : "/var/tmp";
}

int build_copy_make(struct build_copy *ret, struct err *e)
{
	char owner[OWNER_SIZE];

	label_owner(owner);
	auto_free char *top = xasprintf("%s/%s%s.XXXXXX", parent(), prefix, owner);
	if (!mkdtemp(top)) {
		int r = err_sys(e, errno, "build the image: make a folder for a copy of its files, %s", top);
		err_hint(e, "Set TMPDIR to a folder with room for the build's context.");
		return r;
	}
	struct build_copy c = {.top = TAKE_PTR(top), .fd = -1};
	auto_free char *context = path_join(c.top, "context");
	if (mkdir(context, 0700) == 0)
		c.fd = open(context, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c.fd < 0) {
		int r = err_sys(e, errno, "build the image: make %s", context);
		build_copy_remove(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void build_copy_remove(struct build_copy *c)
{
	if (!c->top)
		return;
	close_quietly(TAKE_FD(c->fd));
	(void)!tree_remove(AT_FDCWD, c->top, NULL);
	free(TAKE_PTR(c->top));
}

int build_copy_folder(const struct build_copy *c, const char *path, mode_t mode)
{
	if (mkdirat(c->fd, path, 0700) < 0)
		return -errno;
	/* By name, for umask has no say here; and we must be able to write into it. */
	return fchmodat(c->fd, path, (mode & 07777) | 0700, 0) < 0 ? -errno : 0;
}

int build_copy_link(const struct build_copy *c, const char *path, const char *target)
{
	return symlinkat(target, c->fd, path) < 0 ? -errno : 0;
}

int build_copy_file(const struct build_copy *c, const char *path)
{
	int fd = openat(c->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int build_copy_finish(int fd, const struct stat *original)
{
	const struct timespec times[2] = {original->st_atim, original->st_mtim};

	return fchmod(fd, original->st_mode & 07777) < 0 || futimens(fd, times) < 0 ? -errno : 0;
}

void build_copy_sweep(void)
{
	labels_sweep(parent(), prefix);
}
