/* The files of a build.
 *
 * They lie in the workspace, where a sandboxed program of an earlier run may have written: symlinks are followed only
 * as long as they stay below the workspace (openat2's RESOLVE_BENEATH), and the engine is given the paths that were
 * found, not those that were written. Below the context nothing is followed at all, as the engines do it. What the
 * engine reads in the end is a copy (build_copy.c), made by the same walk that hashes.
 *
 * The hash names the image: an unchanged hash costs no build. It covers contents, not times, because a worktree or a
 * new clone has new times and the same files. Owners are left out, COPY does not keep them. The walk goes by a stack of
 * folders in sorted order, not by recursion, and has a limit of entries. */
#include "build_context.h"
#include "build_ignore.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/id.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/spec.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_ENTRIES = 200000, IGNORE_LIMIT = 1024 * 1024, CHUNK = 64 * 1024 };

static const unsigned long long below = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
static const unsigned long long no_links = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS;

/* Where a path of the workspace really is. */
static int find(int workspace, const char *path, int type, const char *what, char **ret, struct err *e)
{
	char link[32], real[PATH_MAX];
	struct stat st;
	auto_fd fd = file_open_resolve(workspace, path, O_PATH | O_CLOEXEC, below);

	if (fd < 0) {
		int r = err_sys(e, -fd, "build the image: open %s %s", what, path);
		if (fd == -EXDEV)
			err_hint(e, "A symlink leads out of the workspace; put the file itself there.");
		else
			err_hint(e, "build.%s is a path from the workspace.", what);
		return r;
	}
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "build the image: look at %s", path);
	if ((st.st_mode & S_IFMT) != (mode_t)type) {
		int r = err_set(e, ERR_INPUT, EINVAL, "build the image: %s %s: it is no %s", what, path,
				type == S_IFDIR ? "folder" : "file");
		err_hint(e, "dockerfile names a file, context the folder that its COPY reads from.");
		return r;
	}
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, real, sizeof real - 1);
	if (n < 0)
		return err_sys(e, errno, "build the image: find %s", path);
	*ret = xstrndup(real, (size_t)n);
	return 0;
}

int build_context_find(const char *workspace, const struct sandbox_build *b, struct build_context *ret, struct err *e)
{
	auto_fd root = dir_open(AT_FDCWD, workspace, e);
	struct build_context c = {0};

	if (root < 0)
		return root;
	int r = find(root, b->dockerfile, S_IFREG, "dockerfile", &c.dockerfile, e);
	if (r == 0)
		r = find(root, b->context ? b->context : ".", S_IFDIR, "context", &c.folder, e);
	if (r < 0)
		build_context_done(&c);
	else
		*ret = c;
	return r;
}

void build_context_done(struct build_context *c)
{
	free(TAKE_PTR(c->dockerfile));
	free(TAKE_PTR(c->folder));
	build_copy_remove(&c->copy);
}

struct walk {
	int root;
	struct sha256_ctx sum;
	struct build_ignore *ignore;   /* NULL: nothing is kept out */
	const char *hidden;	       /* relative to the context, or NULL */
	struct strv folders;	       /* still to be read */
	const struct build_copy *copy; /* NULL: nothing is copied */
	size_t entries;
	const atomic_bool *stop;
};

static void add(struct sha256_ctx *sum, const void *data, size_t len)
{
	sha256_update(sum, len, data);
}

/* With its NUL, so that no two lists of texts read the same. */
static void add_text(struct sha256_ctx *sum, const char *s)
{
	add(sum, s, strlen(s) + 1);
}

static int copy_failed(int r, const char *path, struct err *e)
{
	(void)err_sys(e, -r, "build the image: copy %s", path);
	err_hint(e, "Set TMPDIR to a folder with room for the build's context, or keep files out by a .dockerignore.");
	return r;
}

/* Hashes what is read, and writes it to the copy (-1: none). */
static int add_bytes(struct walk *w, int fd, int to, const char *path, struct err *e)
{
	struct sha256_ctx one;
	uint8_t digest[SHA256_DIGEST_SIZE];
	auto_free uint8_t *chunk = xmalloc(CHUNK);
	ssize_t n;

	sha256_init(&one);
	while ((n = read(fd, chunk, CHUNK)) != 0) {
		if (atomic_load(w->stop))
			return err_set(e, ERR_CANCELLED, ECANCELED, "build the image: the run was cancelled");
		if (n < 0 && errno != EINTR)
			return err_sys(e, errno, "build the image: read %s", path);
		if (n > 0)
			sha256_update(&one, (size_t)n, chunk);
		int r = n > 0 && to >= 0 ? fd_write_all(to, chunk, (size_t)n) : 0;
		if (r < 0)
			return copy_failed(r, path, e);
	}
	sha256_digest(&one, sizeof digest, digest);
	add(&w->sum, digest, sizeof digest);
	return 0;
}

