/* The table of backends that carry out agents, by name. Tool nodes have theirs without asking here. */
#include <backend/backend.h>
#include <base/mem.h>
#include <base/str.h>

const struct backend_ops *backend_find(const char *name)
{
	static const struct backend_ops *const rows[] = {&backend_tool};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(rows[i]->name, name))
			return rows[i];
	return NULL;
}
