/* The list of what was unpacked. It leaves the sandbox once, is kept by the host without being looked at, and comes
 * back when changes are asked for: no program inside can forge it. Names and the fixed part of each entry are kept in
 * two arrays, so that a large tree costs little memory. */
#include "tree.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLUSH = 256 * 1024 };

struct entry {
	struct tree_seen seen;
	char *path;
};

struct tree_list {
	struct entry *v;
	size_t n, cap;
};

struct tree_list *tree_list_new(void)
{
	return xcalloc(1, sizeof(struct tree_list));
}

void tree_list_free(struct tree_list *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
	free(l);
}

static struct tree_seen seen_of(const struct stat *st)
{
	return (struct tree_seen){
		.type = st->st_mode & S_IFMT,
		.mode = st->st_mode & 07777,
		.size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
		.ino = st->st_ino,
		.ctime_s = st->st_ctim.tv_sec,
		.ctime_ns = (uint32_t)st->st_ctim.tv_nsec,
	};
}

static int add(struct tree_list *l, const char *path, size_t len, const struct tree_seen *seen)
{
	if (l->n == TREE_ENTRIES_MAX)
		return -E2BIG;
	l->v = grow_array(l->v, l->n, &l->cap, sizeof *l->v);
	l->v[l->n] = (struct entry){.seen = *seen, .path = xstrndup(path, len)};
	l->v[l->n++].seen.path_len = (uint32_t)len;
	return 0;
}

int tree_list_add(struct tree_list *l, const char *path, const struct stat *st)
{
	const struct tree_seen seen = seen_of(st);

	return add(l, path, strlen(path), &seen);
}

int tree_list_write(const struct tree_list *l, int fd)
{
	auto_buf b = BUF_INIT(2 * FLUSH);
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		(void)buf_add(&b, &l->v[i].seen, sizeof l->v[i].seen);
		(void)buf_add(&b, l->v[i].path, l->v[i].seen.path_len);
		if (b.len >= FLUSH || i + 1 == l->n) {
			r = fd_write_all(fd, b.data, b.len);
			buf_clear(&b);
		}
	}
	return r;
}

/* Takes whole entries off the front. */
static int take(struct tree_list *l, struct buf *b)
{
	size_t at = 0;

	while (b->len - at >= sizeof(struct tree_seen)) {
		struct tree_seen seen;
		memcpy(&seen, b->data + at, sizeof seen);
		if (seen.path_len > TREE_PATH_MAX)
			return -EPROTO;
		if (b->len - at < sizeof seen + seen.path_len)
			break;
		const char *path = b->data + at + sizeof seen;
		if (!tree_path_ok(path, seen.path_len))
			return -EPROTO;
		int r = add(l, path, seen.path_len, &seen);
		if (r < 0)
			return r;
		at += sizeof seen + seen.path_len;
	}
	buf_consume(b, at);
	return 0;
}

int tree_list_read(struct tree_list *l, int fd)
{
	auto_buf b = BUF_INIT(2 * FLUSH);

	for (;;) {
		if (buf_reserve(&b, FLUSH) < 0)
			return -EPROTO;
		ssize_t n = read(fd, b.data + b.len, FLUSH);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : b.len ? -EPROTO : 0;
		b.len += (size_t)n;
		int r = take(l, &b);
		if (r < 0)
			return r;
	}
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

void tree_list_sort(struct tree_list *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof *l->v, by_path);
}

bool tree_list_same(const struct tree_list *l, const char *path, const struct stat *st)
{
	union {
		const char *in;
		char *out;
	} key = {path};
	const struct entry want = {.path = key.out};
	const struct entry *e = l->n ? bsearch(&want, l->v, l->n, sizeof *l->v, by_path) : NULL;
	const struct tree_seen now = seen_of(st);

	if (!e || e->seen.type != now.type || e->seen.mode != now.mode)
		return false;
	/* A folder's own times change with every file in it, which tells for itself. */
	return S_ISDIR(st->st_mode) || (e->seen.size == now.size && e->seen.ino == now.ino &&
					e->seen.ctime_s == now.ctime_s && e->seen.ctime_ns == now.ctime_ns);
}

size_t tree_list_count(const struct tree_list *l)
{
	return l->n;
}

const char *tree_list_path(const struct tree_list *l, size_t i)
{
	return l->v[i].path;
}
