/* What of the user's own state a sandbox shares (host_state: auto).
 *
 * Two rules leave things out quietly, and are listed so that the audit trail has them: what does not exist is not made
 * (an empty ~/.npm is none of our business), and what lies in the workspace is there already. The folder of the run
 * store is shared without what it holds of runs: no run may see another, forge its own record, or change an image that
 * others start from. Those parts are covered whether they exist or not, since another run may make them later. */
#include <sandbox/host_state.h>

#include <base/cleanup.h>
#include <base/mem.h>
#include <base/path.h>

#include <stdlib.h>
#include <sys/stat.h>

static const char *const below_home[] = {
	".claude",    ".cache/go-build", "go/pkg/mod",	    ".npm", ".local/share/pnpm", ".cache/yarn",
	".cache/pip", ".cache/uv",	 ".cargo/registry",
};

const char *const host_state_private[] = {"runs", "worktrees", "images", NULL};

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void skip(struct host_state_plan *p, const char *path, const char *reason)
{
	strv_add(&p->skipped, path);
	strv_add(&p->reasons, reason);
}

/* Whether the path is mounted. */
static bool choose(const struct host_state_facts *f, struct host_state_plan *p, const char *path)
{
	auto_free char *real = is_folder(path) ? realpath(path, NULL) : NULL;

	if (!real && f->will_exist && path_within(f->will_exist, path))
		real = xstrdup(path);
	if (f->workspace && path_within(real ? real : path, f->workspace)) {
		skip(p, path, "it lies in the workspace");
		return false;
	}
	if (!real) {
		skip(p, path, "it does not exist");
		return false;
	}
	strv_add(&p->mounts, path);
	strv_take(&p->sources, TAKE_PTR(real));
	return true;
}

static void choose_store(const struct host_state_facts *f, struct host_state_plan *p)
{
	if (!choose(f, p, f->iterion_home))
		return;
	for (const char *const *part = host_state_private; *part; part++)
		strv_take(&p->covers, path_join(f->iterion_home, *part));
}

void host_state_choose(const struct host_state_facts *f, struct host_state_plan *ret)
{
	*ret = (struct host_state_plan){0};
	if (f->iterion_home)
		choose_store(f, ret);
	for (size_t i = 0; f->home && i < ARRAY_LEN(below_home); i++) {
		auto_free char *path = path_join(f->home, below_home[i]);
		(void)choose(f, ret, path);
	}
}

void host_state_done(struct host_state_plan *p)
{
	strv_done(&p->mounts);
	strv_done(&p->sources);
	strv_done(&p->covers);
	strv_done(&p->skipped);
	strv_done(&p->reasons);
}
