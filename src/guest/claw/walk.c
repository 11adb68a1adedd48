/* Walking through a tree.
 *
 * Folder by folder with open descriptors, so that a tree that changes meanwhile cannot lead elsewhere; symlinks to
 * folders are not entered, so there are no loops. The depth bounds the recursion and the descriptors, the number of
 * entries bounds time and memory. */
#include "walk.h"

#include <base/cleanup.h>
#include <base/mem.h>
#include <base/str.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct walk {
	const struct walk_opts *o;
	size_t seen;
	bool stop;
};

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int walk_names(int fd, struct strv *ret, size_t most)
{
	auto_dir d = fdopendir(fd);
	const struct dirent *x;

	if (!d) {
		int r = -errno;
		close_quietly(fd);
		return r;
	}
	while ((x = readdir(d))) {
		if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
			continue;
		if (ret->n >= most)
			return -EFBIG;
		strv_add(ret, x->d_name);
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof *ret->v, compare);
	return 0;
}

static bool passed_over(const struct walk *w, const char *name)
{
	return !w->o->everything && (strcmp(name, ".git") == 0 || strcmp(name, "node_modules") == 0);
}

static void walk_folder(struct walk *w, int fd, const char *path, int depth);

static void visit(struct walk *w, int dirfd, const char *name, const char *path, int depth)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (S_ISDIR(st.st_mode)) {
		if (passed_over(w, name) || depth >= WALK_DEPTH)
			return;
		int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			walk_folder(w, fd, path, depth + 1);
		return;
	}
	if (S_ISLNK(st.st_mode) && fstatat(dirfd, name, &st, 0) < 0)
		return;
	if (S_ISREG(st.st_mode) && !w->o->file(w->o->arg, dirfd, name, path, &st))
		w->stop = true;
}

/* Takes the descriptor. */
static void walk_folder(struct walk *w, int fd, const char *path, int depth)
{
	auto_fd here = fd;
	auto_strv names = {0};
	int again = fcntl(here, F_DUPFD_CLOEXEC, 3);

	/* A folder too large to be listed whole ends the walk: the caller is told by the count. */
	if (again < 0 || walk_names(again, &names, WALK_ENTRIES - w->seen) == -EFBIG) {
		w->seen = WALK_ENTRIES;
		return;
	}
	w->seen += names.n;
	for (size_t i = 0; i < names.n && !w->stop && w->seen < WALK_ENTRIES; i++) {
		auto_free char *sub = path[0] ? xasprintf("%s/%s", path, names.v[i]) : xstrdup(names.v[i]);
		visit(w, here, names.v[i], sub, depth);
	}
}

int walk_tree(const char *root, const struct walk_opts *o)
{
	struct walk w = {.o = o};
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	walk_folder(&w, fd, "", 0);
	return !w.stop && w.seen >= WALK_ENTRIES ? -EFBIG : 0;
}
