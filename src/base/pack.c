/* Binary records. The reader trusts nothing: every length is held against what is left, and a bad record is a state
 * that sticks rather than a crash. */
#include <base/buf.h>
#include <base/mem.h>
#include <base/pack.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int pack_u32(struct buf *b, uint32_t v)
{
	return buf_add(b, &v, sizeof v);
}

int pack_u64(struct buf *b, uint64_t v)
{
	return buf_add(b, &v, sizeof v);
}

int pack_bytes(struct buf *b, const void *data, size_t len)
{
	if (len > UINT32_MAX)
		return -ENOBUFS;
	int r = pack_u32(b, (uint32_t)len);
	return r < 0 ? r : buf_add(b, data, len);
}

int pack_str(struct buf *b, const char *s)
{
	return pack_bytes(b, s, strlen(s));
}

int pack_strv(struct buf *b, const char *const *v, size_t n)
{
	int r = pack_u32(b, (uint32_t)n);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = pack_str(b, v[i]);
	return r;
}

static bool take(struct unpack *u, void *to, size_t len)
{
	if (u->bad || u->left < len) {
		u->bad = true;
		memset(to, 0, len);
		return false;
	}
	memcpy(to, u->p, len);
	u->p += len;
	u->left -= len;
	return true;
}

uint32_t unpack_u32(struct unpack *u)
{
	uint32_t v;

	take(u, &v, sizeof v);
	return v;
}

uint64_t unpack_u64(struct unpack *u)
{
	uint64_t v;

	take(u, &v, sizeof v);
	return v;
}

const char *unpack_bytes(struct unpack *u, size_t *ret_len)
{
	size_t len = unpack_u32(u);

	*ret_len = 0;
	if (u->bad || len > u->left) {
		u->bad = true;
		return NULL;
	}
	const char *p = u->p;
	u->p += len;
	u->left -= len;
	*ret_len = len;
	return p;
}

char *unpack_str(struct unpack *u)
{
	size_t len;
	const char *p = unpack_bytes(u, &len);

	if (!p)
		return NULL;
	if (memchr(p, '\0', len)) {
		u->bad = true;
		return NULL;
	}
	return xstrndup(p, len);
}

void unpack_strv_free(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

char **unpack_strv(struct unpack *u, size_t max, size_t *ret_n)
{
	size_t n = unpack_u32(u);

	/* Each string takes at least its length field: a count beyond that is a lie, and must not size an array. */
	if (u->bad || n > max || n > u->left / sizeof(uint32_t)) {
		u->bad = true;
		return NULL;
	}
	char **v = xcalloc(n + 1, sizeof *v);
	for (size_t i = 0; i < n; i++) {
		v[i] = unpack_str(u);
		if (!v[i]) {
			unpack_strv_free(v);
			return NULL;
		}
	}
	if (ret_n)
		*ret_n = n;
	return v;
}

bool unpack_end(const struct unpack *u)
{
	return !u->bad && u->left == 0;
}
