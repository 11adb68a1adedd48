/* pax headers: lines of "LENGTH KEY=VALUE\n", where the length counts the whole line.
 *
 * Keys that change nothing here (times but mtime, names of owners, comments) are passed over. Sparse files come in
 * GNU's format 1.0 of pax, whose map stands before the data; older ones of its formats are refused, since a file with
 * its map taken for its content would be wrong without a word. */
#include "tar_pax.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char xattr_prefix[] = "SCHILY.xattr.";

int tar_add_piece(struct tar *t, uint64_t offset, uint64_t len, struct err *e)
{
	struct tar_entry *n = &t->entry;
	const struct tar_piece *last = n->n_pieces ? &n->pieces[n->n_pieces - 1] : NULL;

	if (n->n_pieces >= TAR_MAX_HOLES)
		return tar_bad(e, "a sparse file has more than 65536 pieces");
	if (offset > n->size || len > n->size - offset || (last && offset < last->offset + last->len))
		return tar_bad(e, "a sparse file's pieces are not in order within it");
	n->pieces = grow_array(n->pieces, n->n_pieces, &t->cap_pieces, sizeof *n->pieces);
	n->pieces[n->n_pieces++] = (struct tar_piece){offset, len};
	return 0;
}

static void add_xattr(struct tar *t, const char *name, const char *value, size_t len)
{
	struct tar_entry *n = &t->entry;

	n->xattrs = grow_array(n->xattrs, n->n_xattrs, &t->cap_xattrs, sizeof *n->xattrs);
	n->xattrs[n->n_xattrs++] =
		(struct tar_xattr){.name = xstrdup(name), .value = xmemdup(value, len ? len : 1), .len = len};
}

static int take_number(const char *value, bool *has, uint64_t *to, struct err *e)
{
	unsigned long long v;

	if (str_parse_uint(value, 0, INT64_MAX, &v) < 0)
		return tar_bad(e, "a pax header's number is none");
	*has = true;
	*to = v;
	return 0;
}

/* Seconds, with a fraction that is dropped; before 1970 is taken as 1970. */
static void take_time(const char *value, struct tar_extra *x)
{
	auto_free char *whole = xstrndup(value, strcspn(value, "."));
	unsigned long long v;

	x->has_mtime = true;
	x->mtime = str_parse_uint(whole, 0, INT32_MAX * 4ull, &v) == 0 ? (int64_t)v : 0;
}

static int take_name(char **to, const char *value, size_t len, struct err *e)
{
	if (len > TAR_MAX_PATH || strlen(value) != len)
		return tar_bad(e, "a name is longer than 4095 bytes, or has a NUL in it");
	free(*to);
	*to = xstrdup(value);
	return 0;
}

/* key and value are NUL-terminated; a value may hold NULs. */
static int take(struct tar *t, struct tar_extra *x, const char *key, const char *value, size_t len, struct err *e)
{
	if (str_eq(key, "path"))
		return x->sparse && t->entry.name ? 0 : take_name(&t->entry.name, value, len, e);
	if (str_eq(key, "GNU.sparse.name"))
		return take_name(&t->entry.name, value, len, e);
	if (str_eq(key, "linkpath"))
		return take_name(&t->entry.link, value, len, e);
	if (str_eq(key, "size"))
		return take_number(value, &x->has_size, &x->size, e);
	if (str_eq(key, "uid"))
		return take_number(value, &x->has_uid, &x->uid, e);
	if (str_eq(key, "gid"))
		return take_number(value, &x->has_gid, &x->gid, e);
	if (str_eq(key, "GNU.sparse.realsize"))
		return take_number(value, &x->has_real_size, &x->real_size, e);
	if (str_eq(key, "GNU.sparse.major")) {
		x->sparse = str_eq(value, "1");
		return x->sparse ? 0 : tar_bad(e, "a sparse file is of an old form of pax");
	}
	if (str_starts(key, "GNU.sparse.") && !str_eq(key, "GNU.sparse.minor"))
		return tar_bad(e, "a sparse file is of an old form of pax");
	if (str_eq(key, "mtime"))
		take_time(value, x);
	else if (str_starts(key, xattr_prefix))
		add_xattr(t, key + strlen(xattr_prefix), value, len);
	return 0;
}

