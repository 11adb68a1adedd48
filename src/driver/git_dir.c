/* A git worktree has a file .git that names its own folder in the repository (…/.git/worktrees/NAME), and that folder
 * names the repository's common one (gitrepository-layout(5), "commondir"). Inside a sandbox git needs the latter.
 *
 * The file lies in the workspace, where every node can write: it must not be able to name any folder it likes. So the
 * way back counts: the folder must lie in the repository's worktrees/, and its file gitdir must name this very .git.
 * Those are outside of the workspace, where only git on the host writes. */
#include "git_dir.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_LIMIT = 8 * 1024 };

/* The one line of a file, which names a path; relative ones begin at the folder. NULL when there is no such file. */
static char *read_path(const char *folder, const char *name, const char *prefix)
{
	auto_free char *file = path_join(folder, name);
	auto_free char *text = NULL;

	if (file_read(AT_FDCWD, file, LINE_LIMIT, &text, NULL, NULL) < 0 || !str_starts(text, prefix))
		return NULL;
	text[strcspn(text, "\r\n")] = '\0';
	const char *path = text + strlen(prefix);
	return *path ? path_join(folder, path) : NULL;
}

/* The same with all symlinks resolved. */
static char *read_real(const char *folder, const char *name, const char *prefix)
{
	auto_free char *path = read_path(folder, name, prefix);

	return path ? realpath(path, NULL) : NULL;
}

/* What every repository has: something else is not shared, whatever names it. */
static bool is_repository(const char *path)
{
	static const char *const parts[] = {"HEAD", "objects", "refs"};

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		auto_free char *part = path_join(path, parts[i]);
		if (access(part, F_OK) < 0)
			return false;
	}
	return true;
}

char *git_common_dir(const char *workspace)
{
	auto_free char *dot_git = path_join(workspace, ".git");
	auto_free char *own = read_real(workspace, ".git", "gitdir: ");
	auto_free char *common = own ? read_real(own, "commondir", "") : NULL;
	auto_free char *back = own ? read_real(own, "gitdir", "") : NULL;
	auto_free char *trees = common ? path_join(common, "worktrees") : NULL;

	if (!common || path_within(common, workspace) || path_within(workspace, common))
		return NULL;
	if (str_eq(own, trees) || !path_within(own, trees) || !str_eq(back, dot_git) || !is_repository(common))
		return NULL;
	return TAKE_PTR(common);
}
