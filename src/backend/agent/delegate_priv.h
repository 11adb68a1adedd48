/* What the two halves of a delegate's life offer each other. */
#pragma once

#include "delegate.h"

struct agent_child_end;

/* --- delegate.c --- */

/* Starts the program, with what the next start has to be. */
void delegate_launch(struct node_exec *x);

/* Tells the engine what was used so far; the node may be cancelled by that when it goes on. */
void delegate_tell_usage(struct node_exec *x, bool goes_on);

/* --- delegate_end.c --- */

/* The program of a start ended. */
void delegate_ended(void *arg, const struct agent_child_end *end);
/* The output or the error stands: cleans up, and answers. */
void delegate_finish(struct node_exec *x);
/* The same with the error, which gets the node's name. */
void delegate_fail(struct node_exec *x);
void delegate_free(struct node_exec *x);