int tar_extra_parse(struct tar *t, struct tar_extra *x, struct err *e)
{
	char *p = t->pax.data;
	size_t left = t->pax.len;

	while (left) {
		char *space = memchr(p, ' ', MIN(left, (size_t)20));
		unsigned long long len;
		if (!space)
			return tar_bad(e, "a pax header's line has no length");
		*space = '\0';
		size_t head = (size_t)(space - p) + 1;
		if (str_parse_uint(p, 1, left, &len) < 0 || len <= head + 1 || p[len - 1] != '\n')
			return tar_bad(e, "a pax header's line has a wrong length");
		p[len - 1] = '\0';
		char *eq = memchr(space + 1, '=', (size_t)len - head);
		if (!eq)
			return tar_bad(e, "a pax header's line has no '='");
		*eq = '\0';
		int r = take(t, x, space + 1, eq + 1, (size_t)len - (size_t)(eq + 1 - p) - 1, e);
		if (r < 0)
			return r;
		p += len;
		left -= (size_t)len;
	}
	return 0;
}

int tar_extra_apply(struct tar *t, const struct tar_extra *x, struct err *e)
{
	struct tar_entry *n = &t->entry;

	if (x->has_size)
		t->stored = x->size;
	if (x->has_uid)
		n->uid = x->uid;
	if (x->has_gid)
		n->gid = x->gid;
	if (x->has_mtime)
		n->mtime = x->mtime;
	if (x->sparse && n->type != TAR_FILE)
		return tar_bad(e, "something is sparse that is no file");
	return 0;
}

/* One decimal number and its newline. */
static int map_number(struct tar *t, uint64_t *ret, struct err *e)
{
	uint64_t v = 0;

	for (int digits = 0; digits < 20; digits++) {
		char c;
		ssize_t got = tar_read(t, &c, 1, e);
		if (got <= 0)
			return got < 0 ? (int)got : tar_bad(e, "a sparse file's map ends in the middle");
		if (c == '\n' && digits) {
			*ret = v;
			return 0;
		}
		if (c < '0' || c > '9' || v > UINT64_MAX / 20)
			break;
		v = v * 10 + (uint64_t)(c - '0');
	}
	return tar_bad(e, "a sparse file's map is no numbers");
}

int tar_read_sparse_map(struct tar *t, const struct tar_extra *x, struct err *e)
{
	uint64_t count = 0, offset = 0, len = 0;
	char waste[512];

	if (!x->has_real_size)
		return tar_bad(e, "a sparse file does not say its size");
	t->entry.size = x->real_size;
	int r = map_number(t, &count, e);
	if (r == 0 && count > TAR_MAX_HOLES)
		r = tar_bad(e, "a sparse file has more than 65536 pieces");
	for (uint64_t i = 0; r == 0 && i < count; i++) {
		r = map_number(t, &offset, e);
		if (r == 0)
			r = map_number(t, &len, e);
		if (r == 0)
			r = tar_add_piece(t, offset, len, e);
	}
	/* The map fills whole blocks. */
	uint64_t used = t->stored - t->left;
	size_t rest = (size_t)((512 - used % 512) % 512);
	for (ssize_t got = 1; r == 0 && rest && got > 0; rest -= (size_t)got) {
		got = tar_read(t, waste, rest, e);
		if (got <= 0)
			r = got < 0 ? (int)got : tar_bad(e, "a sparse file's map ends in the middle");
	}
	if (r == 0 && !t->entry.pieces)
		r = tar_add_piece(t, 0, 0, e);
	return r;
}
