/* Routers whose way a model chooses. The backend's output names the targets: {"target": "a"}, or {"targets": ["a",
 * "b"]} when the router may take several. */
#include "branch.h"
#include "kinds.h"

#include <base/json.h>
#include <base/mem.h>

#include <errno.h>

bool route_is_llm(const struct dsl_node *n)
{
	return n->kind == DSL_ROUTER && n->mode.v == DSL_LLM;
}

const char **route_targets(const struct dsl_node *n)
{
	const char **names = xcalloc(n->n_out + 1, sizeof *names);

	for (size_t i = 0; i < n->n_out; i++)
		names[i] = n->out[i]->to.s;
	return names;
}

static int check_name(const struct dsl_node *n, const json_t *name, struct err *e)
{
	const char *s = json_string_value(name);

	for (size_t i = 0; s && i < n->n_out; i++)
		if (str_eq(n->out[i]->to.s, s))
			return 0;
	int r = err_set(e, ERR_NODE, EINVAL, "\"%.80s\" is none of its targets", s ? s : "(no name)");
	err_hint(e, "one of them is %s", n->n_out ? n->out[0]->to.s : "done");
	return r;
}

int route_check(const struct dsl_node *n, const json_t *output, struct err *e)
{
	const json_t *list = json_object_get(output, "targets");
	size_t i;
	json_t *name;
	int r = 0;

	if (!n->multi.v)
		return check_name(n, json_object_get(output, "target"), e);
	if (!json_is_array(list) || json_array_size(list) == 0) {
		r = err_set(e, ERR_NODE, EINVAL, "the output names no targets");
		err_hint(e, "it is to be {\"targets\": [NAME, …]} with at least one name");
	}
	json_array_foreach(list, i, name) if (r == 0) r = check_name(n, name, e);
	return r;
}

bool route_names(const json_t *output, const struct dsl_edge *edge)
{
	const json_t *list = json_object_get(output, "targets");
	size_t i;
	json_t *name;

	json_array_foreach(list, i, name) if (str_eq(json_string_value(name), edge->to.s)) return true;
	return str_eq(json_get_str(output, "target"), edge->to.s);
}
