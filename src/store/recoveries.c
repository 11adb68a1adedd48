/* The records of nodes that began again, read back: for people, so what is damaged is left out and nothing fails. */
#include "record.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/read.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { RECOVERIES_MAX = 10000, RECOVERY_MAX = 1024 * 1024 };

static json_t *read_one(int dir, const char *name)
{
	auto_free char *text = NULL;
	size_t len;

	if (!str_ends(name, ".json") || file_read(dir, name, RECOVERY_MAX, &text, &len, NULL) < 0)
		return NULL;
	json_t *j = json_parse(text, len, NULL);
	if (json_get_str(j, "node_id"))
		return j;
	json_decref(j);
	return NULL;
}

static int earlier_first(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;
	const char *s = json_get_str(*x, "began_at"), *t = json_get_str(*y, "began_at");
	int c = strcmp(s ? s : "", t ? t : "");

	return c ? c : strcmp(json_get_str(*x, "node_id"), json_get_str(*y, "node_id"));
}

json_t *store_read_recoveries(const char *store_dir, const char *run_id)
{
	auto_fd run = record_open_dir(store_dir, run_id, NULL);
	int fd = run < 0 ? -1 : openat(run, "recoveries", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_dir d = fd < 0 ? NULL : fdopendir(fd);
	auto_free json_t **v = NULL;
	size_t n = 0, cap = 0;
	const struct dirent *ent;
	json_t *all = json_array();

	while (d && n < RECOVERIES_MAX && (ent = readdir(d))) {
		json_t *j = read_one(dirfd(d), ent->d_name);
		if (!j)
			continue;
		v = grow_array(v, n, &cap, sizeof(*v));
		v[n++] = j;
	}
	if (n)
		qsort(v, n, sizeof(*v), earlier_first);
	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(all, v[i]);
	return all;
}
