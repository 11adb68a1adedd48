/* Where a command works. Paths are resolved here once; the layers below get absolute ones and never look at the current
 * folder or the environment. */
#include "place.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <store/locate.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int place_workspace(const char *dir, char **ret, struct err *e)
{
	auto_free char *real = realpath(dir ? dir : ".", NULL);
	struct stat st;
	int r;

	if (!real) {
		r = err_sys(e, errno, "workspace %s", dir ? dir : "(the current folder)");
		err_set_kind(e, ERR_INPUT);
		err_hint(e, "Name a folder that exists with --workspace DIR; iterion does not create it.");
		return r;
	}
	if (stat(real, &st) == 0 && S_ISDIR(st.st_mode)) {
		*ret = TAKE_PTR(real);
		return 0;
	}
	r = err_set(e, ERR_INPUT, ENOTDIR, "workspace %s: not a folder", real);
	err_hint(e, "Name the folder that the workflow works in, not a file in it.");
	return r;
}

int place_store(const char *store_dir, const char *workspace, char **ret, struct err *e)
{
	const char *home = getenv("HOME");
	auto_free char *cwd = getcwd(NULL, 0);
	auto_free char *found = store_find_in_workspace(workspace, home);
	const struct store_where where = {
		.store_dir = store_dir,
		.workspace_store = found,
		.iterion_home = getenv("ITERION_HOME"),
		.home = home,
		.cwd = cwd,
	};

	return store_locate(&where, ret, e);
}

int place_store_here(const char *store_dir, char **ret, struct err *e)
{
	auto_free char *workspace = NULL;
	int r = place_workspace(NULL, &workspace, e);

	return r < 0 ? r : place_store(store_dir, workspace, ret, e);
}
