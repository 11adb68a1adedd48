/* Where a command works. Paths are resolved here once; the layers below get absolute ones and never look at the current
 * folder or the environment. */
#include "place.h"
#include "output.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/path.h>
#include <base/str.h>
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

/* The user's own store, of which neither the workspace nor the command line says anything. */
static int home_store(char **ret, struct err *e)
{
	auto_free char *cwd = getcwd(NULL, 0);
	const struct store_where where = {.iterion_home = getenv("ITERION_HOME"), .home = getenv("HOME"), .cwd = cwd};

	return store_locate(&where, ret, e);
}

/* A folder with runs that this user's iterion did not make may be a trap (store/known.c). */
static bool is_ours(void *arg, const char *store)
{
	auto_free char *home = NULL;

	(void)arg;
	if (!store_has_runs(store) || (home_store(&home, NULL) == 0 && store_is_known(store, home)))
		return true;
	show_warning("%s is not used as the store: its runs were not made by this user's iterion here, so a program in "
		     "a sandbox may have made them. If they are yours, name it once: --store-dir %s with run or resume",
		     store, store);
	return false;
}

void place_keep_store(const char *store)
{
	struct err e = ERR_INIT;
	auto_free char *home = NULL;

	/* Only a folder of this name is ever looked for. */
	if (!str_eq(path_base(store), ".iterion"))
		return;
	int r = home_store(&home, &e);
	if (r == 0 && !str_eq(home, store))
		r = store_keep_known(store, home, &e);
	if (r < 0)
		show_warning("later commands will not use the store %s unless it is named: %s", store, e.msg);
}

int place_store(const char *store_dir, const char *workspace, char **ret, struct err *e)
{
	const char *home = getenv("HOME");
	auto_free char *cwd = getcwd(NULL, 0);
	auto_free char *found = store_dir ? NULL : store_find_in_workspace(workspace, home, is_ours, NULL);
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
