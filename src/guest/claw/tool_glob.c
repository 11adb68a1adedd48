/* Glob and LS: finding files by name, and looking into one folder. */
#include "args.h"
#include "glob.h"
#include "walk.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FOUND = 1000, MAX_LISTED = 2000, TEXT = 30000 };

struct found {
	char *path;
	struct timespec mtime;
};

struct search {
	struct glob *glob;
	struct found *v;
	size_t n;
	size_t cap;
};

static bool on_file(void *arg, int dirfd, const char *name, const char *path, const struct stat *st)
{
	struct search *s = arg;
	(void)dirfd, (void)name;

	if (!glob_match(s->glob, path))
		return true;
	s->v = grow_array(s->v, s->n, &s->cap, sizeof *s->v);
	s->v[s->n++] = (struct found){xstrdup(path), st->st_mtim};
	return true;
}

/* The newest first; of one age by name. */
static int newer(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->mtime.tv_sec != y->mtime.tv_sec)
		return x->mtime.tv_sec < y->mtime.tv_sec ? 1 : -1;
	if (x->mtime.tv_nsec != y->mtime.tv_nsec)
		return x->mtime.tv_nsec < y->mtime.tv_nsec ? 1 : -1;
	return strcmp(x->path, y->path);
}

/* An absolute pattern starts with a folder without wildcards: that one is searched, with the pattern behind it. */
static void split_root(char **root, const char **pattern)
{
	const char *p = *pattern, *special = strpbrk(p, "*?[{\\");
	const char *slash = p;

	if (*p != '/')
		return;
	for (const char *s = p; s < (special ? special : p + strlen(p)); s++)
		if (*s == '/')
			slash = s;
	free(*root);
	*root = slash == p ? xstrdup("/") : xstrndup(p, (size_t)(slash - p));
	*pattern = slash + 1;
}

static void write_found(const struct search *s, const char *root, int walked, struct tool_result *r)
{
	const char *slash = strcmp(root, "/") == 0 ? "" : "/";
	size_t i = 0;

	for (; i < s->n && i < MAX_FOUND && r->text.len < TEXT; i++)
		(void)buf_printf(&r->text, "%s%s%s\n", root, slash, s->v[i].path);
	if (i < s->n)
		(void)buf_printf(&r->text, "[%zu more are left out: narrow the pattern]\n", s->n - i);
	if (!s->n)
		(void)buf_puts(&r->text, "No files found.\n");
	if (walked == -EFBIG)
		(void)buf_printf(&r->text, "[the search ended after %d entries: narrow the path]\n", WALK_ENTRIES);
}

static void glob_run(struct tools *t, struct jv input, struct tool_result *r)
{
	char *got = NULL, *dir = NULL;

	bool good = arg_str(input, "pattern", &got, r) && arg_opt_path(t, input, "path", &dir, r);
	auto_free char *whole = got;
	const char *pattern = whole;
	char *root = dir ? dir : xstrdup(t->work_dir);
	if (good)
		split_root(&root, &pattern);
	struct search s = {.glob = good ? glob_new(pattern) : NULL};
	if (good && !s.glob)
		tool_fail(r, "pattern is malformed or longer than %d characters.", GLOB_MAX);
	if (s.glob) {
		struct walk_opts o = {.file = on_file, .arg = &s};
		o.everything = strstr(pattern, "node_modules") || strstr(pattern, ".git/");
		int walked = walk_tree(root, &o);
		if (s.n)
			qsort(s.v, s.n, sizeof *s.v, newer);
		if (walked < 0 && walked != -EFBIG)
			tool_fail(r, "%s cannot be searched: %s.", root, strerror(-walked));
		else
			write_found(&s, root, walked, r);
	}
	for (size_t i = 0; i < s.n; i++)
		free(s.v[i].path);
	free(s.v);
	glob_free(s.glob);
	free(root);
}

static void list_entry(int dirfd, const char *name, struct tool_result *r)
{
	struct stat st;
	bool known = fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	(void)buf_printf(&r->text, "%s%s\n", name,
			 !known		       ? ""
			 : S_ISDIR(st.st_mode) ? "/"
			 : S_ISLNK(st.st_mode) ? "@"
					       : "");
}

static bool ignored(struct jv ignore, const char *name)
{
	for (struct jv x = jv_first(ignore); x.doc; x = jv_next(x)) {
		auto_free char *pattern = jv_cstr(x);
		struct glob *g = pattern ? glob_new(pattern) : NULL;
		bool hit = g && glob_match(g, name);
		glob_free(g);
		if (hit)
			return true;
	}
	return false;
}

static void ls_run(struct tools *t, struct jv input, struct tool_result *r)
{
	struct jv ignore = jv_get(input, "ignore");
	auto_strv names = {0};
	char *got = NULL;

	bool good = arg_opt_path(t, input, "path", &got, r);
	auto_free char *path = got ? got : xstrdup(t->work_dir);
	if (good && ignore.doc && jv_type(ignore) != J_NULL)
		good = arg_list(input, "ignore", &ignore, r);
	if (!good)
		return;
	auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int again = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	int read = again < 0 ? -errno : walk_names(again, &names, WALK_ENTRIES);
	if (read < 0) {
		tool_fail(r, "%s cannot be listed: %s.", path, strerror(-read));
		return;
	}
	size_t shown = 0;
	for (size_t i = 0; i < names.n; i++) {
		if (ignored(ignore, names.v[i]))
			continue;
		if (++shown > MAX_LISTED || r->text.len > TEXT) {
			(void)buf_printf(&r->text, "[%zu names follow and are left out]\n", names.n - i);
			return;
		}
		list_entry(fd, names.v[i], r);
	}
	if (!shown)
		(void)buf_puts(&r->text, "(nothing)\n");
}

const struct tool tool_glob = {
	.name = "Glob",
	.description =
		"Finds files by a pattern such as **/*.c or src/{a,b}/*.js: * within a name, ** over folders. The "
		"newest come first. .git and node_modules are passed over unless the pattern names them.",
	.schema =
		"{\"type\":\"object\",\"properties\":{\"pattern\":{\"type\":\"string\"},\"path\":{\"type\":\"string\","
		"\"description\":\"folder to search; the working folder when absent\"}},\"required\":[\"pattern\"]}",
	.flags = TOOL_READS | TOOL_WORKER,
	.run = glob_run,
};

const struct tool tool_ls = {
	.name = "LS",
	.description = "Lists one folder by name: folders end in /, symlinks in @.",
	.schema = "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\",\"description\":\"absolute "
		  "path\"},\"ignore\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"patterns "
		  "of names to leave out\"}},\"required\":[\"path\"]}",
	.flags = TOOL_READS | TOOL_WORKER,
	.run = ls_run,
};
