/* Header blocks between the two sessions of an inspected connection.
 *
 * They are copied, since the library takes them back when its callback returns. A field that got a secret is never put
 * into a compression table, where later blocks could be compared with it (RFC 7541 §7.1). */
#include "h2_fields.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_BYTES = 128 * 1024 };

int h2_fields_add(struct h2_fields *f, const void *name, size_t name_len, const void *value, size_t value_len)
{
	if (f->n == H2_MAX_FIELDS || name_len + value_len > HTTP_HEAD_MAX - f->bytes)
		return -E2BIG;
	f->bytes += name_len + value_len;
	f->v = grow_array(f->v, f->n, &f->cap, sizeof *f->v);
	f->v[f->n++] = (nghttp2_nv){
		.name = xmemdup(name, name_len),
		.namelen = name_len,
		.value = value_len ? xmemdup(value, value_len) : xcalloc(1, 1),
		.valuelen = value_len,
	};
	return 0;
}

void h2_fields_clear(struct h2_fields *f)
{
	for (size_t i = 0; i < f->n; i++) {
		explicit_bzero(f->v[i].value, f->v[i].valuelen);
		free(f->v[i].name);
		free(f->v[i].value);
	}
	free(f->v);
	*f = (struct h2_fields){0};
}

static bool is(const nghttp2_nv *v, const char *name)
{
	return v->namelen == strlen(name) && memcmp(v->name, name, v->namelen) == 0;
}

struct http_text h2_fields_get(const struct h2_fields *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (is(&f->v[i], name))
			return (struct http_text){(const char *)f->v[i].value, f->v[i].valuelen};
	return (struct http_text){0};
}

static int swap_path(nghttp2_nv *v, const struct swaps *s)
{
	auto_buf to = BUF_INIT(PATH_MAX_BYTES);

	if (swap_target(s->out, s->n, (const char *)v->value, v->valuelen, &to) < 0)
		return -EMSGSIZE;
	if (to.len == v->valuelen && memcmp(to.data, v->value, to.len) == 0)
		return 0;
	free(v->value);
	v->valuelen = to.len;
	v->value = (uint8_t *)buf_steal(&to);
	v->flags |= NGHTTP2_NV_FLAG_NO_INDEX;
	return 1;
}

static void remove_fields(struct h2_fields *f, bool (*unwanted)(const nghttp2_nv *v))
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (!unwanted(&f->v[i])) {
			f->v[n++] = f->v[i];
			continue;
		}
		free(f->v[i].name);
		free(f->v[i].value);
	}
	f->n = n;
}

static bool is_range(const nghttp2_nv *v)
{
	return is(v, "range");
}

static bool is_for_proxies(const nghttp2_nv *v)
{
	return v->namelen >= 6 && memcmp(v->name, "proxy-", 6) == 0;
}

void h2_fields_drop_proxy(struct h2_fields *f)
{
	remove_fields(f, is_for_proxies);
}

static void set_value(nghttp2_nv *v, const char *text)
{
	free(v->value);
	v->valuelen = strlen(text);
	v->value = xmemdup(text, v->valuelen);
}

int h2_fields_swap_request(struct h2_fields *f, const struct swaps *s)
{
	bool asked = false, given = false;
	int r = 0;

	for (size_t i = 0; s->n && r >= 0 && i < f->n; i++) {
		nghttp2_nv *v = &f->v[i];
		if (is(v, ":path")) {
			r = swap_path(v, s);
			given |= r > 0;
		} else if (is(v, "accept-encoding")) {
			set_value(v, "identity");
			asked = true;
		} else if (v->name[0] != ':' && swap_header(s->out, s->n, (char *)v->value, v->valuelen)) {
			v->flags |= NGHTTP2_NV_FLAG_NO_INDEX;
			given = true;
		}
	}
	if (s->n && r >= 0 && !asked)
		(void)h2_fields_add(f, "accept-encoding", 15, "identity", 8);
	/* In parts of the client's choice nobody would see the value if it came back. */
	if (given)
		remove_fields(f, is_range);
	return MIN(r, 0);
}

void h2_fields_swap_response(struct h2_fields *f, const struct swaps *s)
{
	for (size_t i = 0; s->n && i < f->n; i++)
		if (f->v[i].name[0] != ':') {
			(void)swap_text(s->in, s->n_in, (char *)f->v[i].name, f->v[i].namelen);
			(void)swap_text(s->in, s->n_in, (char *)f->v[i].value, f->v[i].valuelen);
		}
}
