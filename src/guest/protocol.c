/* Packing and unpacking of the control channel's records. Both ends use it; either may be hostile to the other, so
 * every record is read with bounds and must be used up to its last byte. */
#include <guest/protocol.h>

#include <base/buf.h>
#include <base/pack.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct unpack reader(const struct frame *f)
{
	return (struct unpack){.p = f->payload, .left = f->len};
}

int guest_config_pack(struct buf *b, const struct guest_config *c)
{
	return buf_add(b, c, sizeof *c);
}

int guest_config_unpack(const struct frame *f, struct guest_config *ret)
{
	if (f->len != sizeof *ret)
		return -EPROTO;
	memcpy(ret, f->payload, sizeof *ret);
	return ret->listen_port > UINT16_MAX ? -EPROTO : 0;
}

static size_t count(const char *const *v)
{
	size_t n = 0;

	while (v[n])
		n++;
	return n;
}

int guest_exec_pack(struct buf *b, uint32_t flags, const char *cwd, const char *const *argv, const char *const *env)
{
	int r = pack_u32(b, flags);

	if (r == 0)
		r = pack_str(b, cwd);
	if (r == 0)
		r = pack_strv(b, argv, count(argv));
	if (r == 0)
		r = pack_strv(b, env, count(env));
	return r;
}

int guest_exec_unpack(const struct frame *f, struct guest_exec *ret)
{
	struct unpack u = reader(f);
	size_t argc = 0;
	struct guest_exec x = {.flags = unpack_u32(&u)};

	x.cwd = unpack_str(&u);
	x.argv = unpack_strv(&u, GUEST_MAX_STRINGS, &argc);
	x.env = unpack_strv(&u, GUEST_MAX_STRINGS, NULL);
	if (!unpack_end(&u) || argc == 0 || f->nfds != 3) {
		guest_exec_done(&x);
		return -EPROTO;
	}
	*ret = x;
	return 0;
}

void guest_exec_done(struct guest_exec *x)
{
	free(x->cwd);
	unpack_strv_free(x->argv);
	unpack_strv_free(x->env);
	*x = (struct guest_exec){0};
}

int guest_end_pack(struct buf *b, const struct guest_exec_end *end)
{
	return buf_add(b, end, sizeof *end);
}

int guest_end_unpack(const struct frame *f, struct guest_exec_end *ret)
{
	if (f->len != sizeof *ret)
		return -EPROTO;
	memcpy(ret, f->payload, sizeof *ret);
	return ret->end > GUEST_NOT_STARTED || ret->code > INT32_MAX ? -EPROTO : 0;
}

int guest_err_pack(struct buf *b, const struct err *e)
{
	int r = pack_u32(b, (uint32_t)e->kind);

	if (r == 0)
		r = pack_u32(b, (uint32_t)e->errnum);
	if (r == 0)
		r = pack_str(b, e->msg);
	return r < 0 ? r : pack_str(b, e->hint);
}

int guest_err_unpack(const struct frame *f, struct err *ret)
{
	struct unpack u = reader(f);
	struct err e = {.kind = (enum err_kind)unpack_u32(&u), .errnum = (int)unpack_u32(&u)};
	char *msg = unpack_str(&u), *hint = unpack_str(&u);
	int r = unpack_end(&u) && msg && hint && e.kind <= ERR_INTERNAL ? 0 : -EPROTO;

	if (r == 0) {
		snprintf(e.msg, sizeof e.msg, "%s", msg);
		snprintf(e.hint, sizeof e.hint, "%s", hint);
		*ret = e;
	}
	free(msg);
	free(hint);
	return r;
}
