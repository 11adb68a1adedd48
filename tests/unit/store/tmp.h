/* A private folder for one test, removed with everything in it. */
#pragma once

#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static inline char *tmp_dir(void)
{
	const char *base = getenv("TMPDIR");
	char *path = xasprintf("%s/iterion-test-XXXXXX", base && *base ? base : "/tmp");

	if (!mkdtemp(path))
		abort();
	return path;
}

static inline void tmp_remove(char *path)
{
	if (tree_remove(AT_FDCWD, path, NULL) < 0)
		abort();
	free(path);
}

static inline char *tmp_read(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);
	char *text = NULL;

	if (file_read(AT_FDCWD, path, (size_t)1 << 30, &text, NULL, NULL) < 0)
		text = NULL;
	free(path);
	return text;
}

static inline int tmp_mode(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);
	struct stat st;
	int r = stat(path, &st);

	free(path);
	return r < 0 ? -1 : (int)(st.st_mode & 07777);
}
