/* Conversations that go on from one agent to the next.
 *
 * A branch remembers the one of its latest agent; the branches of a fan-out begin with their router's. It is worth
 * something only to the backend that made it, which also has whatever it needs to find it again: here it is an id, and
 * an opaque value beside it. Where branches meet there is no such thing as the latest, which the checks of the file
 * refuse beforehand. */
#include "conversation.h"

#include <base/json.h>
#include <base/str.h>

#include <errno.h>

void conversation_note(struct branch *b, const struct backend_ops *ops, const json_t *details)
{
	const char *id = json_get_str(details, "_session_id");
	json_t *state = json_object_get(details, "_session_state");

	if (!ops || !id)
		return;
	json_decref(b->conversation);
	b->conversation = json_object();
	json_put_str(b->conversation, "backend", ops->name);
	json_put_str(b->conversation, "id", id);
	json_put_str(b->conversation, "node", b->node->name.s);
	if (state)
		json_put(b->conversation, "state", json_incref(state));
}

static int missing(const struct branch *b, const struct backend_ops *ops, struct err *e)
{
	const char *other = json_get_str(b->conversation, "backend");
	const char *word = b->node->session.v == DSL_FORK ? "fork" : "inherit";

	if (other)
		(void)err_set(e, ERR_NODE, ENOENT, "node %s: session: %s, but %s before it has the backend %s, not %s",
			      b->node->name.s, word, json_get_str(b->conversation, "node"), other, ops->name);
	else
		(void)err_set(e, ERR_NODE, ENOENT, "node %s: session: %s, but no agent before it left a conversation",
			      b->node->name.s, word);
	err_hint(e, "write `session: inherit_if_available`, or put an agent of the same backend before the node");
	return -ENOENT;
}

int conversation_choose(const struct branch *b, const struct backend_ops *ops, struct agent_task *a, struct err *e)
{
	const enum dsl_session mode = (enum dsl_session)b->node->session.v;

	if (mode != DSL_INHERIT && mode != DSL_INHERIT_IF_AVAILABLE && mode != DSL_FORK)
		return 0;
	a->fork_session = mode == DSL_FORK;
	a->session_optional = mode == DSL_INHERIT_IF_AVAILABLE;
	a->session_id = json_get_str(b->input, "_session_id");
	if (a->session_id)
		return 0;
	if (b->conversation && str_eq(json_get_str(b->conversation, "backend"), ops->name)) {
		a->session_id = json_get_str(b->conversation, "id");
		a->session_state = json_object_get(b->conversation, "state");
		return 0;
	}
	return a->session_optional ? 0 : missing(b, ops, e);
}
