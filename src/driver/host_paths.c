/* Which of the host's folders a session's sandbox may have.
 *
 * The list of sensitive places is the sandbox layer's; here it is filled with this host's facts (the environment, the
 * homes of the password file, the run store) and held against what is about to be mounted. The workspace may hold the
 * run store, since that is covered inside; another mount may not. */
#include "host_paths.h"
#include "git_dir.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <driver/session.h>
#include <sandbox/host_state.h>
#include <sandbox/mount.h>
#include <sandbox/spec.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { PASSWD_LIMIT = 4 * 1024 * 1024 };

/* Whether what lies below the home can be below the path or above it. */
static bool related(const char *home, const char *path)
{
	return !path || path_within(home, path) || path_within(path, home);
}

/* The sixth field of each line; with a path, of those homes only that have to do with it. Users of a directory service
 * are not listed there; the sandbox layer adds the usual places of homes. */
static void read_homes(struct strv *homes, const char *path)
{
	auto_free char *text = NULL;

	if (file_read(AT_FDCWD, "/etc/passwd", PASSWD_LIMIT, &text, NULL, NULL) < 0)
		return;
	char *save_line = NULL;
	for (char *line = strtok_r(text, "\n", &save_line); line; line = strtok_r(NULL, "\n", &save_line)) {
		char *field = line;
		for (int i = 0; field && i < 5; i++)
			field = strchr(field, ':') ? strchr(field, ':') + 1 : NULL;
		if (!field)
			continue;
		field[strcspn(field, ":")] = '\0';
		if (field[0] == '/' && field[1] && related(field, path) && !strv_has(homes, field))
			strv_add(homes, field);
	}
}

static struct sandbox_sensitive *places(const struct session_params *p, const char *const *homes, bool with_runs)
{
	auto_free char *runs = with_runs && p->store_dir ? path_join(p->store_dir, "runs") : NULL;
	const struct sandbox_host_facts facts = {
		.home = p->home,
		.homes = homes,
		.docker_host = getenv("DOCKER_HOST"),
		.container_host = getenv("CONTAINER_HOST"),
		.ssh_auth_sock = getenv("SSH_AUTH_SOCK"),
		.xdg_runtime_dir = getenv("XDG_RUNTIME_DIR"),
		.runs_dir = runs,
	};

	return sandbox_sensitive_new(&facts);
}

static int check_workspace(const struct session_params *p, const char *const *homes, struct err *e)
{
	struct sandbox_sensitive *s = places(p, homes, false);
	int r = sandbox_mount_check_source(s, p->workspace, e);

	sandbox_sensitive_free(s);
	return r < 0 ? err_wrap(e, r, "workspace %s", p->workspace) : 0;
}

static int check_mounts(const struct session_params *p, const char *const *homes, struct sandbox_spec *spec,
			struct err *e)
{
	struct sandbox_sensitive *s = places(p, homes, true);
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
		struct sandbox_mount *m = &spec->mounts[i];
		char *resolved;
		if (m->type != MOUNT_BIND)
			continue;
		r = sandbox_mount_resolve_source(s, m->source, &resolved, e);
		if (r == 0) {
			free(m->source);
			m->source = resolved;
		}
	}
	sandbox_sensitive_free(s);
	return r;
}

int host_paths_check(const struct session_params *p, struct sandbox_spec *spec, struct err *e)
{
	auto_strv homes = {0};

	/* Nearly every run has only its workspace: then a look at each home of the machine is not needed. */
	read_homes(&homes, spec->n_mounts > 0 ? NULL : p->workspace);
	int r = check_workspace(p, (const char *const *)homes.v, e);
	if (r == 0 && spec->n_mounts > 0)
		r = check_mounts(p, (const char *const *)homes.v, spec, e);
	return r;
}

void host_paths_add_git(const struct session_params *p, struct sandbox_spec *spec)
{
	auto_free char *common = git_common_dir(p->workspace);
	auto_strv homes = {0};
	struct err why = ERR_INIT;

	for (size_t i = 0; common && i < spec->n_mounts; i++)
		if (str_eq(spec->mounts[i].target, common))
			return;
	if (!common)
		return;
	read_homes(&homes, common);
	struct sandbox_sensitive *s = places(p, (const char *const *)homes.v, true);
	int r = sandbox_mount_check_source(s, common, &why);
	sandbox_sensitive_free(s);
	if (r < 0) {
		strv_take(&spec->warnings, xasprintf("git_not_shared=git does not work in the sandbox, which has not "
						     "the worktree's repository: %s",
						     why.msg));
		return;
	}
	struct sandbox_mount *m = sandbox_spec_add_mount(spec);
	m->type = MOUNT_BIND;
	m->source = xstrdup(common);
	m->target = TAKE_PTR(common);
	m->origin = xstrdup("git: the worktree's repository");
}

