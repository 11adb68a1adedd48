/* `pack DIR [--since] [--without PATH]…`: the content of a folder as a stream on stdout (tree.h).
 *
 * With --since it reads the list that unpack made from stdin, and packs what changed since then: what is gone first,
 * the deepest before what holds it, so that a name may come back as something else. Symlinks are packed as such and
 * never followed. What is no file, folder or link, and what may not be read, is left out and counted. A file that
 * changes its size meanwhile is marked as not whole, and not taken by the other side. */
#include "guest.h"
#include "tree.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 128 * 1024 };

struct packing {
	struct tree_without without;
	struct tree_list *since; /* NULL: everything */
	struct tree_sum sum;
	struct buf path; /* of what is looked at, without a slash in front */
	char chunk[CHUNK];
};

static int put(const void *data, size_t len)
{
	return fwrite(data, 1, len, stdout) == len ? 0 : -errno;
}

static int put_head(const char *path, enum tree_type type, const struct stat *st, uint64_t size)
{
	const struct tree_head h = {
		.type = type,
		.mode = st ? st->st_mode & 07777 : 0,
		.size = size,
		.mtime_s = st ? st->st_mtim.tv_sec : 0,
		.mtime_ns = st ? (uint32_t)st->st_mtim.tv_nsec : 0,
		.path_len = (uint32_t)strlen(path),
	};
	int r = put(&h, sizeof h);

	return r < 0 ? r : put(path, h.path_len);
}

static int put_bytes(struct packing *p, int fd, uint64_t size)
{
	uint32_t whole = 1;

	for (uint64_t left = size; left > 0;) {
		ssize_t n = whole ? read(fd, p->chunk, MIN(left, (uint64_t)CHUNK)) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			whole = 0;
			n = (ssize_t)MIN(left, (uint64_t)CHUNK);
			memset(p->chunk, 0, (size_t)n);
		}
		int r = put(p->chunk, (size_t)n);
		if (r < 0)
			return r;
		left -= (uint64_t)n;
	}
	if (whole && read(fd, p->chunk, 1) > 0)
		whole = 0;
	if (whole) {
		p->sum.files++;
		p->sum.bytes += size;
	} else {
		p->sum.skipped++;
	}
	return put(&whole, sizeof whole);
}

static int pack_file(struct packing *p, int dir, const char *name)
{
	struct stat st;
	auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		p->sum.skipped++;
		return 0;
	}
	int r = put_head(buf_str(&p->path), TREE_FILE, &st, (uint64_t)st.st_size);
	return r < 0 ? r : put_bytes(p, fd, (uint64_t)st.st_size);
}

static int pack_link(struct packing *p, int dir, const char *name, const struct stat *st)
{
	ssize_t n = readlinkat(dir, name, p->chunk, TREE_PATH_MAX + 1);

	if (n <= 0 || n > TREE_PATH_MAX) {
		p->sum.skipped++;
		return 0;
	}
	p->sum.files++;
	int r = put_head(buf_str(&p->path), TREE_LINK, st, (uint64_t)n);
	return r < 0 ? r : put(p->chunk, (size_t)n);
}

static int pack_folder(struct packing *p, int fd, unsigned depth);

static int pack_subfolder(struct packing *p, int dir, const char *name, const struct stat *st, bool same,
			  unsigned depth)
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || depth >= TREE_DEPTH_MAX) {
		p->sum.skipped++;
		return 0;
	}
	int r = same ? 0 : put_head(buf_str(&p->path), TREE_DIR, st, 0);
	return r < 0 ? r : pack_folder(p, TAKE_FD(fd), depth + 1);
}

static int pack_entry(struct packing *p, int dir, const char *name, unsigned depth)
{
	struct stat st;

	if (!tree_path_ok(buf_str(&p->path), p->path.len) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		p->sum.skipped++;
		return 0;
	}
	bool same = p->since && tree_list_same(p->since, buf_str(&p->path), &st);
	if (S_ISDIR(st.st_mode))
		return pack_subfolder(p, dir, name, &st, same, depth);
	if (same)
		return 0;
	if (S_ISREG(st.st_mode))
		return pack_file(p, dir, name);
	if (S_ISLNK(st.st_mode))
		return pack_link(p, dir, name, &st);
	p->sum.skipped++;
	return 0;
}

/* Takes the descriptor. */
static int pack_folder(struct packing *p, int fd, unsigned depth)
{
	auto_dir d = fdopendir(fd);
	size_t len = p->path.len;
	int r = 0;

	if (!d) {
		r = -errno;
		close_quietly(fd);
		return r;
	}
	for (struct dirent *entry; r == 0 && (entry = readdir(d));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (buf_printf(&p->path, "%s%s", len ? "/" : "", entry->d_name) < 0)
			p->sum.skipped++;
		else if (!tree_is_without(&p->without, buf_str(&p->path)))
			r = pack_entry(p, dirfd(d), entry->d_name, depth);
		p->path.len = len;
		p->path.data[len] = '\0';
	}
	return r;
}

/* What was there and is not any more. A name below something that is no folder now is gone with it. */
static int pack_gone(struct packing *p, int root)
{
	struct stat st;
	int r = 0;

	for (size_t i = tree_list_count(p->since); r == 0 && i-- > 0;) {
		const char *path = tree_list_path(p->since, i);
		if (tree_is_without(&p->without, path) || fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		    (errno != ENOENT && errno != ENOTDIR))
			continue;
		p->sum.gone++;
		r = put_head(path, TREE_GONE, NULL, 0);
	}
	return r;
}

static int pack(struct packing *p, const char *path)
{
	int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = root < 0 ? -errno : 0;

	if (r == 0 && p->since) {
		r = tree_list_read(p->since, STDIN_FILENO);
		tree_list_sort(p->since);
		if (r == 0)
			r = pack_gone(p, root);
	}
	if (r < 0) {
		close_quietly(root);
		return r;
	}
	r = pack_folder(p, root, 0);
	if (r == 0)
		r = put_head("", TREE_END, NULL, 0);
	return r == 0 && fflush(stdout) != 0 ? -errno : r;
}

int guest_pack(int argc, char **argv)
{
	struct packing *p = xcalloc(1, sizeof *p);
	bool since;
	int r;

	p->path = BUF_INIT(2 * TREE_PATH_MAX);
	(void)buf_reserve(&p->path, TREE_PATH_MAX);
	if (argc < 2 || tree_options(argc - 2, argv + 2, "--since", &since, &p->without) < 0) {
		fputs("usage: iterion-guest pack DIR [--since] [--without PATH]...\n", stderr);
		r = -EINVAL;
	} else {
		p->since = since ? tree_list_new() : NULL;
		r = pack(p, argv[1]);
		if (r < 0)
			fprintf(stderr, "iterion-guest: pack %s: %s\n", argv[1], strerror(-r));
		else
			tree_tell(&p->sum);
	}
	tree_list_free(p->since);
	buf_done(&p->path);
	free(p);
	return r < 0;
}
