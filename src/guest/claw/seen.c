/* Which files the model has read.
 *
 * An edit of a file that was never read is a guess, and one of a file that changed since would undo somebody's work:
 * both are refused. A file is its device and inode, so that another path to it does not count as another file; its
 * state is size and time of modification to the nanosecond. */
#include "seen.h"

#include <base/mem.h>

#include <stdlib.h>

struct file {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

struct seen {
	struct file *v;
	size_t n;
	size_t cap;
};

struct seen *seen_new(void)
{
	return xcalloc(1, sizeof(struct seen));
}

void seen_free(struct seen *s)
{
	if (!s)
		return;
	free(s->v);
	free(s);
}

static struct file *find(const struct seen *s, const struct stat *st)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].dev == st->st_dev && s->v[i].ino == st->st_ino)
			return &s->v[i];
	return NULL;
}

void seen_note(struct seen *s, const struct stat *st)
{
	struct file *f = find(s, st);

	if (!f) {
		s->v = grow_array(s->v, s->n, &s->cap, sizeof *s->v);
		f = &s->v[s->n++];
	}
	*f = (struct file){st->st_dev, st->st_ino, st->st_size, st->st_mtim};
}

void seen_forget(struct seen *s, const struct stat *st)
{
	struct file *f = find(s, st);

	if (f)
		*f = s->v[--s->n];
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

enum seen_state seen_check(const struct seen *s, const struct stat *st)
{
	const struct file *f = find(s, st);

	if (!f)
		return SEEN_NEVER;
	return f->size == st->st_size && same_time(f->mtime, st->st_mtim) ? SEEN_SAME : SEEN_CHANGED;
}
