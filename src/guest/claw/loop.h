/* The agent loop: what the launcher sends, to what is sent back. */
#pragma once

#include "wire.h"

struct loop;
struct procs;

struct loop *loop_new(struct react *r, struct procs *p);
/* Ends every tool that runs. */
void loop_free(struct loop *l);
/* Before anything is fed. */
void loop_set_wire(struct loop *l, struct wire *w);

void loop_envelope(struct loop *l, const struct envelope *env);
/* What was said so far is written. */
void loop_flushed(struct loop *l);
/* What came in is no envelope: the task fails. */
void loop_bad(struct loop *l, const struct err *e);

/* Whether the last word was said, and the process's exit code then. */
bool loop_over(const struct loop *l, int *ret_code);
