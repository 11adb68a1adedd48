/* Files by descriptor.
 *
 * Names are looked up relative to an open folder, so that a folder which is moved or replaced under us does not lead
 * elsewhere. A file that others read is replaced by rename, never written in place. What may be hostile is opened with
 * openat2 and a resolve flag; a kernel without openat2 (before 5.6) is an error, not a weaker open. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/id.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_read_all(int fd, struct buf *to)
{
	for (;;) {
		size_t room = MIN((size_t)64 * 1024, to->max - to->len);
		char past;
		if (buf_reserve(to, room) < 0)
			return -EFBIG;
		ssize_t n = room ? read(fd, to->data + to->len, room) : read(fd, &past, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		if (!room)
			return -EFBIG;
		to->len += (size_t)n;
		to->data[to->len] = '\0';
	}
}

int file_read(int dirfd, const char *path, size_t limit, char **ret_data, size_t *ret_len, struct err *e)
{
	auto_fd fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "open %s", path);
	if (S_ISDIR(st.st_mode))
		return err_sys(e, EISDIR, "read %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INPUT, EINVAL, "read %s: not a regular file", path);
	auto_buf b = BUF_INIT(limit);
	int r = st.st_size > 0 && (size_t)st.st_size > limit ? -EFBIG : fd_read_all(fd, &b);
	if (r == -EFBIG)
		return err_set(e, ERR_INPUT, EFBIG, "read %s: larger than the limit of %zu bytes", path, limit);
	if (r < 0)
		return err_sys(e, -r, "read %s", path);
	if (ret_len)
		*ret_len = b.len;
	*ret_data = buf_steal(&b);
	return 0;
}

int file_replace(int dirfd, const char *name, const void *data, size_t len, mode_t mode, enum file_sync sync,
		 struct err *e)
{
	char suffix[17];

	id_hex(suffix, 8);
	auto_free char *tmp = xasprintf("%s.%s.tmp", name, suffix);
	auto_fd fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return err_sys(e, errno, "create %s", tmp);
	int r = fd_write_all(fd, data, len);
	if (r == 0 && sync == FILE_SYNC && fdatasync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dirfd, tmp, dirfd, name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(dirfd, tmp, 0);
		return err_sys(e, -r, "write %s", name);
	}
	return 0;
}

int dir_make(int dirfd, const char *path, mode_t mode, struct err *e)
{
	auto_free char *p = xstrdup(path);

	if (mkdirat(dirfd, p, mode) == 0)
		return 0;
	if (errno == ENOENT) {
		for (char *s = p; *s; s++) {
			if (*s != '/' || s == p)
				continue;
			*s = '\0';
			if (mkdirat(dirfd, p, mode) < 0 && errno != EEXIST)
				return err_sys(e, errno, "create folder %s", p);
			*s = '/';
		}
		if (mkdirat(dirfd, p, mode) == 0)
			return 0;
	}
	struct stat st;
	if (errno == EEXIST && fstatat(dirfd, p, &st, 0) == 0 && S_ISDIR(st.st_mode))
		return 0;
	return err_sys(e, errno == EEXIST ? ENOTDIR : errno, "create folder %s", path);
}

int dir_open(int dirfd, const char *path, struct err *e)
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open folder %s", path) : fd;
}

int file_open_resolve(int dirfd, const char *path, int flags, unsigned long long resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = flags & O_CREAT ? 0600 : 0,
		.resolve = resolve,
	};
	long fd;

	/* EAGAIN: a rename raced with ".." inside RESOLVE_IN_ROOT; the kernel asks for another try (openat2(2)). */
	for (int tries = 0; tries < 64; tries++) {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

/* A tree on its way out. */
struct removal {
	int top;    /* its root */
	dev_t dev;  /* its file system */
	bool moved; /* something too deep now hangs below the root and waits for the next round */
};

enum { MAX_DEPTH = 64 };

static int remove_entries(struct removal *r, int fd, unsigned depth);

/* Opens a folder of the tree, not through a symlink and not on another file system. One that its owner may not read or
 * write (Go's module cache makes such folders) is made so that it can be emptied. */
static int open_within(const struct removal *r, int dirfd, const char *name)
{
	static const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	auto_fd fd = openat(dirfd, name, flags);
	struct stat st;

	if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, S_IRWXU, AT_SYMLINK_NOFOLLOW) == 0)
		fd = openat(dirfd, name, flags);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev == r->dev && (st.st_mode & S_IRWXU) != S_IRWXU)
		(void)fchmod(fd, st.st_mode | S_IRWXU);
	return st.st_dev == r->dev ? TAKE_FD(fd) : -EXDEV;
}

static int remove_at(struct removal *r, int dirfd, const char *name, unsigned depth)
{
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (depth > MAX_DEPTH) {
		char id[17];
		id_hex(id, 8);
		r->moved = true;
		return renameat(dirfd, name, r->top, id) < 0 ? -errno : 0;
	}
	auto_fd fd = open_within(r, dirfd, name);
	if (fd < 0)
		return fd;
	int err = remove_entries(r, fd, depth);
	if (err < 0)
		return err;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int remove_entries(struct removal *r, int fd, unsigned depth)
{
	/* A second descriptor: closedir closes its own, and the caller still needs this one. */
	auto_fd again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir d = again < 0 ? NULL : fdopendir(again);
	if (!d)
		return -errno;
	(void)TAKE_FD(again);
	int first = 0;
	const struct dirent *ent;
	while ((ent = readdir(d))) {
		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		int err = remove_at(r, fd, ent->d_name, depth + 1);
		if (err < 0 && !first)
			first = err;
	}
	return first;
}

/* Folders can be nested deeper than a stack or a process's descriptors go: a program enters each and makes the next.
 * What lies too deep is moved up to the root and removed in another round. */
static int remove_tree(int dirfd, const char *name, dev_t dev)
{
	struct removal r = {.dev = dev};
	auto_fd top = open_within(&r, dirfd, name);
	int err;

	if (top < 0)
		return top;
	r.top = top;
	do {
		r.moved = false;
		err = remove_entries(&r, top, 0);
	} while (r.moved && err == 0);
	return err == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : err;
}

int tree_remove(int dirfd, const char *name, struct err *e)
{
	struct stat st;
	int r = 0;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	else if (S_ISDIR(st.st_mode))
		r = remove_tree(dirfd, name, st.st_dev);
	else if (unlinkat(dirfd, name, 0) < 0)
		r = -errno;
	return r < 0 && r != -ENOENT ? err_sys(e, -r, "remove %s", name) : 0;
}

static int change_flag(int fd, int get, int set, int flag, bool on)
{
	int old = fcntl(fd, get);

	if (old < 0)
		return -errno;
	int now = on ? old | flag : old & ~flag;
	return now != old && fcntl(fd, set, now) < 0 ? -errno : 0;
}

int fd_set_nonblock(int fd, bool on)
{
	return change_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_set_cloexec(int fd, bool on)
{
	return change_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}