/* The folders have fixed names below HOME, but $ITERION_HOME may name any, and a link may lead anywhere. */
static int check_state(const struct session_params *p, const struct host_state_plan *plan, const char *named,
		       struct err *e)
{
	struct sandbox_sensitive *s = NULL;
	auto_strv homes = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->mounts.n; i++) {
		const char *mount = plan->mounts.v[i], *source = plan->sources.v[i];
		if (str_eq(mount, source) && !str_eq(mount, named))
			continue;
		if (!s) {
			read_homes(&homes, NULL);
			s = places(p, (const char *const *)homes.v, false);
		}
		r = sandbox_mount_check_source(s, source, e);
		if (r < 0)
			r = err_wrap(e, r, "share %s with the sandbox (--sandbox-host-state=none shares nothing)",
				     mount);
	}
	sandbox_sensitive_free(s);
	return r;
}

/* A store that --store-dir puts below a shared folder shows no runs either. */
static void cover_store(const struct session_params *p, struct host_state_plan *plan)
{
	auto_free char *store = p->store_dir ? realpath(p->store_dir, NULL) : NULL;

	for (size_t i = 0; store && i < plan->mounts.n; i++) {
		const char *source = plan->sources.v[i];
		if (!path_within(store, source))
			continue;
		const char *rest = store + strlen(source);
		auto_free char *inside = path_join(plan->mounts.v[i], rest + (*rest == '/'));
		auto_free char *runs = path_join(inside, "runs");
		if (!strv_has(&plan->covers, runs))
			strv_take(&plan->covers, TAKE_PTR(runs));
	}
}

/* The user's own store, wherever this run's is; NULL: there is none. */
static char *own_store(const struct session_params *p)
{
	const char *named = getenv("ITERION_HOME");
	auto_free char *below = p->home ? path_join(p->home, ".iterion") : NULL;

	return named && named[0] == '/' ? path_clean(named) : below ? path_clean(below) : NULL;
}

int host_paths_cover_own_store(const struct session_params *p, const char *workspace_target, const char *hidden,
			       struct host_state_plan *plan, struct err *e)
{
	auto_free char *named = own_store(p);
	auto_free char *real = named ? realpath(named, NULL) : NULL;
	const char *store = real ? real : named;

	if (!store || !path_within(store, p->workspace))
		return 0;
	for (const char *const *part = host_state_private; *part; part++) {
		auto_free char *path = path_join(store, *part);
		if (hidden && path_within(path, hidden))
			continue;
		/* Else a program inside makes it, and what it puts there is the user's own from then on. */
		int r = dir_make(AT_FDCWD, path, 0700, e);
		if (r < 0)
			return err_wrap(e, r, "hide %s from the sandbox", path);
		const char *below = path + strlen(p->workspace);
		strv_take(&plan->covers, path_join(workspace_target, below + (*below == '/')));
	}
	return 0;
}

int host_paths_state(const struct session_params *p, struct host_state_plan *ret, struct err *e)
{
	const char *named = getenv("ITERION_HOME");
	auto_free char *store = own_store(p);
	auto_free char *home = p->home ? path_clean(p->home) : NULL;
	const struct host_state_facts facts = {
		.home = home,
		.iterion_home = store,
		.workspace = p->workspace,
		.will_exist = p->artifact_files,
	};

	host_state_choose(&facts, ret);
	int checked = check_state(p, ret, named, e);
	if (checked < 0)
		return checked;
	cover_store(p, ret);
	return 0;
}

int host_paths_make_covers(const struct host_state_plan *plan, struct err *e)
{
	for (size_t i = 0; i < plan->covers.n; i++) {
		int r = dir_make(AT_FDCWD, plan->covers.v[i], 0700, e);
		if (r < 0)
			return err_wrap(e, r, "share %s with the sandbox",
					plan->mounts.n ? plan->mounts.v[0] : plan->covers.v[i]);
	}
	return 0;
}
