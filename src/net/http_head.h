/* Heads of HTTP/1.x messages: bytes in, fields out. Pure: no input or output, no allocation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	HTTP_HEAD_MAX = 64 * 1024,
	HTTP_MAX_FIELDS = 256,
	HTTP_MAX_CONNECTION_TOKENS = 32,
};

/* Points into the head; not NUL-terminated. */
struct http_text {
	const char *p;
	size_t len;
};

struct http_field {
	struct http_text name, value;
};

struct http_head {
	struct http_text method, target; /* of a request */
	unsigned status;		 /* of a response */
	struct http_text reason;
	unsigned minor; /* of the version, 1.minor */
	size_t n_fields;
	struct http_field fields[HTTP_MAX_FIELDS];
	/* What the fields say */
	struct http_text host; /* p is NULL when missing */
	bool chunked;
	bool has_length;
	uint64_t length;
	bool keep_alive; /* after this message, by version and Connection */
	bool websocket;	 /* Connection names Upgrade, and Upgrade is websocket */
	size_t n_connection;
	struct http_text connection[HTTP_MAX_CONNECTION_TOKENS]; /* what Connection names */
};

/* Finds the end of a head in bytes that arrive bit by bit; zero it for a new head. */
struct http_scan {
	size_t pos;
	unsigned blank; /* empty lines before the first */
	bool cr, in_line, begun;
};

/* data holds everything from the start of the head. Returns the length of the head with its empty line, 0 when more is
 * needed, -EMSGSIZE past HTTP_HEAD_MAX, -EBADMSG with *why (static) for a NUL, a CR or an LF alone. */
ssize_t http_scan(struct http_scan *s, const char *data, size_t len, const char **why);

/* Parses a whole request head. Returns 0, or the status to refuse it with (400, 431, 505) and *why (static). */
unsigned http_parse_request(const char *data, size_t len, struct http_head *ret, const char **why);

/* Parses a whole response head. Returns 0 or -EBADMSG with *why. */
int http_parse_response(const char *data, size_t len, struct http_head *ret, const char **why);

/* Splits an absolute-form target; path begins with "/" or "?", or is empty. 0 or -EINVAL with *why. */
int http_absolute_target(struct http_text target, struct http_text *ret_authority, struct http_text *ret_path,
			 const char **why);

/* Equality without regard to case of ASCII letters; word is lower case. */
bool http_is(struct http_text t, const char *word);

/* The first field of that name (lower case), or NULL. */
const struct http_field *http_find(const struct http_head *h, const char *name);

/* Whether a field concerns only one connection: RFC 9110 §7.6.1, Proxy-*, and what Connection names. */
bool http_hop_by_hop(const struct http_head *h, struct http_text name);

/* Takes the next element of a comma-separated list; false at its end. */
bool http_list_next(struct http_text *rest, struct http_text *ret);
