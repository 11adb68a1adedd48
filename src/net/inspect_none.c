/* Inspection in a program that does not inspect: iterion itself, whose start would pay for a TLS library that nearly no
 * run needs. Its proxies never meet a TLS socket, since inspect_wanted is what makes one; a proxy that is to inspect is
 * a program of its own (proxy_main.c), which has the real functions in the place of these. */
#include "inspect.h"
#include "tls.h"

#include <base/err.h>

#include <errno.h>

int inspect_prepare(struct proxy_child *p, const struct proxy_inspect *i, struct err *e)
{
	(void)p;
	(void)i;
	err_hint(e, "This is a fault in iterion; please report it.");
	return err_set(e, ERR_INTERNAL, ENOSYS, "start TLS inspection: this program has no TLS");
}

bool inspect_wanted(const struct conn *c, const struct tls_hello *hello)
{
	(void)c;
	(void)hello;
	return false;
}

void inspect_start(struct conn *c, const struct tls_hello *hello)
{
	(void)hello;
	conn_abort(c);
}

void inspect_event(struct conn *c)
{
	conn_abort(c);
}

void inspect_connected(struct conn *c)
{
	conn_abort(c);
}

void inspect_free(struct conn *c)
{
	(void)c;
}

void inspect_on_head(struct conn *c, struct http_head *h, size_t len)
{
	(void)h;
	(void)len;
	conn_abort(c);
}

void inspect_plain_head(struct conn *c, const struct http_head *h)
{
	(void)c;
	(void)h;
}

void inspect_response(struct conn *c, struct http_head *h, char *data, struct body *b)
{
	(void)c;
	(void)h;
	(void)data;
	(void)b;
}

void h2_event(struct conn *c)
{
	conn_abort(c);
}

bool h2_is_idle(const struct conn *c)
{
	(void)c;
	return true;
}

int tls_sock_fill(struct proxy_sock *s, size_t limit)
{
	(void)s;
	(void)limit;
	return -EIO;
}

int tls_sock_flush(struct proxy_sock *s)
{
	(void)s;
	return -EIO;
}

void tls_sock_shut(struct proxy_sock *s)
{
	(void)s;
}

void tls_sock_free(struct proxy_sock *s)
{
	(void)s;
}

bool tls_sock_pending(const struct proxy_sock *s)
{
	(void)s;
	return false;
}
