/* One request: what libcurl is told, and what it tells.
 *
 * The server is not trusted: heads are bounded in bytes and fields, bodies go on in pieces to somebody who bounds them,
 * and nothing that it says (a redirect, a cookie) makes libcurl do anything more. TLS is always verified. Messages name
 * scheme, host and port of the URL only, since paths and queries hold tokens. */
#include "priv.h"

#include <base/mem.h>
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *http_field(const struct http_head *h, const char *name)
{
	size_t len = strlen(name);

	for (const char *const *f = h->fields; f && *f; f++)
		if (strncasecmp(*f, name, len) == 0 && (*f)[len] == ':')
			return *f + len + 1 + strspn(*f + len + 1, " \t");
	return NULL;
}

static int bad_head(struct http_request *r, const char *what)
{
	return err_set(&r->failure, ERR_NETWORK, EMSGSIZE, "%s: its answer's head has more than %s", r->target, what);
}

static bool is_status_line(const char *line)
{
	return strncmp(line, "HTTP/", 5) == 0;
}

/* libcurl checked the line already; "HTTP/1.1 200 OK", "HTTP/2 200 ". */
static int status_of(const char *line)
{
	const char *space = strchr(line, ' ');

	return space ? (int)strtol(space, NULL, 10) : 0;
}

/* One line of a head, or the empty one at its end. */
static int take_line(struct http_request *r, const char *data, size_t len)
{
	while (len > 0 && strchr("\r\n \t", data[len - 1]))
		len--;
	char *line = xstrndup(data, len);
	if (is_status_line(line)) {
		strv_done(&r->fields);
		r->status = status_of(line);
		r->head_len = 0;
		free(line);
	} else if (len > 0) {
		strv_take(&r->fields, line);
	} else {
		free(line);
		const struct http_head h = {.status = r->status, .fields = (const char *const *)r->fields.v};
		r->head_told = r->status >= 200;
		if (r->head_told && r->cb.on_head)
			r->cb.on_head(r->cb.arg, &h);
	}
	return r->fields.n > HTTP_HEADERS_MAX ? bad_head(r, "256 fields") : 0;
}

/* Any other number than what came ends the transfer. */
enum { STOP = 0 };

static size_t on_header(const char *data, size_t size, size_t n, void *arg)
{
	struct http_request *r = arg;
	size_t len = size * n;

	if (r->cancelled)
		return STOP;
	(void)uv_timer_again(&r->idle);
	r->head_len += len;
	int bad = r->head_len > HTTP_HEAD_MAX ? bad_head(r, "64 KiB") : 0;
	/* What comes behind the body are trailers, which nobody asked for. */
	if (bad == 0 && !r->head_told)
		bad = take_line(r, data, len);
	return bad || r->cancelled ? STOP : len;
}

static size_t on_body(const char *data, size_t size, size_t n, void *arg)
{
	struct http_request *r = arg;
	size_t len = size * n;

	if (r->cancelled)
		return STOP;
	(void)uv_timer_again(&r->idle);
	if (r->cb.on_data && len > 0)
		r->cb.on_data(r->cb.arg, data, len);
	return r->cancelled ? STOP : len;
}

static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct http_request *r = arg;

	(void)purpose;
	if (r->check_address && r->check_address(r->cb.arg, &a->addr, a->addrlen, &r->failure) < 0)
		return CURL_SOCKET_BAD;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int check_url(struct http_request *r, const char *url, struct err *e)
{
	const char *host = strncasecmp(url, "https://", 8) == 0	 ? url + 8
			   : strncasecmp(url, "http://", 7) == 0 ? url + 7
								 : NULL;

	if (!host || !*host || strpbrk(url, " \t\r\n")) {
		int bad = err_set(e, ERR_INPUT, EINVAL, "%.200s: no URL of http or https", url);
		err_hint(e, "write https://HOST/PATH");
		return bad;
	}
	size_t len = strcspn(host, "/?#");
	const char *at = memchr(host, '@', len);
	if (at) {
		int bad = err_set(e, ERR_INPUT, EINVAL, "a URL for %.200s holds a user and password",
				  r->target ? r->target : "a request");
		err_hint(e, "leave them out: keys are given by environment variables");
		return bad;
	}
	r->target = xasprintf("%.*s%.*s", (int)(host - url), url, (int)MIN(len, (size_t)300), host);
	return 0;
}

static int add_lines(const struct http_request *r, const char *const *from, struct curl_slist **to, struct err *e)
{
	for (; from && *from; from++) {
		if (strpbrk(*from, "\r\n"))
			return err_set(e, ERR_INPUT, EINVAL, "%s: a header field of the request has a line break in it",
				       r->target);
		struct curl_slist *grown = r->h->curl->slist_append(*to, *from);
		if (!grown)
			return err_sys(e, ENOMEM, "%s: prepare the request", r->target);
		*to = grown;
	}
	return 0;
}

static void set_method(struct http_request *r, const struct http_opts *o)
{
	const struct curl_calls *c = r->h->curl;

	if (o->body) {
		r->body = xmemdup(o->body, o->body_len ? o->body_len : 1);
		(void)c->easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)o->body_len);
		(void)c->easy_setopt(r->easy, CURLOPT_POSTFIELDS, r->body);
	}
	if (o->method)
		(void)c->easy_setopt(r->easy, CURLOPT_CUSTOMREQUEST, o->method);
}

