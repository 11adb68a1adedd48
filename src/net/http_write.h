/* Heads as they go on: without what concerns one connection only, with framing written anew. Pure. */
#pragma once

#include "http_head.h"

#include <stdbool.h>

struct buf;

enum http_body { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_UNTIL_CLOSE };

/* The head of a request to an origin server. host is what the Host header says; path may be empty. Returns 0 or
 * -ENOBUFS. */
int http_write_request(struct buf *to, const struct http_head *h, const char *host, struct http_text path);

/* How the body of a response is delimited (RFC 9112 §6.3). head_request: it answers a HEAD. */
enum http_body http_response_body(const struct http_head *h, bool head_request);

/* The head of a response to a client of HTTP/1.client_minor. keep: the connection goes on after it. */
int http_write_response(struct buf *to, const struct http_head *h, unsigned client_minor, bool keep);
