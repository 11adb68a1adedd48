/* The program of an agent in a sandbox that shows the host's programs.
 *
 * Such a sandbox has the host's system folders, but an empty HOME, which is where most people have claude: by its own
 * installer, by npm with a prefix of theirs, in ~/.claude/local. So the place where the program really is, links
 * followed, is shared read-only, with the packages beside it when npm put it there, and is run by that very path when
 * it is not on the PATH inside. An image has programs of its own and gets nothing. */
#include <backend/share.h>

#include <backend/backend.h>
#include <base/cleanup.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/spec.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char modules[] = "/node_modules/";
static const char *const shown[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix"};

static const char *value_of(const char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

/* Its real path when it is a program, else NULL. */
static char *real_program(const char *path)
{
	struct stat st;

	if (path[0] != '/' || access(path, X_OK) < 0 || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	return realpath(path, NULL);
}

char *backend_program_path(const struct backend_program *p, const char *const *host_env)
{
	const char *path = value_of(host_env, "PATH"), *home = value_of(host_env, "HOME");
	auto_free char *list = path ? xstrdup(path) : NULL;
	char *state = NULL, *found = NULL;

	for (char *dir = list ? strtok_r(list, ":", &state) : NULL; dir && !found; dir = strtok_r(NULL, ":", &state)) {
		auto_free char *full = path_join(dir, p->name);
		found = real_program(full);
	}
	if (found || !home || !p->below_home)
		return found;
	auto_free char *local = path_join(home, p->below_home);
	return real_program(local);
}

/* What has to be there for the program: the folder of npm's packages, the folder below HOME, or the file alone. */
static char *needed(const struct backend_program *p, const char *real, const char *home)
{
	const char *packages = strstr(real, modules);

	if (packages)
		return xstrndup(real, (size_t)(packages - real) + sizeof modules - 2);
	if (home && p->below_home) {
		auto_free char *local = path_join(home, p->below_home);
		auto_free char *folder = path_parent(local);
		auto_free char *real_folder = realpath(folder, NULL);
		if (real_folder && path_within(real, real_folder))
			return TAKE_PTR(real_folder);
	}
	return xstrdup(real);
}

static bool is_there(const char *path, const char *workspace, const struct sandbox_spec *spec)
{
	for (size_t i = 0; i < ARRAY_LEN(shown); i++)
		if (path_within(path, shown[i]))
			return true;
	for (size_t i = 0; i < spec->n_mounts; i++)
		if (spec->mounts[i].target && path_within(path, spec->mounts[i].target))
			return true;
	return path_within(path, workspace);
}

void backend_share_program(const struct backend_ops *ops, const char *const *host_env, const char *workspace,
			   struct sandbox_spec *spec)
{
	if (!ops->program || spec->mode == SANDBOX_NONE || spec->image || spec->build.dockerfile)
		return;
	auto_free char *real = backend_program_path(ops->program, host_env);
	if (!real || is_there(real, workspace, spec))
		return;
	char *path = needed(ops->program, real, value_of(host_env, "HOME"));
	struct sandbox_mount *m = sandbox_spec_add_mount(spec);
	*m = (struct sandbox_mount){.type = MOUNT_BIND,
				    .source = path,
				    .target = xstrdup(path),
				    .readonly = true,
				    .origin = xasprintf("the program of the backend %s", ops->name)};
}
