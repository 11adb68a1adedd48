/* The sandboxes of nodes that have a block of their own, as the engine wants them. A node without one has the run's,
 * and which nodes share a sandbox is the engine's to find out. */
#include "node_sandboxes.h"

#include <base/json.h>
#include <base/mem.h>
#include <dsl/ast.h>

#include <stdlib.h>

int node_sandboxes_resolve(const struct sandbox_flags *f, const struct dsl_file *file, const json_t *drivers,
			   const char *workspace, struct node_sandboxes *ret, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < file->n_nodes; i++)
		n += file->nodes[i]->sandbox != NULL;
	if (n == 0)
		return 0;
	ret->choices = xcalloc(n, sizeof *ret->choices);
	ret->v = xcalloc(file->n_nodes, sizeof *ret->v);
	for (size_t i = 0; i < file->n_nodes; i++) {
		if (!file->nodes[i]->sandbox)
			continue;
		struct sandbox_choice *c = &ret->choices[ret->n_choices++];
		struct sandbox_flags flags = *f;
		if (!flags.driver)
			flags.driver = json_get_str(drivers, file->nodes[i]->name.s);
		int r = sandbox_flags_resolve_node(&flags, file, file->nodes[i], workspace, c, e);
		if (r < 0)
			return r;
		ret->v[i] = (struct engine_sandbox){.spec = &c->resolved.spec, .driver = c->driver};
	}
	return 0;
}

void node_sandboxes_done(struct node_sandboxes *s)
{
	for (size_t i = 0; i < s->n_choices; i++)
		sandbox_choice_done(&s->choices[i]);
	free(s->choices);
	free(s->v);
	*s = (struct node_sandboxes){0};
}
