/* A socket that speaks TLS behind the face of one that does not: `in` and `out` hold what was meant, and the library
 * reads and writes the descriptor by a BIO of ours. Nothing is buffered between the library and the socket, so an empty
 * `out` is written, as everywhere else; what the library read ahead shows in tls_sock_pending, for no event tells of
 * it. */
#include "proxy_sock.h"
#include "tls.h"
#include "tls_priv.h"

#include <base/mem.h>

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { RECORD = 16 * 1024 };

static int bio_read(BIO *b, char *to, int len)
{
	struct proxy_sock *s = BIO_get_data(b);
	struct buf *raw = &s->tls->raw;
	ssize_t n;

	BIO_clear_retry_flags(b);
	if (raw->len) {
		size_t take = MIN(raw->len, (size_t)len);
		memcpy(to, raw->data, take);
		buf_consume(raw, take);
		return (int)take;
	}
	do
		n = recv(s->fd, to, (size_t)len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		BIO_set_retry_read(b);
	if (n == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static int bio_write(BIO *b, const char *data, int len)
{
	const struct proxy_sock *s = BIO_get_data(b);
	ssize_t n;

	BIO_clear_retry_flags(b);
	do
		n = send(s->fd, data, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		BIO_set_retry_write(b);
	return (int)n;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)num;
	(void)ptr;
	if (cmd == BIO_CTRL_EOF)
		return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
	return cmd == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "iterion socket");
	if (!method)
		return;
	(void)BIO_meth_set_read(method, bio_read);
	(void)BIO_meth_set_write(method, bio_write);
	(void)BIO_meth_set_ctrl(method, bio_ctrl);
}

int tls_state_attach(struct proxy_sock *s, SSL *ssl, unsigned alpn)
{
	if (!method)
		make_method();
	BIO *b = method ? BIO_new(method) : NULL;

	if (!b)
		return -EIO;
	s->tls = xcalloc(1, sizeof *s->tls);
	s->tls->ssl = ssl;
	s->tls->alpn = alpn;
	s->tls->raw = s->in;
	s->in = BUF_INIT(SOCK_IN_MAX);
	BIO_set_data(b, s);
	BIO_set_init(b, 1);
	SSL_set_bio(ssl, b, b);
	(void)SSL_set_app_data(ssl, s->tls);
	return 0;
}

/* The words for a failure: what the certificate check found says more than that it failed. */
static void explain(SSL *ssl, int error, char *why, size_t size)
{
	long verdict = SSL_is_server(ssl) ? X509_V_OK : SSL_get_verify_result(ssl);
	unsigned long code = ERR_peek_last_error();
	const char *words = code ? ERR_reason_error_string(code) : NULL;

	if (verdict != X509_V_OK)
		(void)snprintf(why, size, "its certificate is not accepted: %s",
			       X509_verify_cert_error_string(verdict));
	else if (words)
		(void)snprintf(why, size, "the TLS hand-shake failed: %s", words);
	else
		(void)snprintf(why, size, "the connection was closed during the TLS hand-shake%s%s",
			       error == SSL_ERROR_SYSCALL && errno ? ": " : "",
			       error == SSL_ERROR_SYSCALL && errno ? strerror(errno) : "");
}

int tls_sock_handshake(struct proxy_sock *s, int *ret_want, char *why, size_t why_size)
{
	SSL *ssl = s->tls->ssl;

	ERR_clear_error();
	errno = 0;
	int r = SSL_do_handshake(ssl);
	if (r == 1)
		return 1;
	int error = SSL_get_error(ssl, r);
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
		*ret_want = error == SSL_ERROR_WANT_READ ? UV_READABLE : UV_WRITABLE;
		return 0;
	}
	explain(ssl, error, why, why_size);
	ERR_clear_error();
	return -EIO;
}

bool tls_sock_is_h2(const struct proxy_sock *s)
{
	const unsigned char *name = NULL;
	unsigned len = 0;

	SSL_get0_alpn_selected(s->tls->ssl, &name, &len);
	return len == 2 && memcmp(name, "h2", 2) == 0;
}

/* Why a read gave nothing: 0 (none now, or the clean end) or -errno. */
static int read_ended(struct proxy_sock *s, int r)
{
	switch (SSL_get_error(s->tls->ssl, r)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		s->eof = true;
		return 0;
	default:
		/* Without the peer's word of farewell nobody knows whether something was cut off. */
		s->eof = true;
		ERR_clear_error();
		return -ECONNRESET;
	}
}

int tls_sock_fill(struct proxy_sock *s, size_t limit)
{
	int total = 0;

	while (!s->eof && s->in.len < limit) {
		size_t room = MIN(limit - s->in.len, (size_t)RECORD);
		if (buf_reserve(&s->in, room) < 0)
			return -ENOBUFS;
		ERR_clear_error();
		int n = SSL_read(s->tls->ssl, s->in.data + s->in.len, (int)room);
		if (n <= 0) {
			int r = read_ended(s, n);
			/* What came before the break is handed on first; the break shows at the next call. */
			if (r < 0 && total > 0)
				s->eof = false;
			return r < 0 && total == 0 ? r : total;
		}
		s->in.len += (size_t)n;
		s->in.data[s->in.len] = '\0';
		total += n;
	}
	return total;
}

int tls_sock_flush(struct proxy_sock *s)
{
	while (s->out.len > 0) {
		ERR_clear_error();
		int n = SSL_write(s->tls->ssl, s->out.data, (int)MIN(s->out.len, (size_t)RECORD));
		if (n <= 0) {
			int error = SSL_get_error(s->tls->ssl, n);
			ERR_clear_error();
			return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -EPIPE;
		}
		buf_consume(&s->out, (size_t)n);
	}
	return 0;
}

void tls_sock_shut(struct proxy_sock *s)
{
	ERR_clear_error();
	if (SSL_is_init_finished(s->tls->ssl))
		(void)SSL_shutdown(s->tls->ssl);
	ERR_clear_error();
}

bool tls_sock_pending(const struct proxy_sock *s)
{
	return s->tls->raw.len > 0 || SSL_pending(s->tls->ssl) > 0;
}

void tls_sock_free(struct proxy_sock *s)
{
	SSL_free(s->tls->ssl);
	buf_done(&s->tls->raw);
	free(s->tls);
	s->tls = NULL;
}
