/* What an agent said and heard, for an agent behind it that goes on with it (session: inherit and the like). */
#pragma once

#include "branch.h"

/* Keeps what an agent of the branch left: the details _session_id and _session_state of its end, with the name of its
 * backend. Details without an id change nothing. */
void conversation_note(struct branch *b, const struct backend_ops *ops, const json_t *details);

/* Fills in which conversation the branch's node has to go on with, as its session: property says and its input's
 * _session_id, which comes first. Everything is borrowed from the branch. 0, or -ENOENT when there must be one and is
 * not. */
int conversation_choose(const struct branch *b, const struct backend_ops *ops, struct agent_task *a, struct err *e)
	__attribute__((warn_unused_result));
