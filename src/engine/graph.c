/* Questions about the workflow's graph. The walks keep their own stack, so the depth of a graph costs no C stack. */
#include "branch.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <stdlib.h>

void graph_mark(const struct dsl_node *from, const struct dsl_node *avoid, unsigned char *marks)
{
	auto_free const struct dsl_node **stack = NULL;
	size_t n = 0, cap = 0;

	if (from == avoid || marks[from->index])
		return;
	marks[from->index] = 1;
	stack = grow_array(stack, n, &cap, sizeof *stack);
	stack[n++] = from;
	while (n > 0) {
		const struct dsl_node *node = stack[--n];
		for (size_t i = 0; i < node->n_out; i++) {
			const struct dsl_node *next = node->out[i]->dst;
			if (!next || next == avoid || marks[next->index])
				continue;
			marks[next->index] = 1;
			stack = grow_array(stack, n, &cap, sizeof *stack);
			stack[n++] = next;
		}
	}
}
