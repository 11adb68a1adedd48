/* A terminal's second screen, drawn by lines. */
#pragma once

#include <base/str.h>
#include <stdbool.h>

struct buf;

struct screen {
	struct strv shown; /* what stands there, by row */
	bool fresh;	   /* nothing is known of what stands there */
};

/* Appends to `to` the bytes that turn what is shown into these lines; nothing when they are the same. */
void screen_update(struct screen *s, const struct strv *lines, struct buf *to);
/* What is shown is unknown: after a change of size the next update draws everything. */
void screen_forget(struct screen *s);
void screen_done(struct screen *s);

/* The size of standard output; false when it has none. */
bool screen_size(unsigned *ret_columns, unsigned *ret_rows);
/* Whether this process may write to the terminal now: it is in the foreground and nobody has stopped the output. */
bool screen_is_ours(void);

/* Goes to the second screen, without cursor, line wrap and echo; and back. Again: nothing. When the process dies by a
 * signal of its own making in between, the terminal is given back too. */
void screen_enter(void);
void screen_leave(void);
