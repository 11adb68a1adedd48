/* Reading the server name and the offered protocols of a ClientHello (RFC 8446 §4.1.2, RFC 6066 §3, RFC 7301).
 *
 * A hello may be cut over several TLS records, so its handshake bytes are first gathered into one bounded buffer. All
 * reading goes through a cursor that turns bad at the first step over the end and stays so. Only what is needed is
 * looked at; a hello that looks like TLS and cannot be read to its end is reported as malformed rather than guessed at,
 * because a server may guess differently. */
#include "proxy_sni.h"

#include <base/mem.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>

enum {
	RECORD_HEAD = 5,
	RECORD_MAX = 16384,
	RECORD_HANDSHAKE = 22,
	CLIENT_HELLO = 1,
	EXTENSION_NAME = 0,
	EXTENSION_ALPN = 16,
	EXTENSION_ECH = 0xfe0d,
};

struct cursor {
	const unsigned char *p;
	size_t left;
	bool bad;
};

static size_t number(struct cursor *c, unsigned bytes)
{
	size_t v = 0;

	if (c->bad || c->left < bytes) {
		c->bad = true;
		return 0;
	}
	for (; bytes; bytes--, c->left--)
		v = v << 8 | *c->p++;
	return v;
}

/* The next n bytes as a cursor of their own. */
static struct cursor part(struct cursor *c, size_t n)
{
	if (c->bad || c->left < n) {
		c->bad = true;
		return (struct cursor){.bad = true};
	}
	struct cursor r = {.p = c->p, .left = n};
	c->p += n;
	c->left -= n;
	return r;
}

/* A part whose length stands before it. */
static struct cursor vector(struct cursor *c, unsigned bytes)
{
	return part(c, number(c, bytes));
}

static int read_name(struct cursor ext, struct tls_hello *ret)
{
	struct cursor list = vector(&ext, 2);
	size_t type = number(&list, 1);
	struct cursor name = vector(&list, 2);

	/* One entry of type host_name is all that exists. */
	if (list.bad || name.bad || ext.left || list.left || type != 0 || ret->has_name)
		return -EBADMSG;
	if (name.left == 0 || name.left > TLS_NAME_MAX || memchr(name.p, '\0', name.left))
		return -EBADMSG;
	memcpy(ret->name, name.p, name.left);
	ret->name[name.left] = '\0';
	ret->has_name = true;
	return 0;
}

static int read_protocols(struct cursor ext, struct tls_hello *ret)
{
	struct cursor list = vector(&ext, 2);

	while (!list.bad && list.left > 0) {
		struct cursor name = vector(&list, 1);
		if (name.bad || name.left == 0)
			return -EBADMSG;
		if (name.left == 2 && memcmp(name.p, "h2", 2) == 0)
			ret->offers_h2 = true;
		else if (name.left == 8 && memcmp(name.p, "http/1.1", 8) == 0)
			ret->offers_h1 = true;
		else
			ret->offers_other = true;
	}
	return list.bad || ext.left ? -EBADMSG : 0;
}

static int read_hello(struct cursor c, struct tls_hello *ret)
{
	(void)part(&c, 2 + 32); /* version, random */
	(void)vector(&c, 1);	/* session id */
	(void)vector(&c, 2);	/* cipher suites */
	(void)vector(&c, 1);	/* compression methods */
	if (!c.bad && c.left == 0)
		return 1; /* extensions may be missing altogether */
	struct cursor all = vector(&c, 2);
	if (c.bad || c.left)
		return -EBADMSG;
	while (all.left > 0) {
		size_t type = number(&all, 2);
		struct cursor ext = vector(&all, 2);
		if (all.bad)
			return -EBADMSG;
		if (type == EXTENSION_ECH)
			ret->ech = true;
		if (type == EXTENSION_NAME && read_name(ext, ret) < 0)
			return -EBADMSG;
		if (type == EXTENSION_ALPN && read_protocols(ext, ret) < 0)
			return -EBADMSG;
	}
	return 1;
}

/* Whether the n handshake bytes hold the whole first message. */
static bool is_whole(const unsigned char *p, size_t n)
{
	return n >= 4 && n - 4 >= ((size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
}

/* Joins the handshake bytes of the records until the first message is whole (what follows may be early data); the last
 * record may be incomplete. Returns the bytes joined. */
static ptrdiff_t gather(struct cursor c, unsigned char *to, size_t max)
{
	size_t n = 0;

	while (c.left >= RECORD_HEAD && n < max && !is_whole(to, n)) {
		size_t type = number(&c, 1);
		size_t major = number(&c, 1);
		(void)number(&c, 1);
		size_t len = number(&c, 2);
		if (type != RECORD_HANDSHAKE || major != 3 || len == 0 || len > RECORD_MAX)
			return -EBADMSG;
		struct cursor body = part(&c, MIN(len, c.left));
		size_t take = MIN(body.left, max - n);
		memcpy(to + n, body.p, take);
		n += take;
	}
	return (ptrdiff_t)n;
}

int tls_hello_parse(const void *data, size_t len, struct tls_hello *ret)
{
	const unsigned char *p = data;
	unsigned char hello[TLS_HELLO_MAX];

	*ret = (struct tls_hello){0};
	if ((len > 0 && p[0] != RECORD_HANDSHAKE) || (len > 1 && p[1] != 3))
		return -ENOMSG;
	ptrdiff_t n = gather((struct cursor){.p = p, .left = len}, hello, sizeof hello);
	if (n < 0)
		return -EBADMSG;
	if (n > 0 && hello[0] != CLIENT_HELLO)
		return -EBADMSG;
	if (n < 4)
		return 0;
	struct cursor c = {.p = hello + 1, .left = (size_t)n - 1};
	size_t size = number(&c, 3);
	if (size > sizeof hello - 4)
		return -EBADMSG;
	return c.left < size ? 0 : read_hello(part(&c, size), ret);
}
