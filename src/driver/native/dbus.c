/* D-Bus messages, made and taken apart; nothing here reads or writes a socket.
 *
 * Why not a library: libsystemd and libdbus would be loaded by every start or looked for at run time, for one call of
 * one method. What is written is what that call needs; what is read is a header's fields and the strings of a body. The
 * bus is the user's own, and its messages are checked like a stranger's nevertheless: lengths first, every string ends
 * with a NUL, and the bytes are in this machine's order, as the bus and the manager are on this machine. */
#include "dbus.h"

#include <base/mem.h>

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { HEADER = 16, FIELD_PATH = 1, FIELD_INTERFACE, FIELD_MEMBER, FIELD_ERROR, FIELD_REPLY_TO, FIELD_DESTINATION };
enum { FIELD_SIGNATURE = 8, VERSION = 1 };

/* What does not fit shows when the message is put together. */
static void put(struct buf *b, const void *data, size_t len)
{
	(void)buf_add(b, data, len);
}

void dbus_align(struct buf *b, size_t n)
{
	while (b->len % n && buf_putc(b, '\0') == 0)
		;
}

void dbus_put_u32(struct buf *b, uint32_t v)
{
	dbus_align(b, sizeof v);
	put(b, &v, sizeof v);
}

void dbus_put_u64(struct buf *b, uint64_t v)
{
	dbus_align(b, sizeof v);
	put(b, &v, sizeof v);
}

void dbus_put_string(struct buf *b, const char *s)
{
	size_t len = strlen(s);

	dbus_put_u32(b, (uint32_t)len);
	put(b, s, len + 1);
}

void dbus_put_signature(struct buf *b, const char *s)
{
	(void)buf_putc(b, (char)strlen(s));
	put(b, s, strlen(s) + 1);
}

size_t dbus_array_begin(struct buf *b, size_t align)
{
	dbus_put_u32(b, 0);
	size_t at = b->len - sizeof(uint32_t);
	/* The bytes between the length and the first element are not the array's. */
	dbus_align(b, align);
	return at;
}

void dbus_array_end(struct buf *b, size_t at, size_t align)
{
	size_t first = (at + sizeof(uint32_t) + align - 1) / align * align;
	uint32_t len = (uint32_t)(b->len - first);

	memcpy(b->data + at, &len, sizeof len);
}

static void put_field(struct buf *b, unsigned char code, const char *type, const char *value)
{
	if (!value)
		return;
	dbus_align(b, 8);
	(void)buf_putc(b, (char)code);
	dbus_put_signature(b, type);
	if (type[0] == 'g')
		dbus_put_signature(b, value);
	else
		dbus_put_string(b, value);
}

int dbus_put_call(struct buf *to, const struct dbus_call *call, const struct buf *body)
{
	const unsigned char start[4] = {__BYTE_ORDER == __LITTLE_ENDIAN ? 'l' : 'B', DBUS_CALL, 0, VERSION};
	auto_buf b = BUF_INIT(DBUS_MESSAGE_MAX);

	put(&b, start, sizeof start);
	dbus_put_u32(&b, (uint32_t)body->len);
	dbus_put_u32(&b, call->serial);
	size_t at = dbus_array_begin(&b, 8);
	put_field(&b, FIELD_PATH, "o", call->path);
	put_field(&b, FIELD_INTERFACE, "s", call->interface);
	put_field(&b, FIELD_MEMBER, "s", call->member);
	put_field(&b, FIELD_DESTINATION, "s", call->destination);
	put_field(&b, FIELD_SIGNATURE, "g", call->signature);
	dbus_array_end(&b, at, 8);
	dbus_align(&b, 8);
	if (b.len + body->len >= DBUS_MESSAGE_MAX)
		return -ENOBUFS;
	put(&b, body->data, body->len);
	return buf_add(to, b.data, b.len);
}

/* A position in what came; at beyond len means that it was not as it should be. */
struct reader {
	const uint8_t *p;
	size_t len;
	size_t at;
};

static void broken(struct reader *r)
{
	r->at = r->len + 1;
}

static bool is_broken(const struct reader *r)
{
	return r->at > r->len;
}

static const void *take(struct reader *r, size_t n, size_t align)
{
	size_t at = (r->at + align - 1) / align * align;

	if (is_broken(r) || at > r->len || n > r->len - at) {
		broken(r);
		return NULL;
	}
	r->at = at + n;
	return r->p + at;
}

static uint32_t take_u32(struct reader *r)
{
	const void *p = take(r, sizeof(uint32_t), sizeof(uint32_t));
	uint32_t v = 0;

	if (p)
		memcpy(&v, p, sizeof v);
	return v;
}

static const char *take_text(struct reader *r, size_t len)
{
	const char *s = len < DBUS_MESSAGE_MAX ? take(r, len + 1, 1) : NULL;

	if (s && strnlen(s, len + 1) == len)
		return s;
	broken(r);
	return "";
}

static const char *take_signature(struct reader *r)
{
	const uint8_t *len = take(r, 1, 1);

	return len ? take_text(r, *len) : "";
}

/* One of the header's fields: a structure of a byte and a variant, of one of three types. */
static void take_field(struct reader *r, struct dbus_message *m)
{
	const uint8_t *code = take(r, 1, 8);
	const char *type = take_signature(r), *text = "";
	uint32_t number = 0;

	if (is_broken(r))
		return;
	if (strcmp(type, "u") == 0)
		number = take_u32(r);
	else if (strcmp(type, "g") == 0)
		text = take_signature(r);
	else if (strcmp(type, "s") == 0 || strcmp(type, "o") == 0)
		text = take_text(r, take_u32(r));
	else
		broken(r);
	if (*code == FIELD_REPLY_TO)
		m->reply_to = number;
	else if (*code == FIELD_MEMBER)
		m->member = text;
	else if (*code == FIELD_ERROR)
		m->error = text;
	else if (*code == FIELD_SIGNATURE)
		m->signature = text;
}

int dbus_parse(const void *data, size_t len, struct dbus_message *ret)
{
	const uint8_t *p = data;
	uint32_t body, fields;

	if (len < HEADER)
		return 0;
	memcpy(&body, p + 4, sizeof body);
	memcpy(&fields, p + 12, sizeof fields);
	if (p[0] != (__BYTE_ORDER == __LITTLE_ENDIAN ? 'l' : 'B') || p[1] < DBUS_CALL || p[1] > DBUS_SIGNAL ||
	    p[3] != VERSION || body > DBUS_MESSAGE_MAX / 2 || fields > DBUS_MESSAGE_MAX / 4)
		return -EPROTO;
	size_t head = (HEADER + fields + 7u) / 8u * 8u;
	if (len < head + body)
		return 0;
	struct reader r = {.p = p, .len = HEADER + fields, .at = HEADER};
	*ret = (struct dbus_message){
		.type = p[1], .member = "", .error = "", .signature = "", .body = p + head, .body_len = body};
	while (r.at < r.len)
		take_field(&r, ret);
	return is_broken(&r) ? -EPROTO : (int)(head + body);
}

const char *dbus_body_string(const struct dbus_message *m, size_t i)
{
	struct reader r = {.p = m->body, .len = m->body_len};
	size_t n = 0;

	for (const char *t = m->signature; *t; t++) {
		uint32_t v = take_u32(&r);
		if (*t == 'u')
			continue;
		const char *s = *t == 's' || *t == 'o' ? take_text(&r, v) : NULL;
		if (!s || is_broken(&r))
			return NULL;
		if (n++ == i)
			return s;
	}
	return NULL;
}