/* target: where the copy has it. */
static int add_content(struct walk *w, int fd, const char *path, const char *target, struct err *e)
{
	struct stat st;
	auto_fd to = w->copy ? build_copy_file(w->copy, target) : -1;

	if (w->copy && to < 0)
		return copy_failed(to, path, e);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INPUT, ESTALE, "build the image: %s: another kind of file stands there by now",
			       path);
	int r = add_bytes(w, fd, to, path, e);
	if (r < 0 || !w->copy)
		return r;
	r = build_copy_finish(to, &st);
	return r < 0 ? copy_failed(r, path, e) : 0;
}

static int add_file(struct walk *w, const char *path, struct err *e)
{
	auto_fd fd = file_open_resolve(w->root, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, no_links);

	if (fd < 0)
		return err_sys(e, -fd, "build the image: open %s in the context", path);
	return add_content(w, fd, path, path, e);
}

static int enter_later(struct walk *w, const char *path, mode_t mode, struct err *e)
{
	int r = w->copy ? build_copy_folder(w->copy, path, mode) : 0;

	strv_add(&w->folders, path);
	return r < 0 ? copy_failed(r, path, e) : 0;
}

static int add_entry(struct walk *w, const char *path, struct err *e)
{
	struct stat st;
	char head[64], target[PATH_MAX];

	if (fstatat(w->root, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "build the image: look at %s in the context", path);
	(void)snprintf(head, sizeof head, "%o", st.st_mode);
	add_text(&w->sum, path);
	add_text(&w->sum, head);
	if (S_ISREG(st.st_mode))
		return add_file(w, path, e);
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(w->root, path, target, sizeof target - 1);
		if (n < 0)
			return err_sys(e, errno, "build the image: read the symlink %s", path);
		target[n] = '\0';
		add_text(&w->sum, target);
		int r = w->copy ? build_copy_link(w->copy, path, target) : 0;
		return r < 0 ? copy_failed(r, path, e) : 0;
	}
	return S_ISDIR(st.st_mode) ? enter_later(w, path, st.st_mode, e) : 0;
}

/* Whether the entry is kept out of the context and nothing below it can be in. */
static bool is_out(const struct walk *w, const char *path)
{
	return w->ignore && build_ignore_matches(w->ignore, path);
}

static int check_hidden(const struct walk *w, const char *path, struct err *e)
{
	if (!w->hidden || !str_eq(path, w->hidden))
		return 0;
	int r = err_set(e, ERR_INPUT, EPERM, "build the image: the context holds the run store %s", path);
	err_hint(e, "Add the line \"%s\" to the context's .dockerignore: other runs must not get into the image.",
		 path);
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(int root, const char *folder, struct strv *ret, struct err *e)
{
	int fd = file_open_resolve(root, *folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
				   no_links);
	auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		int r = err_sys(e, fd < 0 ? -fd : errno, "build the image: open the context's folder %s", folder);
		close_quietly(fd);
		return r;
	}
	while ((errno = 0, entry = readdir(dir)))
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			strv_add(ret, entry->d_name);
	if (errno)
		return err_sys(e, errno, "build the image: read the context's folder %s", folder);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof *ret->v, by_name);
	return 0;
}

