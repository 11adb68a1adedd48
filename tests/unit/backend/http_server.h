/* A server for tests on the test's own loop: it answers each request with the next of a list of raw answers. */
#pragma once

#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct http_answer {
	const char *bytes; /* head and body; NULL: closes without a word */
	size_t cut;	   /* so many bytes at a time, each in a turn of the loop of its own; 0: all at once */
	bool close;	   /* closes behind it */
	bool hang;	   /* says nothing more and keeps the connection */
};

struct http_server {
	uv_loop_t *loop;
	uv_tcp_t tcp;
	unsigned port;
	const struct http_answer *answers; /* in turn; the last one again when they are used up */
	size_t n_answers;
	unsigned requests, connections;
	struct buf seen; /* every request, head and body, one after the other */
	void (*on_request)(void *arg);
	void *arg;
};

/* Listens on 127.0.0.1. */
void http_server_start(struct http_server *s, uv_loop_t *loop, const struct http_answer *answers, size_t n);
/* Stops and waits, on the loop, for what belongs to it. */
void http_server_stop(struct http_server *s);
/* "http://127.0.0.1:PORT" and the path; the caller frees. */
char *http_server_url(const struct http_server *s, const char *path);
