/* HTTP and HTTPS on the run's loop, for what is asked of model providers, tool servers, registries and the web. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

struct err;
struct http;
struct http_request;

enum {
	HTTP_CONNECT_MS = 30 * 1000,  /* until the connection, with TLS, stands */
	HTTP_IDLE_MS = 5 * 60 * 1000, /* nothing came for so long */
	HTTP_HEAD_MAX = 64 * 1024,    /* bytes of an answer's head */
	HTTP_HEADERS_MAX = 256,	      /* its fields */
};

/* One answer's head; borrowed during the call. */
struct http_head {
	int status;
	const char *const *fields; /* "Name: value", NULL-terminated */
};
/* The value of a field without white space around it; NULL: not there. Names differ in case at will. */
const char *http_field(const struct http_head *h, const char *name);

struct http_opts {
	const char *method;	    /* NULL: POST with a body, else GET */
	const char *url;	    /* http:// or https:// */
	const char *const *headers; /* "Name: value", NULL-terminated, or NULL */
	const char *body;	    /* NULL: none */
	size_t body_len;
	uint64_t connect_ms, idle_ms; /* 0: as above */
	uint64_t total_ms;	      /* for the whole; 0: no bound */
	bool direct;		      /* without the proxy that the user's environment names */
	const char *const *resolve;   /* "HOST:PORT:ADDRESS" that come before DNS, or NULL */
	/* Asked of every address before it is dialled: 0, or -errno with why not (then the next one is tried, and the
	 * request fails with e when none is left). May be NULL. For requests that are direct. */
	int (*check_address)(void *arg, const struct sockaddr *sa, socklen_t len, struct err *e);
};

/* All are called from the loop, never from within http_start. */
struct http_callbacks {
	/* Once, unless the request fails before: interim answers (1xx) are not told. May be NULL. */
	void (*on_head)(void *arg, const struct http_head *h);
	/* As it comes, in pieces of any size. May be NULL. */
	void (*on_data)(void *arg, const char *data, size_t len);
	/* Once, the last call: e is NULL when the whole answer came, whatever its status. The request is gone then. */
	void (*on_done)(void *arg, const struct err *e);
	void *arg;
};

/* A client that keeps connections for the next request. env (NULL-terminated; only looked at here) is the user's:
 * SSL_CERT_FILE names other authorities than the system's. Cheap: libcurl is loaded by the first request. */
struct http *http_new(uv_loop_t *loop, const char *const *env) __attribute__((returns_nonnull));

/* Ends what is under way without a word to anybody, and frees it; closed (may be NULL) is called once, later, when the
 * loop has nothing of it left. */
void http_close(struct http *h, void (*closed)(void *arg), void *arg);

/* Begins a request; everything in o is copied. Redirects are not followed: they are answers like others. Returns 0, or
 * -errno when it cannot even begin (no libcurl, a bad URL), and nobody is called. */
int http_start(struct http *h, const struct http_opts *o, const struct http_callbacks *cb, struct http_request **ret,
	       struct err *e) __attribute__((warn_unused_result));

/* Ends it now: no callback comes any more, and the request is gone. May be called from its own callbacks, but not once
 * on_done was called. */
void http_cancel(struct http_request *r);