static int add_folder(struct walk *w, const char *folder, struct err *e)
{
	auto_strv names = {0};
	int r = read_names(w->root, folder, &names, e);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		auto_free char *path = path_join(folder, names.v[i]);
		if (is_out(w, path)) {
			/* Itself it is out; what an exception names below it may be in. */
			struct stat st;
			if (build_ignore_has_exceptions(w->ignore) &&
			    fstatat(w->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
				r = enter_later(w, path, st.st_mode, e);
			continue;
		}
		r = check_hidden(w, path, e);
		if (r == 0)
			r = add_entry(w, path, e);
		if (r == 0 && ++w->entries > MAX_ENTRIES) {
			r = err_set(e, ERR_INPUT, E2BIG, "build the image: the context has more than %d files",
				    MAX_ENTRIES);
			err_hint(e, "Name a smaller folder in build.context, or keep files out by a .dockerignore.");
		}
		if (r == 0 && atomic_load(w->stop))
			r = err_set(e, ERR_CANCELLED, ECANCELED, "build the image: the run was cancelled");
	}
	return r;
}

static int add_all(struct walk *w, struct err *e)
{
	int r = 0;

	strv_add(&w->folders, "");
	while (r == 0 && w->folders.n) {
		w->folders.n--;
		auto_free char *folder = TAKE_PTR(w->folders.v[w->folders.n]);
		r = add_folder(w, folder, e);
	}
	return r;
}

/* Engines differ in which other file goes before it; where there is one, everything counts. */
static int read_ignore(struct walk *w, const struct build_context *c, struct err *e)
{
	auto_free char *own = xasprintf("%s.dockerignore", c->dockerfile);
	auto_free char *text = NULL;
	size_t len;
	struct stat st;

	if (faccessat(w->root, ".containerignore", F_OK, AT_SYMLINK_NOFOLLOW) == 0 || access(own, F_OK) == 0 ||
	    fstatat(w->root, ".dockerignore", &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	int r = file_read(w->root, ".dockerignore", IGNORE_LIMIT, &text, &len, e);
	if (r < 0)
		return err_wrap(e, r, "build the image");
	w->ignore = build_ignore_new(text, len);
	add_text(&w->sum, "ignore");
	add(&w->sum, text, len);
	return 0;
}

/* The paths were resolved: one that became a link since is an attack. */
static int reopen(const char *path, int flags, struct err *e)
{
	int fd = file_open_resolve(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags, RESOLVE_NO_SYMLINKS);

	return fd < 0 ? err_sys(e, -fd, "build the image: open %s", path) : fd;
}

static int add_dockerfile(struct walk *w, const struct build_context *c, struct err *e)
{
	auto_fd fd = reopen(c->dockerfile, 0, e);

	return fd < 0 ? fd : add_content(w, fd, c->dockerfile, "../Dockerfile", e);
}

/* The engine's own lists of what is kept out, as far as the walk has not copied them; they are hashed twice then, and
 * the copy alone is made of them, so that the name of the image does not change. */
static int copy_lists(const struct walk *w, const struct build_context *c, struct err *e)
{
	auto_free char *own = xasprintf("%s.dockerignore", c->dockerfile);
	auto_free char *shared = path_join(c->folder, ".dockerignore");
	const struct {
		const char *path, *target;
	} rows[] = {{own, "../Dockerfile.dockerignore"}, {shared, ".dockerignore"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct walk copying = {.copy = w->copy, .stop = w->stop};
		auto_fd fd = reopen(rows[i].path, 0, NULL);
		if (fd < 0 || faccessat(w->copy->fd, rows[i].target, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		sha256_init(&copying.sum);
		int r = add_content(&copying, fd, rows[i].path, rows[i].target, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static void add_options(struct walk *w, const struct sandbox_build *b)
{
	add_text(&w->sum, b->target ? b->target : "");
	for (size_t i = 0; i < b->args.n; i++)
		add_text(&w->sum, b->args.v[i]);
	add_text(&w->sum, "");
}

static int walk_all(const struct build_context *c, const struct sandbox_build *b, const char *hidden,
		    const atomic_bool *stop, const struct build_copy *copy, char ret[BUILD_HASH_SIZE], struct err *e)
{
	auto_fd root = reopen(c->folder, O_DIRECTORY, e);
	struct walk w = {.root = root, .stop = stop, .copy = copy};
	uint8_t digest[SHA256_DIGEST_SIZE];

	if (root < 0)
		return root;
	if (hidden && path_within(hidden, c->folder))
		w.hidden = hidden + strlen(c->folder) + (c->folder[1] != '\0');
	sha256_init(&w.sum);
	add_options(&w, b);
	int r = add_dockerfile(&w, c, e);
	if (r == 0)
		r = read_ignore(&w, c, e);
	if (r == 0)
		r = add_all(&w, e);
	if (r == 0 && copy)
		r = copy_lists(&w, c, e);
	sha256_digest(&w.sum, sizeof digest, digest);
	build_ignore_free(w.ignore);
	strv_done(&w.folders);
	if (r < 0)
		return r;
	hex_encode(ret, digest, sizeof digest);
	return 0;
}

int build_context_hash(const struct build_context *c, const struct sandbox_build *b, const char *hidden,
		       const atomic_bool *stop, char ret[BUILD_HASH_SIZE], struct err *e)
{
	return walk_all(c, b, hidden, stop, NULL, ret, e);
}

int build_context_copy(struct build_context *c, const struct sandbox_build *b, const char *hidden,
		       const atomic_bool *stop, char ret[BUILD_HASH_SIZE], struct err *e)
{
	int r = build_copy_make(&c->copy, e);

	if (r == 0)
		r = walk_all(c, b, hidden, stop, &c->copy, ret, e);
	if (r < 0)
		return r;
	free(c->dockerfile);
	free(c->folder);
	c->dockerfile = path_join(c->copy.top, "Dockerfile");
	c->folder = path_join(c->copy.top, "context");
	return 0;
}
