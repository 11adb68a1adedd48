/* Where this process stands in the hierarchies of cgroups.
 *
 * /proc/self/cgroup has the path within the hierarchy, /proc/self/mountinfo where which part of the hierarchy is
 * mounted (proc(5), cgroups(7)). In a container the two need not meet: a bind shows another part, or the path leads out
 * of the cgroup namespace ("/.."). Then there is no folder of ours, which is no error but an answer. */
#include "cgroup_find.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_LIMIT = 4 * 1024 * 1024, FIELDS = 5 };

void cgroup_at_done(struct cgroup_at *at)
{
	free(TAKE_PTR(at->top));
	free(TAKE_PTR(at->own));
}

/* Whether a list with commas has the word. */
static bool list_has(const char *list, size_t len, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list, *end = list + len; p < end;) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		size_t part = (size_t)((comma ? comma : end) - p);
		if (part == n && strncmp(p, word, n) == 0)
			return true;
		p += part + 1;
	}
	return false;
}

/* The path in a line "number:controllers:path" that is the hierarchy's; NULL: none. The caller frees. */
static char *own_path(const char *text, const char *controller)
{
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		const char *list = memchr(line, ':', len);
		const char *path = list ? memchr(list + 1, ':', len - (size_t)(list + 1 - line)) : NULL;
		if (path) {
			size_t n = (size_t)(path - list - 1);
			if (controller ? list_has(list + 1, n, controller) : n == 0 && str_starts(line, "0:"))
				return xstrndup(path + 1, len - (size_t)(path + 1 - line));
		}
		line += line[len] ? len + 1 : len;
	}
	return NULL;
}

/* mountinfo writes blanks and backslashes as \ooo. */
static char *unescape(const char *s, size_t len)
{
	char *out = xmalloc(len + 1), *to = out;

	for (size_t i = 0; i < len; i++) {
		unsigned byte;
		if (s[i] == '\\' && i + 3 < len && sscanf(s + i + 1, "%3o", &byte) == 1) {
			*to++ = (char)byte;
			i += 3;
		} else {
			*to++ = s[i];
		}
	}
	*to = '\0';
	return out;
}

struct mount_line {
	char *root;
	char *point;
};

static void mount_line_done(struct mount_line *m)
{
	free(m->root);
	free(m->point);
}

/* Whether the line is a mount of the hierarchy; then with its root and place. */
static bool is_hierarchy(const char *line, size_t len, const char *controller, struct mount_line *ret)
{
	auto_free char *copy = xstrndup(line, len);
	char *tail = strstr(copy, " - "), *save = NULL;
	const char *fields[FIELDS];

	if (!tail)
		return false;
	*tail = '\0';
	const char *type = strtok_r(tail + 3, " ", &save);
	const char *source = strtok_r(NULL, " ", &save), *options = strtok_r(NULL, " ", &save);
	if (!type || !source || !str_eq(type, controller ? "cgroup" : "cgroup2") ||
	    (controller && (!options || !list_has(options, strlen(options), controller))))
		return false;
	for (size_t i = 0; i < FIELDS; i++) {
		fields[i] = strtok_r(i ? NULL : copy, " ", &save);
		if (!fields[i])
			return false;
	}
	ret->root = unescape(fields[3], strlen(fields[3]));
	ret->point = unescape(fields[4], strlen(fields[4]));
	return true;
}

/* A path with ".." leads out of what can be seen. */
static bool leads_out(const char *path)
{
	return path[0] != '/' || strstr(path, "/../") || str_ends(path, "/..");
}

int cgroup_locate(const char *mountinfo, const char *own, const char *controller, struct cgroup_at *ret)
{
	auto_free char *path = own_path(own, controller);

	if (!path || leads_out(path))
		return -ENOENT;
	for (const char *line = mountinfo; *line;) {
		__attribute__((cleanup(mount_line_done))) struct mount_line m = {0};
		size_t len = strcspn(line, "\n");
		if (is_hierarchy(line, len, controller, &m) && path_within(path, m.root)) {
			const char *below = path + (str_eq(m.root, "/") ? 0 : strlen(m.root));
			while (*below == '/')
				below++;
			ret->own = *below ? path_join(m.point, below) : xstrdup(m.point);
			ret->top = TAKE_PTR(m.point);
			return 0;
		}
		line += line[len] ? len + 1 : len;
	}
	return -ENOENT;
}

static int read_text(const char *path, struct buf *to)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_read_all(fd, to);
}

static int find(const char *own_file, const char *controller, struct cgroup_at *ret)
{
	auto_buf mounts = BUF_INIT(TEXT_LIMIT);
	auto_buf own = BUF_INIT(TEXT_LIMIT);

	int r = read_text("/proc/self/mountinfo", &mounts);
	if (r == 0)
		r = read_text(own_file, &own);
	return r < 0 ? r : cgroup_locate(buf_str(&mounts), buf_str(&own), controller, ret);
}

int cgroup_find(const char *controller, struct cgroup_at *ret)
{
	return find("/proc/self/cgroup", controller, ret);
}

int cgroup_find_of(pid_t pid, const char *controller, struct cgroup_at *ret)
{
	auto_free char *file = xasprintf("/proc/%d/cgroup", (int)pid);

	return find(file, controller, ret);
}
