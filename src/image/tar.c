/* The headers of a tar archive.
 *
 * An entry is a block of 512 bytes and its data, filled up to whole blocks. What does not fit into the block's fields
 * stands in entries before it: pax headers ('x', tar_pax.c) and GNU's long names ('L', 'K'). All of it is hostile:
 * numbers are checked when they are read, names and headers have limits, and the first thing that makes no sense ends
 * the reading. */
#include "tar.h"
#include "tar_pax.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	BLOCK = 512,
	AT_NAME = 0,
	AT_MODE = 100,
	AT_UID = 108,
	AT_GID = 116,
	AT_SIZE = 124,
	AT_MTIME = 136,
	AT_SUM = 148,
	AT_TYPE = 156,
	AT_LINK = 157,
	AT_MAGIC = 257,
	AT_PREFIX = 345,
	AT_SPARSE = 386,
	AT_EXTENDED = 482,
	AT_REALSIZE = 483,
	NAME_LEN = 100,
	PREFIX_LEN = 155,
	SPARSE_IN_HEAD = 4,
	SPARSE_IN_BLOCK = 21,
	SPARSE_LEN = 24,
};

int tar_bad(struct err *e, const char *why)
{
	return err_set(e, ERR_INPUT, EPROTO, "its archive is damaged: %s", why);
}

void tar_begin(struct tar *t, const struct input *in)
{
	*t = (struct tar){.in = *in, .pax = BUF_INIT(TAR_MAX_EXTRA)};
}

static void clear_entry(struct tar *t)
{
	struct tar_entry *n = &t->entry;

	free(n->name);
	free(n->link);
	free(n->pieces);
	for (size_t i = 0; i < n->n_xattrs; i++) {
		free(n->xattrs[i].name);
		free(n->xattrs[i].value);
	}
	free(n->xattrs);
	*n = (struct tar_entry){0};
	t->cap_pieces = t->cap_xattrs = 0;
}

void tar_done(struct tar *t)
{
	clear_entry(t);
	buf_done(&t->pax);
}

