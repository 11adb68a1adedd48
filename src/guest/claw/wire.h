/* The runner's side of the envelopes (docs/internals/claw-protocol.md): lines in, lines out. */
#pragma once

#include "jout.h"

struct react;
struct wire;

enum { WIRE_LINE = 4 * 1024 * 1024 }; /* the longest line, its newline included */

/* One envelope from the launcher; valid during the call. */
struct envelope {
	char *type;
	char *id; /* NULL when there is none */
	struct jv data;
};

/* Reads one line (without its newline) as an envelope: 0, or -EPROTO with what is wrong. On success the document and
 * the two strings are the caller's. */
int envelope_parse(const char *line, size_t len, struct jdoc **ret_doc, struct envelope *ret, struct err *e)
	__attribute__((warn_unused_result));

struct wire_cb {
	void (*on_envelope)(void *arg, const struct envelope *env);
	/* The line was too long or malformed: nothing more is read. */
	void (*on_bad)(void *arg, const struct err *e);
	/* The launcher is gone: end of stdin, or stdout is closed. */
	void (*on_end)(void *arg);
	/* Everything that was queued is written. */
	void (*on_flushed)(void *arg);
};

/* Watches both descriptors, which stay the caller's; makes them non-blocking. */
struct wire *wire_new(struct react *r, int in, int out, const struct wire_cb *cb, void *arg);
void wire_free(struct wire *w);

/* Starts an envelope: the caller writes the members of data. id may be NULL. Then wire_send closes and queues it: 0, or
 * -ENOBUFS when it is longer than a line may be (nothing is sent). */
struct jout *wire_open(struct wire *w, const char *type, const char *id);
int wire_send(struct wire *w) __attribute__((warn_unused_result));
/* For an envelope that is small by its making. */
void wire_send_small(struct wire *w);
/* Whether something is queued. */
bool wire_waits(const struct wire *w);
/* Writes what waits, blocking; for the end. 0 or -errno. */
int wire_drain(struct wire *w) __attribute__((warn_unused_result));