static void set_callbacks(struct http_request *r)
{
	const struct curl_calls *c = r->h->curl;

	(void)c->easy_setopt(r->easy, CURLOPT_PRIVATE, (void *)r);
	(void)c->easy_setopt(r->easy, CURLOPT_ERRORBUFFER, r->reason);
	(void)c->easy_setopt(r->easy, CURLOPT_HEADERFUNCTION, on_header);
	(void)c->easy_setopt(r->easy, CURLOPT_HEADERDATA, (void *)r);
	(void)c->easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, on_body);
	(void)c->easy_setopt(r->easy, CURLOPT_WRITEDATA, (void *)r);
	(void)c->easy_setopt(r->easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
	(void)c->easy_setopt(r->easy, CURLOPT_OPENSOCKETDATA, (void *)r);
}

static void set_rules(struct http_request *r, const struct http_opts *o)
{
	const struct curl_calls *c = r->h->curl;
	long connect_ms = (long)(o->connect_ms ? o->connect_ms : HTTP_CONNECT_MS);

	(void)c->easy_setopt(r->easy, CURLOPT_URL, o->url);
	(void)c->easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
	(void)c->easy_setopt(r->easy, CURLOPT_USERAGENT, "iterion/" ITERION_VERSION);
	(void)c->easy_setopt(r->easy, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
	/* A request that is cancelled does not wait for the thread that asks DNS. */
	(void)c->easy_setopt(r->easy, CURLOPT_QUICK_EXIT, 1L);
#endif
	(void)c->easy_setopt(r->easy, CURLOPT_FOLLOWLOCATION, 0L);
	(void)c->easy_setopt(r->easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	(void)c->easy_setopt(r->easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
	(void)c->easy_setopt(r->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)c->easy_setopt(r->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	(void)c->easy_setopt(r->easy, CURLOPT_SSL_VERIFYPEER, 1L);
	(void)c->easy_setopt(r->easy, CURLOPT_SSL_VERIFYHOST, 2L);
	if (r->h->ca_file)
		(void)c->easy_setopt(r->easy, CURLOPT_CAINFO, r->h->ca_file);
	if (r->resolve)
		(void)c->easy_setopt(r->easy, CURLOPT_RESOLVE, r->resolve);
	if (o->direct)
		(void)c->easy_setopt(r->easy, CURLOPT_PROXY, "");
	/* A kept connection was dialled for a request with other rules. */
	if (o->check_address)
		(void)c->easy_setopt(r->easy, CURLOPT_FRESH_CONNECT, 1L);
}

int request_prepare(struct http_request *r, const struct http_opts *o, struct err *e)
{
	/* An empty Expect: a large body is sent at once, without waiting for a 100 that few servers send. */
	static const char *const always[] = {"Expect:", NULL};
	int bad = check_url(r, o->url, e);

	if (bad == 0)
		bad = add_lines(r, o->headers, &r->headers, e);
	if (bad == 0)
		bad = add_lines(r, always, &r->headers, e);
	if (bad == 0)
		bad = add_lines(r, o->resolve, &r->resolve, e);
	if (bad < 0)
		return bad;
	r->easy = r->h->curl->easy_init();
	if (!r->easy)
		return err_sys(e, ENOMEM, "%s: prepare the request", r->target);
	r->idle_ms = o->idle_ms ? o->idle_ms : HTTP_IDLE_MS;
	r->total_ms = o->total_ms;
	r->check_address = o->check_address;
	set_callbacks(r);
	set_rules(r, o);
	set_method(r, o);
	return 0;
}

static int errnum_of(CURLcode code)
{
	switch ((int)code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return EHOSTUNREACH;
	case CURLE_COULDNT_CONNECT:
		return ECONNREFUSED;
	case CURLE_OPERATION_TIMEDOUT:
		return ETIMEDOUT;
	case CURLE_PEER_FAILED_VERIFICATION:
		return EKEYREJECTED;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CACERT_BADFILE:
		return EPROTO;
	case CURLE_URL_MALFORMAT:
		return EINVAL;
	default:
		return ECONNRESET;
	}
}

static void hint_for(CURLcode code, struct err *e)
{
	if (code == CURLE_SSL_CACERT_BADFILE)
		err_hint(e, "SSL_CERT_FILE names no file of certificates that can be read: correct or unset it");
	else if (code == CURLE_PEER_FAILED_VERIFICATION)
		err_hint(e, "its certificate is not signed by an authority that this system trusts: install the "
			    "authority's certificate, or name a file of them in SSL_CERT_FILE");
	else if (code == CURLE_COULDNT_RESOLVE_HOST)
		err_hint(e, "look whether the host's name is right and the network is up; behind a company's proxy set "
			    "HTTPS_PROXY");
	else if (code == CURLE_COULDNT_RESOLVE_PROXY)
		err_hint(e, "HTTPS_PROXY or HTTP_PROXY names a proxy that cannot be found");
	else
		err_hint(e, "look whether the server is up and the network lets this machine reach it");
}

int request_outcome(const struct http_request *r, CURLcode code, struct err *e)
{
	if (r->failure.kind != ERR_NONE && code != CURLE_OK) {
		err_copy(e, &r->failure);
		return -r->failure.errnum;
	}
	if (code == CURLE_OK)
		return 0;
	int bad = err_set(e, ERR_NETWORK, errnum_of(code), "%s: %s", r->target,
			  r->reason[0] ? r->reason : r->h->curl->easy_strerror(code));
	hint_for(code, e);
	return bad;
}

void request_free(struct http_request *r)
{
	if (r->easy)
		r->h->curl->easy_cleanup(r->easy);
	/* They may hold keys. */
	for (const struct curl_slist *l = r->headers; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	if (r->headers)
		r->h->curl->slist_free_all(r->headers);
	if (r->resolve)
		r->h->curl->slist_free_all(r->resolve);
	strv_done(&r->fields);
	free(r->body);
	free(r->target);
	free(r);
}
