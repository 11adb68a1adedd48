/* Files as the editing tools see them.
 *
 * A file is written under another name in the same folder and renamed over the old one: whoever reads it meanwhile, and
 * whatever is killed meanwhile, there is the old content or the new. Where a path may lead is not decided here: the
 * sandbox has its own file system, and what stands in it is the model's to change. */
#include "seen.h"
#include "textfile.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/id.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int text_open(const char *path, struct stat *ret, struct tool_result *r)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || fstat(fd, ret) < 0) {
		if (errno == ENOENT)
			tool_fail(r, "%s does not exist.", path);
		else
			tool_fail(r, "%s cannot be opened: %s.", path, strerror(errno));
		return -1;
	}
	if (S_ISDIR(ret->st_mode)) {
		tool_fail(r, "%s is a folder: LS lists it.", path);
		return -1;
	}
	if (!S_ISREG(ret->st_mode)) {
		tool_fail(r, "%s is not a regular file.", path);
		return -1;
	}
	return TAKE_FD(fd);
}

static bool check_seen(struct tools *t, const char *path, const struct stat *st, struct tool_result *r)
{
	switch (seen_check(t->seen, st)) {
	case SEEN_SAME:
		return true;
	case SEEN_CHANGED:
		return tool_fail(r, "%s has changed since it was read: read it again first.", path);
	case SEEN_NEVER:
		break;
	}
	return tool_fail(r, "%s has not been read, or was replaced since: read it first.", path);
}

bool text_load(struct tools *t, const char *path, char **ret, size_t *ret_len, struct tool_result *r)
{
	struct stat st;
	auto_fd fd = text_open(path, &st, r);

	if (fd < 0 || !check_seen(t, path, &st, r))
		return false;
	auto_buf b = BUF_INIT(TEXT_MAX);
	int got = fd_read_all(fd, &b);
	if (got == -EFBIG)
		return tool_fail(r, "%s is larger than %d bytes: edit it by a command.", path, TEXT_MAX);
	if (got < 0)
		return tool_fail(r, "%s cannot be read: %s.", path, strerror(-got));
	*ret_len = b.len;
	*ret = buf_steal(&b);
	return true;
}

/* Writes the new file beside the old one; 0 or -errno. */
static int write_beside(const char *tmp, const char *data, size_t len, const struct stat *old, struct stat *ret)
{
	auto_fd fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, old ? 0600 : 0666);
	int r = fd < 0 ? -errno : fd_write_all(fd, data, len);

	/* The owner first: a change of owner takes the set-id bits away. */
	if (r == 0 && old && (old->st_uid != geteuid() || old->st_gid != getegid()))
		(void)!fchown(fd, old->st_uid, old->st_gid);
	if (r == 0 && old && fchmod(fd, old->st_mode & 07777) < 0)
		r = -errno;
	if (r == 0 && fstat(fd, ret) < 0)
		r = -errno;
	return r;
}

/* The file itself behind symlinks. One that leads nowhere yet is refused: what it means cannot be known. */
static char *real_target(const char *path, bool *ret_exists)
{
	struct stat st;
	char *real = realpath(path, NULL);

	*ret_exists = real != NULL;
	if (real)
		return real;
	return lstat(path, &st) == 0 ? NULL : xstrdup(path);
}

bool text_store(struct tools *t, const char *path, const char *data, size_t len, struct tool_result *r)
{
	bool exists;
	char hex[17];
	struct stat old, now;

	auto_free char *target = real_target(path, &exists);
	if (!target)
		return tool_fail(r, "%s is a symlink that leads nowhere.", path);
	if (exists && (stat(target, &old) < 0 || !S_ISREG(old.st_mode)))
		return tool_fail(r, "%s is not a regular file.", path);
	char *slash = strrchr(target, '/');
	auto_free char *dir = slash ? xstrndup(target, MAX((size_t)(slash - target), (size_t)1)) : xstrdup(".");
	struct err e = ERR_INIT;
	if (!exists && dir_make(AT_FDCWD, dir, 0777, &e) < 0)
		return tool_fail(r, "%s", e.msg);
	id_hex(hex, 8);
	/* A short name of its own: the file's name with an ending could be too long. */
	auto_free char *tmp = xasprintf("%s/.iterion-%s.tmp", dir, hex);
	int got = write_beside(tmp, data, len, exists ? &old : NULL, &now);
	if (got == 0 && rename(tmp, target) < 0)
		got = -errno;
	if (got < 0) {
		(void)unlink(tmp);
		return tool_fail(r, "%s cannot be written: %s.", path, strerror(-got));
	}
	if (exists && old.st_nlink == 1)
		seen_forget(t->seen, &old);
	seen_note(t->seen, &now);
	return true;
}
