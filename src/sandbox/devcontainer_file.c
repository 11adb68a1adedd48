/* Finding and reading devcontainer.json.
 *
 * The workspace may come from anybody. Whatever is opened in it is opened beneath it in one step (openat2), so that
 * neither a symlink nor a rename in between makes this program read another file of the user's; what is opened must be
 * a regular file, without waiting on a FIFO. A path that the user gave on the command line is taken as it is, unless it
 * lies in the workspace. */
#include "jsonc.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/devcontainer.h>

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char folder[] = ".devcontainer";
static const char name[] = "devcontainer.json";
enum { MAX_CANDIDATES = 1000 };

static bool is_missing(int r)
{
	return r == -ENOENT || r == -ENOTDIR;
}

static int explain(int r, const char *path, struct err *e)
{
	if (r == -EXDEV)
		(void)err_set(e, ERR_INPUT, EXDEV, "read %s: a symlink leads out of the workspace", path);
	else
		(void)err_sys(e, -r, "read %s", path);
	if (r == -EXDEV)
		err_hint(e, "Put the file itself there.");
	else if (r == -EFBIG)
		err_hint(e, "A devcontainer.json is a few kilobytes of text: is it the right file?");
	else if (r == -EACCES)
		err_hint(e, "Make the file readable for you (chmod u+r).");
	else if (r == -ENOSYS || r == -EPERM)
		err_hint(e, "It is opened with openat2, which this kernel or its filter refuses.");
	else
		err_hint(e, "Check the path; a relative one starts at the current folder.");
	if (e)
		err_set_kind(e, ERR_INPUT);
	return r;
}

static int read_fd(int fd, char **ret_text, size_t *ret_len)
{
	struct buf text = BUF_INIT(JSONC_MAX_BYTES);
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;

	if (r == 0)
		r = fd_read_all(fd, &text);
	if (r < 0) {
		buf_done(&text);
		return r;
	}
	*ret_len = text.len;
	*ret_text = buf_steal(&text);
	return 0;
}

static int open_beneath(int dirfd, const char *path, int flags)
{
	return file_open_resolve(dirfd, path, flags | O_RDONLY | O_NONBLOCK | O_NOCTTY,
				 RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

/* A file of the workspace; ret->path stays NULL when it is not there. */
static int read_beneath(int dirfd, const char *workspace, const char *path, struct devcontainer_file *ret,
			struct err *e)
{
	auto_fd fd = open_beneath(dirfd, path, 0);
	auto_free char *whole = path_join(workspace, path);

	if (is_missing(fd))
		return 0;
	int r = fd < 0 ? fd : read_fd(fd, &ret->text, &ret->len);
	if (r < 0)
		return explain(r, whole, e);
	ret->path = TAKE_PTR(whole);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every .devcontainer/FOLDER/devcontainer.json there is, as paths from the workspace. */
static int list_folders(int dirfd, const char *workspace, struct strv *ret, struct err *e)
{
	int fd = open_beneath(dirfd, folder, O_DIRECTORY);
	struct dirent *entry;

	if (is_missing(fd))
		return 0;
	auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		int r = fd < 0 ? fd : -errno;
		auto_free char *whole = path_join(workspace, folder);
		if (fd >= 0)
			close_quietly(fd);
		return explain(r, whole, e);
	}
	while ((entry = readdir(dir)) && ret->n < MAX_CANDIDATES) {
		if (entry->d_name[0] == '.' && (!entry->d_name[1] || str_eq(entry->d_name, "..")))
			continue;
		auto_free char *path = xasprintf("%s/%s/%s", folder, entry->d_name, name);
		auto_fd there = open_beneath(dirfd, path, 0);
		if (!is_missing(there))
			strv_take(ret, TAKE_PTR(path));
	}
	if (ret->n > 1)
		qsort(ret->v, ret->n, sizeof *ret->v, compare);
	return 0;
}

static int ambiguous(const char *workspace, const struct strv *found, struct err *e)
{
	enum { SHOWN = 5 };
	auto_buf names = BUF_INIT(600);

	for (size_t i = 0; i < found->n && i < SHOWN; i++)
		if (buf_printf(&names, "%s%.100s", i ? ", " : "", found->v[i]) < 0)
			break;
	int r = err_set(e, ERR_INPUT, ENOTUNIQ, "find devcontainer.json in %.200s: there are %zu: %s%s", workspace,
			found->n, buf_str(&names), found->n > SHOWN ? ", …" : "");
	err_hint(e, "Choose one with --devcontainer PATH, such as --devcontainer %.300s.", found->v[0]);
	return r;
}

int devcontainer_find(const char *workspace, struct devcontainer_file *ret, struct err *e)
{
	static const char *const fixed[] = {".devcontainer/devcontainer.json", ".devcontainer.json"};
	struct devcontainer_file found = {0};
	auto_strv folders = {0};
	auto_fd dirfd = dir_open(AT_FDCWD, workspace, e);
	int r = dirfd < 0 ? dirfd : 0;

	for (size_t i = 0; r == 0 && !found.path && i < ARRAY_LEN(fixed); i++)
		r = read_beneath(dirfd, workspace, fixed[i], &found, e);
	if (r == 0 && !found.path)
		r = list_folders(dirfd, workspace, &folders, e);
	if (r == 0 && folders.n > 1)
		r = ambiguous(workspace, &folders, e);
	if (r == 0 && folders.n == 1)
		r = read_beneath(dirfd, workspace, folders.v[0], &found, e);
	if (r < 0)
		return r;
	*ret = found;
	return 0;
}

/* Absolute and clean, by the current folder. */
static char *from_here(const char *path)
{
	auto_free char *here = getcwd(NULL, 0);
	auto_free char *joined = path_join(here ? here : "/", path);

	return path_clean(joined);
}

int devcontainer_read(const char *workspace, const char *path, struct devcontainer_file *ret, struct err *e)
{
	struct devcontainer_file found = {0};
	auto_free char *whole = from_here(path);
	int r;

	if (path_within(whole, workspace) && !str_eq(whole, workspace)) {
		const char *below = whole + strlen(workspace) + !str_eq(workspace, "/");
		auto_fd dirfd = dir_open(AT_FDCWD, workspace, e);
		r = dirfd < 0 ? dirfd : read_beneath(dirfd, workspace, below, &found, e);
		if (r == 0 && !found.path)
			r = explain(-ENOENT, whole, e);
	} else {
		auto_fd fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		r = fd < 0 ? -errno : read_fd(fd, &found.text, &found.len);
		if (r < 0)
			return explain(r, whole, e);
		found.path = TAKE_PTR(whole);
	}
	if (r < 0)
		return r;
	*ret = found;
	return 0;
}

void devcontainer_file_done(struct devcontainer_file *f)
{
	free(f->path);
	free(f->text);
	*f = (struct devcontainer_file){0};
}
