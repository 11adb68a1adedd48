/* `unpack DIR [--list] [--without PATH]…`: a stream of pack (tree.h) from stdin into a folder.
 *
 * On the host the stream comes from a sandbox and is hostile. No path in it may be absolute or hold "..", and each is
 * opened below the folder with no symlink on the way, by the kernel (RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, openat2(2)),
 * so neither a link of the stream's own nor one that was there before leads out. A file appears by rename, whole or not
 * at all. Setuid and setgid bits are dropped. What is left out (--without) is neither written nor removed, nor is
 * anything that holds it. Numbers of entries and bytes have an end.
 *
 * With --list it prints what is there afterwards, for a later `pack --since`. */
#include "guest.h"
#include "tree.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 128 * 1024 };

struct folder {
	char *path;
	mode_t mode;
};

struct unpacking {
	int root;
	struct tree_without without;
	struct tree_sum sum;
	uint64_t entries, bytes; /* with what was skipped */
	struct folder *folders;	 /* their modes are set at the end: one may not be writable */
	size_t n_folders, cap_folders;
	struct strv paths; /* everything, when a list is wanted */
	bool list;
	char *parent; /* the folder that is open */
	int parent_fd;
	char path[TREE_PATH_MAX + 1];
	char chunk[CHUNK];
};

static int get(void *to, size_t len)
{
	return fread(to, 1, len, stdin) == len ? 0 : -EPIPE;
}

static int open_beneath(const struct unpacking *u, const char *path)
{
	return file_open_resolve(u->root, path, O_PATH | O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* Folders that are missing on the way, since somebody removed them on this side meanwhile. */
static int make_way(const struct unpacking *u, const char *path)
{
	auto_free char *part = xstrdup(path);

	for (char *slash = strchr(part, '/');; slash = strchr(slash + 1, '/')) {
		if (slash)
			*slash = '\0';
		auto_free char *above = path_parent(part);
		auto_fd fd = strchr(part, '/') ? open_beneath(u, above) : fcntl(u->root, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			return fd;
		if (mkdirat(fd, path_base(part), 0755) < 0 && errno != EEXIST)
			return -errno;
		if (!slash)
			return 0;
		*slash = '/';
	}
}

/* The folder that the path stands in, as a descriptor that stays open until another one is asked for. */
static int open_parent(struct unpacking *u, const char *path, int *ret_fd)
{
	const char *slash = strrchr(path, '/');
	auto_free char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");

	if (!u->parent || !str_eq(u->parent, parent)) {
		int fd = *parent ? open_beneath(u, parent) : fcntl(u->root, F_DUPFD_CLOEXEC, 3);
		if (fd == -ENOENT && make_way(u, parent) == 0)
			fd = open_beneath(u, parent);
		if (fd < 0)
			return fd;
		close_quietly(u->parent_fd);
		free(u->parent);
		u->parent_fd = fd;
		u->parent = TAKE_PTR(parent);
	}
	*ret_fd = u->parent_fd;
	return 0;
}

/* Puts what was made under the temporary name in the place of what is there. */
static int put_in_place(int dir, const char *temporary, const char *name)
{
	if (renameat(dir, temporary, dir, name) == 0)
		return 0;
	if (errno != EISDIR && errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	int r = tree_remove(dir, name, NULL);
	return r == 0 && renameat(dir, temporary, dir, name) < 0 ? -errno : r;
}

static int drop(struct unpacking *u, uint64_t left)
{
	while (left > 0) {
		size_t n = MIN(left, (uint64_t)CHUNK);
		int r = get(u->chunk, n);
		if (r < 0)
			return r;
		left -= n;
	}
	return 0;
}

static int skip(struct unpacking *u, const struct tree_head *h)
{
	uint32_t whole = 0;
	int r = h->type == TREE_FILE || h->type == TREE_LINK ? drop(u, h->size) : 0;

	u->sum.skipped++;
	return r == 0 && h->type == TREE_FILE ? get(&whole, sizeof whole) : r;
}

static int write_bytes(struct unpacking *u, int fd, uint64_t left)
{
	while (left > 0) {
		size_t n = MIN(left, (uint64_t)CHUNK);
		int r = get(u->chunk, n);
		if (r == 0)
			r = fd_write_all(fd, u->chunk, n);
		if (r < 0)
			return r;
		left -= n;
	}
	return 0;
}

static const char temporary[] = ".iterion-unpacking";

static int take_file(struct unpacking *u, const struct tree_head *h, int dir, const char *name)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  {.tv_sec = h->mtime_s, .tv_nsec = (long)h->mtime_ns}};
	uint32_t whole;

	(void)unlinkat(dir, temporary, 0);
	auto_fd fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = write_bytes(u, fd, h->size);
	if (r == 0)
		r = get(&whole, sizeof whole);
	if (r == 0 && !whole) {
		u->sum.skipped++;
		return unlinkat(dir, temporary, 0) < 0 ? -errno : 0;
	}
	if (r == 0 && (fchmod(fd, h->mode & 01777) < 0 || futimens(fd, times) < 0))
		r = -errno;
	if (r == 0)
		r = put_in_place(dir, temporary, name);
	if (r < 0) {
		(void)unlinkat(dir, temporary, 0);
		return r;
	}
	u->sum.files++;
	u->sum.bytes += h->size;
	return 0;
}

static int take_link(struct unpacking *u, const struct tree_head *h, int dir, const char *name)
{
	if (h->size == 0 || h->size > TREE_PATH_MAX)
		return -EPROTO;
	int r = get(u->chunk, h->size);
	if (r < 0)
		return r;
	u->chunk[h->size] = '\0';
	(void)unlinkat(dir, temporary, 0);
	if (symlinkat(u->chunk, dir, temporary) < 0)
		return -errno;
	r = put_in_place(dir, temporary, name);
	if (r < 0)
		(void)unlinkat(dir, temporary, 0);
	else
		u->sum.files++;
	return r;
}

static int take_folder(struct unpacking *u, const struct tree_head *h, int dir, const char *name)
{
	struct stat st;
	int r = mkdirat(dir, name, 0700) < 0 ? -errno : 0;

	if (r == -EEXIST && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!S_ISDIR(st.st_mode))
			r = unlinkat(dir, name, 0) < 0 || mkdirat(dir, name, 0700) < 0 ? -errno : 0;
		else
			r = fchmodat(dir, name, (st.st_mode | 0700) & 01777, 0) < 0 ? -errno : 0;
	}
	if (r < 0)
		return r;
	u->folders = grow_array(u->folders, u->n_folders, &u->cap_folders, sizeof *u->folders);
	u->folders[u->n_folders++] = (struct folder){.path = xstrdup(u->path), .mode = h->mode & 01777};
	return 0;
}

/* A folder goes when nothing is left in it; what is not there any more is no error. */
static int take_away(struct unpacking *u, int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0) {
		u->sum.gone++;
		return 0;
	}
	if (errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		u->sum.gone++;
	else if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT && errno != ENOTDIR)
		return -errno;
	return 0;
}

