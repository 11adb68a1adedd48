/* The room: where git works on the host without doing what the repository says.
 *
 * The common git folder can be written from inside a sandbox, so after a run (and, for what an earlier run left there,
 * before one) nothing in it may decide which program runs on the host. git takes such decisions from its configuration:
 * hooks, filters, merge and diff drivers, the file system monitor, pagers, editors, signing, transports, helpers of all
 * kinds; the list grows with every release. So it is not a list that keeps us safe: git simply never reads that
 * configuration while it touches files. The room is a small git folder below the run's own, which no sandbox shows. Its
 * config is written here, and system and user configuration are switched off; only the objects are the repository's,
 * and they are data. What a file's attributes ask for is then not defined, and git takes the content as it is.
 *
 * Only references have to be read and written in the repository itself. The commands for that run one kind of program,
 * hooks, and those are switched off on the command line, which comes over all files; transports are too, because a
 * repository can claim that its objects are elsewhere. Before anything is written there, the folders on the way are
 * looked at: a symlink among them would lead the host's hand elsewhere.
 *
 * The questions before the run (worktree_plan) go to the repository as the user has it: reading configuration and
 * references runs nothing. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *host_value(const struct worktree *w, const char *name)
{
	size_t len = strlen(name);

	for (const char *const *v = w->p.host_env; v && *v; v++)
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
			return *v + len + 1;
	return NULL;
}

char *room_file(const struct worktree *w, const char *name)
{
	return path_join(w->room, name);
}

/* What no git of ours may do, wherever it works. */
static void set_common(struct git_command *c)
{
	static const char *const pairs[][2] = {
		{"PATH", "/usr/local/bin:/usr/bin:/bin"},
		{"LC_ALL", "C"},
		{"GIT_TERMINAL_PROMPT", "0"},
		{"GIT_ASKPASS", "/bin/false"},
		{"SSH_ASKPASS", "/bin/false"},
		{"GIT_SSH_COMMAND", "/bin/false"},
		{"GIT_PROXY_COMMAND", "/bin/false"},
		{"GIT_EDITOR", "/bin/false"},
		{"GIT_SEQUENCE_EDITOR", "/bin/false"},
		{"GIT_PAGER", "cat"},
		/* No transport at all; a partial clone would fetch what is missing. */
		{"GIT_ALLOW_PROTOCOL", "none"},
		{"GIT_NO_LAZY_FETCH", "1"},
		{"GIT_NO_REPLACE_OBJECTS", "1"},
		{"GIT_ATTR_NOSYSTEM", "1"},
		{"GIT_OPTIONAL_LOCKS", "0"},
	};

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
		strv_set_env(&c->env, pairs[i][0], pairs[i][1]);
	GIT_ARGS(c, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat", "-c",
		 "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.allow=never", "-c",
		 "submodule.recurse=false", "-c", "diff.ignoreSubmodules=all", "-c", "core.alternateRefsCommand=");
}

static void no_configuration(struct git_command *c)
{
	strv_set_env(&c->env, "GIT_CONFIG_NOSYSTEM", "1");
	strv_set_env(&c->env, "GIT_CONFIG_SYSTEM", "/dev/null");
	strv_set_env(&c->env, "GIT_CONFIG_GLOBAL", "/dev/null");
}

