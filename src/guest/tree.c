/* What packing and unpacking have in common: which paths may be, which are left out, and the summary. */
#include "tree.h"

#include <base/path.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool tree_path_ok(const char *path, size_t len)
{
	size_t depth = 0;

	if (len == 0 || len > TREE_PATH_MAX || memchr(path, '\0', len))
		return false;
	for (size_t at = 0; at <= len;) {
		const char *slash = memchr(path + at, '/', len - at);
		size_t part = slash ? (size_t)(slash - path) - at : len - at;
		if (part == 0 || (part == 1 && path[at] == '.') || (part == 2 && memcmp(path + at, "..", 2) == 0) ||
		    ++depth > TREE_DEPTH_MAX)
			return false;
		at += part + 1;
	}
	return true;
}

void tree_tell(const struct tree_sum *s)
{
	fprintf(stderr, "iterion-tree %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", s->files, s->bytes, s->gone,
		s->skipped);
}

int tree_options(int argc, char **argv, const char *flag, bool *ret_flag, struct tree_without *ret)
{
	size_t n = 0;

	*ret_flag = false;
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], flag) == 0) {
			*ret_flag = true;
		} else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc) {
			/* The arguments' own array has room for them. */
			argv[n++] = argv[++i];
		} else {
			return -EINVAL;
		}
	}
	*ret = (struct tree_without){.v = (const char *const *)argv, .n = n};
	return 0;
}

bool tree_is_without(const struct tree_without *w, const char *path)
{
	for (size_t i = 0; i < w->n; i++)
		if (path_within(path, w->v[i]))
			return true;
	return false;
}

bool tree_covers_without(const struct tree_without *w, const char *path)
{
	for (size_t i = 0; i < w->n; i++)
		if (path_within(w->v[i], path))
			return true;
	return false;
}
