/* Answers that the proxy gives itself. Texts may quote what a client sent only in canonical form (hosts) or not at all,
 * so nothing of a request can become a header of an answer. */
#include "proxy_conn.h"

#include <stdarg.h>
#include <stdio.h>

static const char *phrase(unsigned status)
{
	switch (status) {
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 407:
		return "Proxy Authentication Required";
	case 408:
		return "Request Timeout";
	case 421:
		return "Misdirected Request";
	case 431:
		return "Request Header Fields Too Large";
	case 502:
		return "Bad Gateway";
	case 504:
		return "Gateway Timeout";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Internal Server Error";
	}
}

void reply_send(struct conn *c, unsigned status, bool keep, const char *reason, const char *fmt, ...)
{
	char body[2048];
	struct buf *out = &c->client->out;
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(body, sizeof body - 1, fmt, ap);
	va_end(ap);
	size_t len = n < 0 ? 0 : (size_t)n < sizeof body - 1 ? (size_t)n : sizeof body - 2;
	body[len++] = '\n';
	body[len] = '\0';
	c->keep = keep && !c->p->draining;
	(void)buf_printf(out, "HTTP/1.1 %u %s\r\n", status, phrase(status));
	if (status == 407)
		(void)buf_puts(out, "Proxy-Authenticate: Basic realm=\"iterion\", charset=\"UTF-8\"\r\n"
				    "Proxy-Authenticate: Bearer realm=\"iterion\"\r\n");
	if (reason)
		(void)buf_printf(out, "X-Iterion-Reason: %s\r\n", reason);
	(void)buf_printf(out,
			 "Content-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
			 "Cache-Control: no-store\r\nConnection: %s\r\n\r\n",
			 len, c->keep ? "keep-alive" : "close");
	if (!c->is_head)
		(void)buf_add(out, body, len);
	conn_finish_reply(c);
}
