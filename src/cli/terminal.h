/* A terminal for a program in a sandbox, shown on the user's own. */
#pragma once

#include <uv.h>

struct err;
struct session;
struct terminal;

/* Makes the pair in a started session. on_resize is called when the user's terminal changes its size, and once when it
 * starts. */
int terminal_open(struct session *session, uv_loop_t *loop,
		  void (*on_resize)(void *arg, unsigned rows, unsigned columns), void *arg, struct terminal **ret,
		  struct err *e) __attribute__((warn_unused_result));

/* The program's side, open until terminal_start. */
int terminal_inner(const struct terminal *t);

/* Once the program has its side: ours goes to raw mode and the bytes begin to move. */
void terminal_start(struct terminal *t);

/* The program has ended: shows what it left, gives the user's terminal back its mode, closes the handles; the loop must
 * run once more before terminal_free. NULL is accepted. */
void terminal_finish(struct terminal *t);
void terminal_free(struct terminal *t);
