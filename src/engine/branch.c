/* Branches: the tokens that walk the graph. A run begins with one, its main line; a fan-out router makes more, which
 * belong to the group of that fan-out. The list is in the order of making, which is the order in which branches get
 * their turn. */
#include "branch.h"
#include "values.h"

#include <base/json.h>
#include <base/mem.h>

#include <stdlib.h>

struct branch *branch_add(struct engine *en, char *id, const struct dsl_node *node, json_t *input)
{
	struct branch *b = xcalloc(1, sizeof *b);

	*b = (struct branch){.id = id, .node = node, .input = input};
	*en->branches_end = b;
	en->branches_end = &b->next;
	return b;
}

struct branch *branch_new(struct engine *en, char *id, struct group *g, const struct dsl_node *node, json_t *input)
{
	struct branch *b = branch_add(en, id, node, input);

	b->group = g;
	large_keep(en, node->name.s, input);
	if (id) {
		json_t *d = json_object();
		json_put_str(d, "node", node->name.s);
		json_put_str(d, "router", group_router(g)->name.s);
		engine_emit(en, "branch_started", id, NULL, d);
	}
	return b;
}

void branch_begin(struct engine *en)
{
	const struct dsl_node *entry = dsl_find_node(en->p.file, en->workflow->entry.s);

	(void)branch_new(en, NULL, NULL, entry, json_incref(en->vars));
}

void branch_remove(struct engine *en, struct branch *b)
{
	struct branch **p = &en->branches;

	while (*p != b)
		p = &(*p)->next;
	*p = b->next;
	if (en->branches_end == &b->next)
		en->branches_end = p;
	json_decref(b->input);
	json_decref(b->answers);
	json_decref(b->conversation);
	free(b->interaction);
	free(b->id);
	free(b);
}

/* Ends a branch of a group, with an event; the group decides what follows. */
static void leave(struct engine *en, struct branch *b, const struct dsl_node *join, json_t *input, const struct err *e)
{
	struct group *g = b->group;
	json_t *d = json_object();

	if (e)
		json_put_str(d, "error", e->msg);
	if (join)
		json_put_str(d, "join_node", join->name.s);
	engine_emit(en, "branch_finished", b->id, NULL, d);
	char *id = b->id;
	b->id = NULL;
	branch_remove(en, b);
	group_branch_ended(en, g, id, join, input, e);
	free(id);
}

void branch_go(struct engine *en, struct branch *b, const struct dsl_node *node, json_t *input)
{
	large_keep(en, node->name.s, input);
	if (b->group && group_is_join(en, b->group, node)) {
		leave(en, b, node, input, NULL);
		return;
	}
	json_decref(b->input);
	b->input = input;
	b->node = node;
	b->state = BRANCH_READY;
}

void branch_done(struct engine *en, struct branch *b)
{
	if (b->group)
		leave(en, b, NULL, NULL, NULL);
	else
		branch_remove(en, b);
}

void branch_failed(struct engine *en, struct branch *b, const struct err *e, bool resumable)
{
	if (b->group && group_tolerates(en, b->group, b->node))
		leave(en, b, NULL, NULL, e);
	else
		engine_end(en, resumable ? RUN_FAILED_RESUMABLE : RUN_FAILED, e, b->node->name.s);
}
