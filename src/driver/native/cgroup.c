/* One sandbox's cgroup, as files in a folder (cgroups(7), and the kernel's admin-guide on both versions).
 *
 * Every function takes a folder and reads or writes small files in it, so that all of it is tested on a folder of the
 * test's own. A cgroup's owner holds a lock on its folder (flock(2)) for as long as it lives. The kernel lets go of it
 * with the owner's last breath, so whoever gets the lock may remove the folder: no process number is compared, and an
 * owner in another container is safe too. Only empty cgroups can be removed at all; what a killed owner left running
 * dies by itself within moments, and its folder waits for the next sweep. */
#include "cgroup.h"
#include "cgroup_find.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/id.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL = 64 * 1024, PERIOD_US = 100000, LEAST_QUOTA_US = 1000, MAKE_TRIES = 3, SWEEP_MOST = 65536 };

static const char prefix[] = "iterion-";

static const struct {
	enum sandbox_limit which;
	const char *controller;
} controllers[] = {{LIMIT_CPUS, "cpu"}, {LIMIT_MEMORY, "memory"}, {LIMIT_PIDS, "pids"}};

unsigned limits_wanted(const struct sandbox_limits *l)
{
	return (l->cpus > 0 ? LIMIT_CPUS : 0u) | (l->memory ? LIMIT_MEMORY : 0u) | (l->pids ? LIMIT_PIDS : 0u);
}

const char *cgroup_controller(enum sandbox_limit which)
{
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
		if (controllers[i].which == which)
			return controllers[i].controller;
	return "";
}

static int write_file(int dir, const char *name, const char *text)
{
	auto_fd fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	/* One write: the kernel takes each as a whole. */
	ssize_t n = write(fd, text, strlen(text));
	return n < 0 ? -errno : 0;
}

static int read_file(int dir, const char *name, struct buf *to)
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd_read_all(fd, to);
}

