/* A non-blocking stream socket in the proxy's loop, with bounded buffers either way. */
#pragma once

#include <base/buf.h>

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum {
	SOCK_IN_MAX = 80 * 1024,   /* a request head and a little more */
	SOCK_OUT_MAX = 512 * 1024, /* hard limit; fed only while below SOCK_OUT_HIGH */
	SOCK_OUT_HIGH = 64 * 1024,
};

struct tls_state;

struct proxy_sock {
	uv_poll_t poll;
	int fd;
	int want;   /* events asked for */
	bool ahead; /* asked for an event because TLS has read ahead */
	bool eof;   /* the other side will send no more */
	bool shut;  /* our side will send no more */
	bool dead;  /* sock_free was called */
	struct buf in, out;
	struct tls_state *tls; /* it speaks TLS (tls.h): in and out hold what is said by it; NULL: it does not */
	void (*on_event)(struct proxy_sock *s, int events);
	void *owner;
};

/* Takes fd, also on failure (NULL; then it is closed). */
struct proxy_sock *sock_new(uv_loop_t *loop, int fd, void (*on_event)(struct proxy_sock *, int), void *owner);

/* Closes it; the memory goes when the loop has let go of it. No callback comes after. NULL is accepted. */
void sock_free(struct proxy_sock *s);

/* As sock_free, but the peer sees a reset: what it got is not the whole. */
void sock_reset(struct proxy_sock *s);

/* Which events (UV_READABLE, UV_WRITABLE; 0 none) to wait for. */
void sock_want(struct proxy_sock *s, int events);

/* Reads what is there while `in` holds less than limit. Returns bytes read (0: none now, or eof is set), -errno. */
int sock_fill(struct proxy_sock *s, size_t limit);

/* Writes what `out` holds. Returns 0 (look at out.len) or -errno. */
int sock_flush(struct proxy_sock *s);

/* No more bytes from us; idempotent. */
void sock_shut(struct proxy_sock *s);
