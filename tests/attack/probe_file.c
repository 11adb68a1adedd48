/* Attempts on files: reading, writing, making and linking, by name and by handle. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Opens and reads: an empty file and an unreadable one are told apart. */
static int read_file(char **a)
{
	char buf[2048];
	int fd = open(a[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, buf, sizeof buf - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (buf[i] == '\n' || !buf[i])
			buf[i] = ' ';
	detail("%zd bytes: %.200s", n, buf);
	return 0;
}

static int write_with(const char *path, int flags, const char *text)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, text, strlen(text));
	int r = n < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

static int write_file(char **a)
{
	return write_with(a[0], O_WRONLY, a[1]);
}

/* Open for writing without a byte written: for files whose content must survive when it works. */
static int open_write(char **a)
{
	int fd = open(a[0], O_WRONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : result(close(fd));
}

/* Makes a new file, and removes it again when that worked. */
static int create_file(char **a)
{
	int r = write_with(a[0], O_WRONLY | O_CREAT | O_EXCL, "x");

	if (r == 0)
		(void)unlink(a[0]);
	return r;
}

static int keep_file(char **a)
{
	return write_with(a[0], O_WRONLY | O_CREAT | O_TRUNC, a[1]);
}

static int look(char **a)
{
	struct stat st;

	if (lstat(a[0], &st) < 0)
		return -errno;
	detail("mode=%o uid=%u", st.st_mode, st.st_uid);
	return 0;
}

static int make_node(const char *path, mode_t type, dev_t dev)
{
	if (mknod(path, type | 0600, dev) < 0)
		return -errno;
	/* A node may exist and still be dead (nodev): what counts is whether it opens. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int r = fd < 0 ? -errno : 0;
	if (fd >= 0)
		(void)close(fd);
	(void)unlink(path);
	return r;
}

/* The first RAM or loop disk: opening it reads nothing. */
static int make_block(char **a)
{
	return make_node(a[0], S_IFBLK, makedev(7, 0));
}

/* /dev/kmsg: a character device that is there on every kernel. */
static int make_char(char **a)
{
	return make_node(a[0], S_IFCHR, makedev(1, 11));
}

static int hard_link(char **a)
{
	if (linkat(AT_FDCWD, a[0], AT_FDCWD, a[1], 0) < 0)
		return -errno;
	(void)unlink(a[1]);
	return 0;
}

/* By /proc/self/fd of a descriptor that was opened for reading only: linkat(2), AT_SYMLINK_FOLLOW. */
static int link_by_fd(char **a)
{
	char path[64];
	int fd = open(a[0], O_PATH | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, AT_FDCWD, a[1], AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	(void)unlink(a[1]);
	return 0;
}

/* Inode numbers of a file system's root are guessable; with CAP_DAC_READ_SEARCH the handle opens anything on it. */
static int open_by_handle(char **a)
{
	struct file_handle *h = calloc(1, sizeof *h + MAX_HANDLE_SZ);
	int mount_id, r = 0;

	if (!h)
		return -ENOMEM;
	h->handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(AT_FDCWD, a[0], h, &mount_id, 0) < 0) {
		/* The name may be hidden or the file system without handles: an invented handle still asks the kernel.
		 */
		h->handle_bytes = 8;
		h->handle_type = 1;
	}
	int at = open(a[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = open_by_handle_at(at, h, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		r = -errno;
	free(h);
	return r;
}

/* As many ".." as it takes, and past the root by a descriptor that was opened before a chdir. */
static int climb(char **a)
{
	char up[512] = "";
	struct stat mine, top;

	for (int i = 0; i < 64; i++)
		(void)snprintf(up + 3 * i, sizeof up - (size_t)(3 * i), "../");
	if (chdir("/tmp") < 0 || stat(up, &top) < 0 || stat("/", &mine) < 0)
		return -errno;
	if (mine.st_ino != top.st_ino || mine.st_dev != top.st_dev) {
		detail("left the root");
		return 0;
	}
	char path[1024];
	(void)snprintf(path, sizeof path, "%s%s", up, a[0]);
	return result(access(path, F_OK));
}

/* Sets the set-user-ID bit on a new file. That may work; that it gives nothing is another test. */
static int make_setuid(char **a)
{
	int r = write_with(a[0], O_WRONLY | O_CREAT | O_EXCL, "x");

	if (r == 0)
		r = result(chmod(a[0], 04755));
	(void)unlink(a[0]);
	return r;
}

const struct attempt file_attempts[] = {
	{"read", "PATH", read_file},
	{"write", "PATH TEXT", write_file},
	{"open-write", "PATH", open_write},
	{"create", "PATH", create_file},
	{"keep", "PATH TEXT", keep_file},
	{"look", "PATH", look},
	{"mknod-block", "PATH", make_block},
	{"mknod-char", "PATH", make_char},
	{"link", "OLD NEW", hard_link},
	{"link-by-fd", "OLD NEW", link_by_fd},
	{"open-by-handle", "PATH", open_by_handle},
	{"climb", "PATH", climb},
	{"make-setuid", "PATH", make_setuid},
	{0},
};
