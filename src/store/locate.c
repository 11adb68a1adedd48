/* Where the store lies, decided from values that the caller gathered: the same answer for the command that runs, the
 * one that inspects and the test. Only the search for a repository's own .iterion looks at the file system. */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <store/locate.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int absolute(const char *path, const struct store_where *w, char **ret, struct err *e)
{
	auto_free char *full = w->cwd ? path_join(w->cwd, path) : xstrdup(path);
	char *clean = path_clean(full);

	if (!clean) {
		(void)err_set(e, ERR_INPUT, EINVAL, "store folder %s: not an absolute path", path);
		err_hint(e, "give a path that begins with /");
		return -EINVAL;
	}
	*ret = clean;
	return 0;
}

int store_locate(const struct store_where *w, char **ret, struct err *e)
{
	if (w->store_dir && !*w->store_dir) {
		(void)err_set(e, ERR_USAGE, EINVAL, "store folder: the name is empty");
		err_hint(e, "give --store-dir a folder, or leave it out");
		return -EINVAL;
	}
	if (w->store_dir)
		return absolute(w->store_dir, w, ret, e);
	if (w->workspace_store)
		return absolute(w->workspace_store, w, ret, e);
	if (w->iterion_home && *w->iterion_home)
		return absolute(w->iterion_home, w, ret, e);
	if (w->home && *w->home) {
		auto_free char *dir = path_join(w->home, ".iterion");
		return absolute(dir, w, ret, e);
	}
	(void)err_set(e, ERR_INPUT, EINVAL, "find the store: neither HOME nor ITERION_HOME is set");
	err_hint(e, "set ITERION_HOME to a folder, or give --store-dir");
	return -EINVAL;
}

static bool is_there(const char *dir, const char *name)
{
	auto_free char *path = path_join(dir, name);
	struct stat st;

	return stat(path, &st) == 0;
}

/* A folder of our own, not a link to one: what somebody else made must not decide where runs are written. */
static char *own_store(const char *dir, const char *home)
{
	auto_free char *path = path_join(dir, ".iterion");
	struct stat st;

	if (str_eq(dir, home) || lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return NULL;
	return TAKE_PTR(path);
}

/* The folder that holds .git, from dir upwards; NULL outside of a repository. */
static char *repository_of(const char *dir)
{
	auto_free char *at = xstrdup(dir);

	while (!is_there(at, ".git")) {
		if (str_eq(at, "/"))
			return NULL;
		char *parent = path_parent(at);
		free(at);
		at = parent;
	}
	return TAKE_PTR(at);
}

char *store_find_in_workspace(const char *workspace, const char *home, bool (*take)(void *arg, const char *store),
			      void *arg)
{
	auto_free char *dir = path_clean(workspace);
	auto_free char *root = dir ? repository_of(dir) : NULL;

	/* Outside of a repository only the workspace itself counts: above it may be anybody's. */
	while (dir) {
		auto_free char *found = own_store(dir, home);
		if (found && take(arg, found))
			return TAKE_PTR(found);
		if (!root || str_eq(dir, root))
			return NULL;
		char *parent = path_parent(dir);
		free(dir);
		dir = parent;
	}
	return NULL;
}