/* Which controllers a file with their names has. */
static unsigned listed(int dir, const char *name)
{
	auto_buf text = BUF_INIT(SMALL);
	unsigned found = 0;
	char *save = NULL;

	if (read_file(dir, name, &text) < 0 || text.len == 0)
		return 0;
	for (char *w = strtok_r(text.data, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
		for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
			if (str_eq(w, controllers[i].controller))
				found |= controllers[i].which;
	return found;
}

/* Only a cgroup without processes may hand controllers down, except the very root, which has no cgroup.type. */
static bool may_hand_down(int dir)
{
	auto_buf procs = BUF_INIT(SMALL);

	if (faccessat(dir, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0)
		return false;
	if (faccessat(dir, "cgroup.type", F_OK, 0) < 0)
		return true;
	return read_file(dir, "cgroup.procs", &procs) == 0 && procs.len == 0;
}

static bool may_make(int dir)
{
	return faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) == 0 &&
	       faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0;
}

int cgroup_v2_parent(const struct cgroup_at *at, unsigned wanted, char **ret, struct buf *why)
{
	auto_free char *path = xstrdup(at->own);
	unsigned seen = 0;

	for (;;) {
		auto_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 || !may_make(dir))
			break;
		unsigned down = listed(dir, "cgroup.subtree_control"), here = listed(dir, "cgroup.controllers");
		seen |= here;
		if ((down & wanted) == wanted || ((here & wanted) == wanted && may_hand_down(dir))) {
			*ret = TAKE_PTR(path);
			return 0;
		}
		if (str_eq(path, at->top))
			break;
		char *up = path_parent(path);
		free(path);
		path = up;
	}
	(void)buf_printf(why, (seen & wanted) == wanted ? "cgroups of version 2 are not handed down to this user"
			      : seen			? "version 2 has not all of the controllers here"
							: "this user may make no cgroup of version 2");
	return -ENOENT;
}

unsigned cgroup_v2_controllers(const char *folder)
{
	auto_fd dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir < 0 ? 0 : listed(dir, "cgroup.controllers");
}

int cgroup_v2_hand_down(const char *parent, unsigned wanted)
{
	auto_fd dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[16];

	if (dir < 0)
		return -errno;
	unsigned missing = wanted & ~listed(dir, "cgroup.subtree_control");
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		if (!(missing & controllers[i].which))
			continue;
		(void)snprintf(text, sizeof text, "+%s", controllers[i].controller);
		int r = write_file(dir, "cgroup.subtree_control", text);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Takes the lock, unless the folder was swept between its making and now. Nobody else may open the folder: who can, can
 * take the lock before us, and keep it. */
static int make_once(const char *path, int *ret_dir)
{
	struct stat held, named;

	if (mkdir(path, 0700) < 0)
		return -errno;
	auto_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	if (flock(dir, LOCK_EX) < 0 || fstat(dir, &held) < 0)
		return -errno;
	if (stat(path, &named) < 0 || held.st_ino != named.st_ino)
		return -ENOENT;
	*ret_dir = TAKE_FD(dir);
	return 0;
}

int cgroup_make(const char *parent, const char *name, struct cgroup *ret)
{
	auto_free char *path = path_join(parent, name);
	int r = -ENOENT;

	for (unsigned i = 0; r == -ENOENT && i < MAKE_TRIES; i++)
		r = make_once(path, &ret->dir);
	if (r < 0) {
		ret->dir = -1;
		return r;
	}
	ret->path = TAKE_PTR(path);
	return 0;
}

static long long quota_us(double cpus)
{
	double us = cpus * PERIOD_US + 0.5;

	return us < LEAST_QUOTA_US ? LEAST_QUOTA_US : (long long)us;
}

int cgroup_v2_limit(int dir, const struct sandbox_limits *l, unsigned which)
{
	char text[64];
	int r = 0;

	if (which & LIMIT_MEMORY) {
		(void)snprintf(text, sizeof text, "%" PRIu64, l->memory);
		/* Memory is what it takes in all. Without swap, or its accounting, the file is missing. */
		r = write_file(dir, "memory.swap.max", "0");
		if (r == 0 || r == -ENOENT)
			r = write_file(dir, "memory.max", text);
	}
	if (r == 0 && which & LIMIT_PIDS) {
		(void)snprintf(text, sizeof text, "%" PRIu64, l->pids);
		r = write_file(dir, "pids.max", text);
	}
	if (r == 0 && which & LIMIT_CPUS) {
		(void)snprintf(text, sizeof text, "%lld %d", quota_us(l->cpus), PERIOD_US);
		r = write_file(dir, "cpu.max", text);
	}
	return r;
}

int cgroup_v1_limit(int dir, const struct sandbox_limits *l, unsigned which)
{
	char text[64];
	int r = 0;

	if (which & LIMIT_MEMORY) {
		(void)snprintf(text, sizeof text, "%" PRIu64, l->memory);
		r = write_file(dir, "memory.limit_in_bytes", text);
		/* After the other, which it must not be below. Memory with swap: what it takes in all. */
		if (r == 0)
			r = write_file(dir, "memory.memsw.limit_in_bytes", text);
		if (r == -ENOENT)
			r = faccessat(dir, "memory.limit_in_bytes", F_OK, 0) < 0 ? -errno : 0;
	}
	if (r == 0 && which & LIMIT_PIDS) {
		(void)snprintf(text, sizeof text, "%" PRIu64, l->pids);
		r = write_file(dir, "pids.max", text);
	}
	if (r == 0 && which & LIMIT_CPUS) {
		(void)snprintf(text, sizeof text, "%d", PERIOD_US);
		r = write_file(dir, "cpu.cfs_period_us", text);
		(void)snprintf(text, sizeof text, "%lld", quota_us(l->cpus));
		if (r == 0)
			r = write_file(dir, "cpu.cfs_quota_us", text);
		/* A cgroup above allows less already (version 1 says so this way), and that holds here too. */
		if (r == -EINVAL)
			r = 0;
	}
	return r;
}

/* The number at the start of a file; false when there is none ("max"). */
static bool number_in(int dir, const char *name, unsigned long long *ret, unsigned long long *ret_second)
{
	auto_buf text = BUF_INIT(SMALL);

	return read_file(dir, name, &text) == 0 && sscanf(buf_str(&text), "%llu %llu", ret, ret_second) >= 1;
}

unsigned cgroup_v2_held(int dir, const struct sandbox_limits *l)
{
	unsigned long long n, period = 0;
	unsigned held = 0;

	if (l->memory && number_in(dir, "memory.max", &n, &period) && n <= l->memory)
		held |= LIMIT_MEMORY;
	if (l->pids && number_in(dir, "pids.max", &n, &period) && n <= l->pids)
		held |= LIMIT_PIDS;
	/* The manager rounds, and chooses its own period. */
	if (l->cpus > 0 && number_in(dir, "cpu.max", &n, &period) && period > 0 &&
	    (double)n / (double)period <= l->cpus * 1.02 + 0.001)
		held |= LIMIT_CPUS;
	return held;
}

/* The number behind a name that begins a line. */
static uint64_t count_in(int dir, const char *name, const char *key)
{
	auto_buf text = BUF_INIT(SMALL);
	size_t len = strlen(key);

	if (read_file(dir, name, &text) < 0)
		return 0;
	for (const char *line = buf_str(&text); *line;) {
		if (strncmp(line, key, len) == 0 && line[len] == ' ')
			return strtoull(line + len, NULL, 10);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return 0;
}

void cgroup_hits(int dir, struct limit_hits *to)
{
	to->memory += count_in(dir, "memory.events", "oom_kill") + count_in(dir, "memory.oom_control", "oom_kill");
	to->pids += count_in(dir, "pids.events", "max");
}

void cgroup_remove(struct cgroup *c)
{
	if (!c->path)
		return;
	/* Its processes were all beneath PID 1, which is dead; version 2 can be told once more. */
	if (rmdir(c->path) < 0 && errno == EBUSY && write_file(c->dir, "cgroup.kill", "1") == 0)
		(void)!rmdir(c->path);
	close_quietly(TAKE_FD(c->dir));
	free(TAKE_PTR(c->path));
}

/* One of ours whose owner is gone and in which nothing runs. Units of systemd are its own affair. */
static bool sweep_one(int parent, const char *name)
{
	if (!str_starts(name, prefix) || str_ends(name, ".scope"))
		return false;
	auto_fd dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0 && unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

/* Sweeps one folder; the folders that stay are added to below, when it is given. */
static size_t sweep_folder(const char *path, struct strv *below)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_dir d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	size_t n = 0;

	if (!d) {
		close_quietly(fd);
		return 0;
	}
	while ((entry = readdir(d))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (sweep_one(fd, entry->d_name))
			n++;
		else if (below && below->n < SWEEP_MOST)
			strv_take(below, path_join(path, entry->d_name));
	}
	return n;
}

size_t cgroup_sweep(const char *parent)
{
	return sweep_folder(parent, NULL);
}

size_t cgroup_sweep_tree(const char *top)
{
	auto_strv folders = {0};
	size_t n = 0;

	strv_add(&folders, top);
	for (size_t i = 0; i < folders.n; i++)
		n += sweep_folder(folders.v[i], &folders);
	return n;
}