/* Octal digits, or base 256 with the first bit set. */
static int number(const unsigned char *p, size_t len, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if (p[0] & 0x80) {
		/* Negative numbers, and those past 63 bits, are none that can be meant. */
		if (p[0] != 0x80)
			return -EINVAL;
		for (i = 1; i < len; i++) {
			if (v >> 55)
				return -EINVAL;
			v = v << 8 | p[i];
		}
		*ret = v;
		return 0;
	}
	while (i < len && p[i] == ' ')
		i++;
	for (; i < len && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	*ret = v;
	return i == len || p[i] == '\0' || p[i] == ' ' ? 0 : -EINVAL;
}

static bool sum_is_right(const unsigned char *b)
{
	uint64_t want, sum = 0;

	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : b[i];
	return number(b + AT_SUM, 8, &want) == 0 && sum == want;
}

static int read_block(struct tar *t, unsigned char b[BLOCK], struct err *e)
{
	int r = input_read(&t->in, b, BLOCK, e);

	t->at += r == 1 ? BLOCK : 0;
	return r;
}

static int skip(struct tar *t, uint64_t n, struct err *e)
{
	char waste[4096];

	while (n) {
		size_t take = (size_t)MIN(n, (uint64_t)sizeof waste);
		int r = input_read(&t->in, waste, take, e);
		if (r <= 0)
			return r < 0 ? r : tar_bad(e, "it ends in the middle");
		n -= take;
		t->at += take;
	}
	return 0;
}

static uint64_t padding(uint64_t size)
{
	return (BLOCK - size % BLOCK) % BLOCK;
}

/* The data of a header that speaks about the next entry. */
static int read_extra(struct tar *t, uint64_t size, struct buf *to, struct err *e)
{
	buf_clear(to);
	if (size > TAR_MAX_EXTRA || buf_reserve(to, (size_t)size + 1) < 0)
		return tar_bad(e, "a header is larger than 1 MiB");
	int r = size ? input_read(&t->in, to->data, (size_t)size, e) : 1;
	if (r <= 0)
		return r < 0 ? r : tar_bad(e, "it ends in the middle");
	to->len = (size_t)size;
	to->data[size] = '\0';
	t->at += size;
	return skip(t, padding(size), e);
}

static int long_name(struct tar *t, uint64_t size, char **to, struct err *e)
{
	auto_buf b = BUF_INIT(TAR_MAX_EXTRA + 1);
	int r = read_extra(t, size, &b, e);

	if (r < 0)
		return r;
	free(*to);
	*to = xstrdup(buf_str(&b));
	return 0;
}

static char *field(const unsigned char *p, size_t len)
{
	const char *s = (const char *)p;

	return xstrndup(s, strnlen(s, len));
}

static int type_of(unsigned char c, enum tar_type *ret)
{
	static const struct {
		char letter;
		enum tar_type type;
	} rows[] = {{'0', TAR_FILE},	{'\0', TAR_FILE}, {'7', TAR_FILE},  {'S', TAR_FILE},   {'1', TAR_HARDLINK},
		    {'2', TAR_SYMLINK}, {'3', TAR_CHAR},  {'4', TAR_BLOCK}, {'5', TAR_FOLDER}, {'6', TAR_FIFO}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if ((char)c == rows[i].letter) {
			*ret = rows[i].type;
			return 0;
		}
	}
	return -EINVAL;
}

/* The pieces of GNU's old sparse format, in the head and in blocks behind it. */
static int old_sparse(struct tar *t, unsigned char *b, struct err *e)
{
	struct tar_entry *n = &t->entry;
	size_t at = AT_SPARSE, count = SPARSE_IN_HEAD;
	bool more = b[AT_EXTENDED] != 0;

	if (number(b + AT_REALSIZE, 12, &n->size) < 0)
		return tar_bad(e, "a sparse file's size is no number");
	for (;;) {
		for (size_t i = 0; i < count && b[at + i * SPARSE_LEN]; i++) {
			uint64_t offset, len;
			if (number(b + at + i * SPARSE_LEN, 12, &offset) < 0 ||
			    number(b + at + i * SPARSE_LEN + 12, 12, &len) < 0)
				return tar_bad(e, "a sparse file's map is no numbers");
			int r = tar_add_piece(t, offset, len, e);
			if (r < 0)
				return r;
		}
		if (!more)
			return 0;
		int r = read_block(t, b, e);
		if (r <= 0)
			return r < 0 ? r : tar_bad(e, "it ends in the middle");
		at = 0;
		count = SPARSE_IN_BLOCK;
		more = b[SPARSE_IN_BLOCK * SPARSE_LEN] != 0;
	}
}

/* The fields of the head, where no pax header said otherwise. */
static int take_head(struct tar *t, unsigned char *b, const struct tar_extra *x, struct err *e)
{
	struct tar_entry *n = &t->entry;
	uint64_t mode, mtime;
	bool ustar = memcmp(b + AT_MAGIC, "ustar\0", 6) == 0;

	if (type_of(b[AT_TYPE], &n->type) < 0)
		return tar_bad(e, "an entry is of an unknown type");
	if (number(b + AT_MODE, 8, &mode) < 0 || number(b + AT_SIZE, 12, &t->stored) < 0)
		return tar_bad(e, "a mode or size is no number");
	n->mode = (mode_t)(mode & 07777);
	/* Nobody's and before 1970 is what a strange number is read as. */
	n->uid = number(b + AT_UID, 8, &n->uid) < 0 ? UINT64_MAX : n->uid;
	n->gid = number(b + AT_GID, 8, &n->gid) < 0 ? UINT64_MAX : n->gid;
	n->mtime = number(b + AT_MTIME, 12, &mtime) < 0 ? 0 : (int64_t)mtime;
	if (!n->name) {
		auto_free char *name = field(b + AT_NAME, NAME_LEN);
		auto_free char *prefix = ustar ? field(b + AT_PREFIX, PREFIX_LEN) : xstrdup("");
		n->name = *prefix ? xasprintf("%s/%s", prefix, name) : xstrdup(name);
	}
	if (!n->link)
		n->link = field(b + AT_LINK, NAME_LEN);
	int r = tar_extra_apply(t, x, e);
	if (r < 0)
		return r;
	/* Old archives mark a folder by the end of its name only. */
	size_t len = strlen(n->name);
	if (n->type == TAR_FILE && len && n->name[len - 1] == '/')
		n->type = TAR_FOLDER;
	if (strlen(n->name) > TAR_MAX_PATH || strlen(n->link) > TAR_MAX_PATH)
		return tar_bad(e, "a name is longer than 4095 bytes");
	if (n->type != TAR_FILE)
		t->stored = 0;
	n->size = t->stored;
	t->left = t->stored;
	if (b[AT_TYPE] == 'S')
		return old_sparse(t, b, e);
	return x->sparse ? tar_read_sparse_map(t, x, e) : 0;
}

static bool is_header_for_next(unsigned char type)
{
	return type == 'L' || type == 'K' || type == 'x' || type == 'g';
}

/* A header that says something about the entry behind it. */
static int take_extra(struct tar *t, unsigned char type, uint64_t size, struct tar_extra *x, struct err *e)
{
	if (type == 'L')
		return long_name(t, size, &t->entry.name, e);
	if (type == 'K')
		return long_name(t, size, &t->entry.link, e);
	if (type == 'g')
		return size > TAR_MAX_EXTRA ? tar_bad(e, "a header is larger than 1 MiB")
					    : skip(t, size + padding(size), e);
	int r = read_extra(t, size, &t->pax, e);
	return r < 0 ? r : tar_extra_parse(t, x, e);
}

int tar_next(struct tar *t, struct err *e)
{
	unsigned char b[BLOCK];
	struct tar_extra x = {0};
	unsigned extras = 0;

	int r = skip(t, t->left + (t->over ? 0 : padding(t->stored)), e);
	clear_entry(t);
	buf_clear(&t->pax);
	t->left = t->stored = 0;
	while (r == 0 && !t->over) {
		uint64_t size;
		r = read_block(t, b, e);
		if (r < 0)
			return r;
		/* One block of zeros ends it, and so does its plain end, as Docker takes it. */
		if (r == 0 || (!b[AT_NAME] && !b[AT_SUM])) {
			t->over = true;
			return 0;
		}
		if (!sum_is_right(b))
			return tar_bad(e, "a checksum does not hold");
		if (number(b + AT_SIZE, 12, &size) < 0)
			return tar_bad(e, "a size is no number");
		if (!is_header_for_next(b[AT_TYPE])) {
			r = take_head(t, b, &x, e);
			return r < 0 ? r : 1;
		}
		/* What they say is kept until the entry comes, which may be never. */
		if (++extras > TAR_MAX_EXTRAS)
			return tar_bad(e, "an entry has more than 8 headers");
		r = take_extra(t, b[AT_TYPE], size, &x, e);
	}
	return r;
}

ssize_t tar_read(struct tar *t, void *to, size_t n, struct err *e)
{
	n = (size_t)MIN((uint64_t)n, t->left);
	if (n == 0)
		return 0;
	ssize_t got = t->in.read(t->in.arg, to, n, e);
	if (got == 0)
		return tar_bad(e, "it ends in the middle");
	if (got > 0) {
		t->left -= (uint64_t)got;
		t->at += (uint64_t)got;
	}
	return got;
}
