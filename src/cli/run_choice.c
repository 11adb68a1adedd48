/* Which run a command speaks of. A run that does not exist is bad input, whichever layer noticed. */
#include "run_choice.h"

#include <base/err.h>
#include <base/mem.h>
#include <store/read.h>

#include <errno.h>

static int newest(const char *store, char **ret_id, struct err *e)
{
	struct store_entry *runs;
	size_t n;
	int r = store_list(store, &runs, &n, e);

	if (r < 0)
		return r;
	if (n) {
		*ret_id = xstrdup(runs[0].id);
	} else {
		r = err_set(e, ERR_INPUT, ENOENT, "find the newest run: the store %s has none", store);
		err_hint(e, "Start one with `iterion run FILE`, or name another store with --store-dir.");
	}
	store_list_free(runs, n);
	return r;
}

int run_choose(const char *store, const char *what, char **ret_id, struct err *e)
{
	if (!what)
		return newest(store, ret_id, e);
	int r = store_find_run(store, what, ret_id, e);
	if (r == -ENOENT || r == -EINVAL)
		err_set_kind(e, ERR_INPUT);
	err_hint(e, "`iterion inspect` lists the runs of a store; --store-dir names another one.");
	return r;
}