void room_ask_env(const struct worktree *w, struct git_command *c)
{
	static const char *const names[] = {
		"HOME", "XDG_CONFIG_HOME", "USER", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"};

	set_common(c);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (host_value(w, names[i]))
			strv_set_env(&c->env, names[i], host_value(w, names[i]));
	GIT_ARGS(c, "-C", w->p.workspace);
}

void room_real(const struct worktree *w, struct git_command *c)
{
	set_common(c);
	no_configuration(c);
	strv_set_env(&c->env, "GIT_DIR", w->common);
	room_identity(w, c);
}

void room_clean(const struct worktree *w, struct git_command *c, const char *index, const char *tree)
{
	auto_free char *objects = path_join(w->common, "objects");

	set_common(c);
	no_configuration(c);
	strv_set_env(&c->env, "GIT_DIR", w->room);
	strv_set_env(&c->env, "GIT_OBJECT_DIRECTORY", objects);
	if (index)
		strv_set_env(&c->env, "GIT_INDEX_FILE", index);
	if (tree) {
		strv_set_env(&c->env, "GIT_WORK_TREE", tree);
		c->cwd = tree;
	}
	GIT_ARGS(c, "-c", tree ? "core.bare=false" : "core.bare=true");
}

/* The user's words for himself: from the environment as git would, else from his configuration. */
void room_identity(const struct worktree *w, struct git_command *c)
{
	static const char *const names[] = {"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL",
					    "GIT_COMMITTER_EMAIL"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *own = host_value(w, names[i]);
		strv_set_env(&c->env, names[i], own && *own ? own : i < 2 ? w->who.name : w->who.email);
	}
}

/* A value in the syntax of git's configuration. */
static void put_value(struct buf *b, const char *key, const char *value)
{
	if (!value)
		return;
	(void)buf_printf(b, "\t%s = \"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			(void)buf_putc(b, '\\');
		(void)buf_putc(b, *value == '\n' ? ' ' : *value);
	}
	(void)buf_puts(b, "\"\n");
}

static void write_config(const struct worktree *w, struct buf *b)
{
	bool other = !str_eq(w->format, "sha1");

	(void)buf_printf(b, "[core]\n\trepositoryformatversion = %d\n\tlogAllRefUpdates = false\n", other);
	put_value(b, "attributesFile", "/dev/null");
	put_value(b, "excludesFile", w->excludes ? w->excludes : "/dev/null");
	put_value(b, "autocrlf", w->autocrlf);
	put_value(b, "eol", w->eol);
	if (other) {
		(void)buf_puts(b, "[extensions]\n");
		put_value(b, "objectFormat", w->format);
	}
}

/* Files of the repository that are data, read where they are. */
static int link_data(const struct worktree *w, int room, struct err *e)
{
	static const char *const names[] = {"shallow", "info/exclude"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *there = path_join(w->common, names[i]);
		if (access(there, F_OK) == 0 && symlinkat(there, room, names[i]) < 0 && errno != EEXIST)
			return err_sys(e, errno, "link %s", there);
	}
	return 0;
}

int room_make(const struct worktree *w, struct err *e)
{
	static const char head[] = "ref: refs/heads/none\n";
	static const char *const folders[] = {"refs/heads", "info", "objects"};
	auto_buf config = BUF_INIT(64 * 1024);
	int r = dir_make(AT_FDCWD, w->room, 0700, e);

	auto_fd fd = r < 0 ? r : dir_open(AT_FDCWD, w->room, e);
	if (fd < 0)
		return fd;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(folders); i++)
		r = dir_make(fd, folders[i], 0700, e);
	write_config(w, &config);
	if (r == 0)
		r = file_replace(fd, "config", config.data, config.len, 0600, FILE_NO_SYNC, e);
	if (r == 0)
		r = file_replace(fd, "HEAD", head, sizeof head - 1, 0600, FILE_NO_SYNC, e);
	return r < 0 ? r : link_data(w, fd, e);
}

/* One place in the common folder: missing, or reached without a symlink. */
static int check_place(int common, const char *name, struct err *e)
{
	auto_fd fd = file_open_resolve(common, name, O_PATH | O_NOFOLLOW,
				       RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	struct stat st;

	if (fd == -ENOENT)
		return 0;
	if (fd >= 0 && fstat(fd, &st) == 0 && (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink == 1)))
		return 0;
	int r = err_set(e, ERR_PREFLIGHT, ELOOP,
			"the repository's %s is, or lies behind, a link or something that is no file", name);
	err_hint(e,
		 "git would write through it to somewhere else; look at it, and put the file or folder itself there");
	return r;
}

/* The folders on the way to a reference, and itself, below refs or logs. */
static int check_way(int common, const char *top, const char *branch, struct err *e)
{
	auto_free char *path = xasprintf("%s/refs/heads/%s", top, branch);
	int r = 0;

	for (char *slash = strchr(path, '/'); r == 0 && slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		r = check_place(common, *path == '.' ? path + 2 : path, e);
		*slash = '/';
	}
	return r < 0 ? r : check_place(common, *path == '.' ? path + 2 : path, e);
}

static int check_objects(int common, struct err *e)
{
	int r = check_place(common, "objects/pack", e);

	for (unsigned i = 0; r == 0 && i < 256; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "objects/%02x", i);
		r = check_place(common, name, e);
	}
	return r;
}

int room_check_layout(const struct worktree *w, const char *branch, struct err *e)
{
	static const char *const places[] = {"objects", "worktrees", "packed-refs", "packed-refs.lock", "logs/HEAD"};
	auto_fd fd = dir_open(AT_FDCWD, w->common, e);
	int r = fd < 0 ? fd : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(places); i++)
		r = check_place(fd, places[i], e);
	if (r == 0)
		r = check_objects(fd, e);
	if (r == 0)
		r = check_way(fd, ".", branch, e);
	return r < 0 ? r : check_way(fd, "logs", branch, e);
}
