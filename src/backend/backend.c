/* The table of backends that carry out agents, by name. Tool nodes have theirs without asking here. */
#include <backend/backend.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>

static const struct backend_ops *rows[BACKENDS_MAX] = {&backend_claude_code, &backend_codex, &backend_claw};
static size_t n_rows = 3;

const struct backend_ops *backend_find(const char *name)
{
	for (size_t i = 0; i < n_rows; i++)
		if (str_eq(rows[i]->name, name))
			return rows[i];
	return NULL;
}

void backend_register(const struct backend_ops *ops)
{
	size_t i = 0;

	while (i < n_rows && !str_eq(rows[i]->name, ops->name))
		i++;
	if (i == BACKENDS_MAX)
		abort();
	rows[i] = ops;
	if (i == n_rows)
		n_rows++;
}
