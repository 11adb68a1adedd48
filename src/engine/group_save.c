/* Groups in a checkpoint: their number, router and the branch that waits for them, what has arrived at their joins, and
 * what has ended. Which branches are under way follows from the branches themselves. */
#include "group.h"
#include "values.h"

#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdio.h>

long long group_number(const struct group *g)
{
	return g->number;
}

struct group *group_of_parent(const struct engine *en, const struct branch *b)
{
	struct group *g = en->groups;

	while (g && g->parent != b)
		g = g->next;
	return g;
}

struct group *group_by_number(const struct engine *en, long long number)
{
	struct group *g = en->groups;

	while (g && g->number != number)
		g = g->next;
	return g;
}

static json_t *save_error(const struct err *e)
{
	json_t *o = json_object();

	json_put_str(o, "kind", err_kind_name(e->kind));
	json_put_str(o, "message", e->msg);
	json_put_str(o, "hint", e->hint);
	return o;
}

json_t *groups_save(const struct engine *en, long long (*position)(const struct engine *en, const struct branch *of))
{
	json_t *list = json_array();

	for (const struct group *g = en->groups; g; g = g->next) {
		json_t *o = json_object(), *arrivals = json_array();
		for (size_t i = 0; i < g->n; i++) {
			json_t *a = json_object();
			json_put_str(a, "node_id", g->arrivals[i].node->name.s);
			large_put(en, a, "input", g->arrivals[i].input);
			(void)json_array_append_new(arrivals, a);
		}
		json_put_int(o, "number", g->number);
		json_put_str(o, "router", g->router->name.s);
		json_put_int(o, "parent", position(en, g->parent));
		json_put_int(o, "succeeded", g->succeeded);
		json_put(o, "arrivals", arrivals);
		json_put(o, "failed", json_deep_copy(g->failed));
		if (g->first_error.kind != ERR_NONE)
			json_put(o, "first_error", save_error(&g->first_error));
		(void)json_array_append_new(list, o);
	}
	return list;
}

static int damaged(struct err *e, const char *what)
{
	return err_set(e, ERR_INPUT, EPROTO, "the checkpoint's groups: %s", what);
}

static const struct dsl_node *node_of(const struct engine *en, const json_t *o, const char *key)
{
	const char *name = json_get_str(o, key);

	return name ? dsl_find_node(en->p.file, name) : NULL;
}

static int load_arrivals(struct engine *en, struct group *g, const json_t *list, struct err *e)
{
	size_t i;
	json_t *a;

	json_array_foreach(list, i, a)
	{
		const struct dsl_node *node = node_of(en, a, "node_id");
		json_t *input = NULL;
		if (!node)
			return damaged(e, "a join is not in the file any more");
		int r = large_get(en, a, "input", &input, e);
		if (r < 0)
			return r;
		g->arrivals = grow_array(g->arrivals, g->n, &g->cap, sizeof *g->arrivals);
		g->arrivals[g->n++] = (struct arrival){.node = node, .input = input ? input : json_object()};
	}
	return 0;
}

static void load_error(struct err *to, const json_t *o)
{
	const char *msg = json_get_str(o, "message"), *hint = json_get_str(o, "hint");
	enum err_kind kind = ERR_INTERNAL;

	if (!msg)
		return;
	while (kind != ERR_NONE && !str_eq(err_kind_name(kind), json_get_str(o, "kind")))
		kind--;
	to->kind = kind == ERR_NONE ? ERR_NODE : kind;
	(void)snprintf(to->msg, sizeof to->msg, "%s", msg);
	(void)snprintf(to->hint, sizeof to->hint, "%s", hint ? hint : "");
}

int groups_load(struct engine *en, const json_t *list, struct err *e)
{
	struct group **end = &en->groups;
	size_t i;
	json_t *o;

	json_array_foreach(list, i, o)
	{
		const struct dsl_node *router = node_of(en, o, "router");
		if (!router)
			return damaged(e, "a router is not in the file any more");
		struct group *g = xcalloc(1, sizeof *g);
		*end = g;
		end = &g->next;
		g->router = router;
		g->number = (unsigned)json_integer_value(json_object_get(o, "number"));
		g->succeeded = (unsigned)json_integer_value(json_object_get(o, "succeeded"));
		g->failed = json_array();
		if (json_is_array(json_object_get(o, "failed")))
			(void)json_array_extend(g->failed, json_object_get(o, "failed"));
		load_error(&g->first_error, json_object_get(o, "first_error"));
		int r = load_arrivals(en, g, json_object_get(o, "arrivals"), e);
		if (r < 0)
			return r;
	}
	return 0;
}

int groups_tie(struct engine *en, const json_t *list, struct err *e)
{
	struct group *g = en->groups;

	for (size_t i = 0; g; g = g->next, i++) {
		json_int_t at = json_integer_value(json_object_get(json_array_get(list, i), "parent"));
		struct branch *b = en->branches;
		for (; b && at > 0; at--)
			b = b->next;
		if (!b || at < 0 || b->state != BRANCH_FORKED)
			return damaged(e, "a branch is missing");
		g->parent = b;
	}
	for (const struct branch *b = en->branches; b; b = b->next)
		if (b->group)
			b->group->active++;
	return 0;
}