static int take_entry(struct unpacking *u, const struct tree_head *h)
{
	const char *name = path_base(u->path);
	bool replaces = h->type == TREE_FILE || h->type == TREE_LINK;
	int dir = -1;

	if (tree_is_without(&u->without, u->path) || (replaces && tree_covers_without(&u->without, u->path)))
		return skip(u, h);
	int r = open_parent(u, u->path, &dir);
	if (h->type == TREE_GONE)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r < 0 ? r : take_away(u, dir, name);
	if (r < 0)
		return r;
	if (u->list)
		strv_add(&u->paths, u->path);
	switch (h->type) {
	case TREE_FILE:
		return take_file(u, h, dir, name);
	case TREE_LINK:
		return take_link(u, h, dir, name);
	case TREE_DIR:
		return take_folder(u, h, dir, name);
	default:
		return -EPROTO;
	}
}

/* 1 when there is more, 0 at the end. */
static int take_record(struct unpacking *u)
{
	struct tree_head h;
	int r = get(&h, sizeof h);

	if (r < 0)
		return r;
	if (h.type == TREE_END && h.path_len == 0)
		return 0;
	if (h.path_len > TREE_PATH_MAX || h.mtime_ns > 999999999)
		return -EPROTO;
	r = get(u->path, h.path_len);
	if (r < 0)
		return r;
	u->path[h.path_len] = '\0';
	if (!tree_path_ok(u->path, h.path_len))
		return -EPROTO;
	if (++u->entries > TREE_ENTRIES_MAX || h.size > TREE_BYTES_MAX - u->bytes)
		return -E2BIG;
	u->bytes += h.size;
	r = take_entry(u, &h);
	return r < 0 ? r : 1;
}

/* The deepest first: one above may not let us in any more. */
static int settle_folders(struct unpacking *u)
{
	for (size_t i = u->n_folders; i-- > 0;) {
		auto_fd fd = open_beneath(u, u->folders[i].path);
		if (fd < 0)
			continue;
		auto_free char *self = xasprintf("/proc/self/fd/%d", fd);
		if (chmod(self, u->folders[i].mode) < 0)
			return -errno;
	}
	return 0;
}

static int print_list(struct unpacking *u)
{
	struct tree_list *l = tree_list_new();
	struct stat st;
	int r = 0;

	for (size_t i = 0; r == 0 && i < u->paths.n; i++)
		if (fstatat(u->root, u->paths.v[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			r = tree_list_add(l, u->paths.v[i], &st);
	if (r == 0)
		r = tree_list_write(l, STDOUT_FILENO);
	tree_list_free(l);
	return r;
}

static void unpacking_free(struct unpacking *u)
{
	for (size_t i = 0; i < u->n_folders; i++)
		free(u->folders[i].path);
	free(u->folders);
	free(u->parent);
	close_quietly(u->parent_fd);
	close_quietly(u->root);
	strv_done(&u->paths);
	free(u);
}

static int unpack(struct unpacking *u, const char *path)
{
	u->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = u->root < 0 ? -errno : 1;

	(void)umask(0);
	while (r == 1)
		r = take_record(u);
	int settled = settle_folders(u);
	if (r == 0)
		r = settled;
	return r == 0 && u->list ? print_list(u) : r;
}

int guest_unpack(int argc, char **argv)
{
	struct unpacking *u = xcalloc(1, sizeof *u);
	int r;

	u->root = u->parent_fd = -1;
	if (argc < 2 || tree_options(argc - 2, argv + 2, "--list", &u->list, &u->without) < 0) {
		fputs("usage: iterion-guest unpack DIR [--list] [--without PATH]...\n", stderr);
		r = -EINVAL;
	} else {
		r = unpack(u, argv[1]);
		if (r < 0)
			fprintf(stderr, "iterion-guest: unpack %s%s%s: %s\n", argv[1], *u->path ? " at " : "", u->path,
				r == -EPIPE ? "the stream ended too early" : strerror(-r));
		else
			tree_tell(&u->sum);
	}
	unpacking_free(u);
	return r < 0;
}
