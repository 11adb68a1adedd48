/* As much of the D-Bus wire protocol as a caller of a few methods needs (D-Bus Specification, "Message Protocol"). */
#pragma once

#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DBUS_MESSAGE_MAX = 128 * 1024 };

enum dbus_type { DBUS_CALL = 1, DBUS_REPLY = 2, DBUS_ERROR = 3, DBUS_SIGNAL = 4 };

struct dbus_call {
	uint32_t serial; /* not 0 */
	const char *destination;
	const char *path;
	const char *interface;
	const char *member;
	const char *signature; /* of the body; NULL: there is none */
};

/* The parts of a body. Alignment counts from the body's start. */
void dbus_put_u32(struct buf *body, uint32_t v);
void dbus_put_u64(struct buf *body, uint64_t v);
void dbus_put_string(struct buf *body, const char *s);
void dbus_put_signature(struct buf *body, const char *s);
/* Zeros up to a multiple of n. */
void dbus_align(struct buf *body, size_t n);
/* An array's length comes before it: where it stands, to be filled in by end. align: of its elements. */
size_t dbus_array_begin(struct buf *body, size_t align);
void dbus_array_end(struct buf *body, size_t at, size_t align);

/* Appends the whole message. Returns 0 or -ENOBUFS. */
int dbus_put_call(struct buf *to, const struct dbus_call *call, const struct buf *body)
	__attribute__((warn_unused_result));

/* A message that came. The strings point into the buffer it was read from; "" where there is none. */
struct dbus_message {
	enum dbus_type type;
	uint32_t reply_to; /* the serial it answers, 0: none */
	const char *member;
	const char *error;
	const char *signature;
	const uint8_t *body;
	size_t body_len;
};

/* Takes the message at the beginning of data apart. Returns its length, 0 when it is not all there yet, or -EPROTO. */
int dbus_parse(const void *data, size_t len, struct dbus_message *ret) __attribute__((warn_unused_result));

/* The i-th string (or object path) of a body that begins with u, s and o only; NULL when it is not there. */
const char *dbus_body_string(const struct dbus_message *m, size_t i);
